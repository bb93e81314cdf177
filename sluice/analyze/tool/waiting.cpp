// Loops over packets in threads that others give packets to.
#include "classify.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

// Functions that may wait: those of a library that do, and all that call them.
void Classes::find_waiting() {
  const auto add = [this](const llvm::Function &first, llvm::DenseSet<const llvm::Function *> &to) {
    std::vector<const llvm::Function *> pending{&first};
    while (!pending.empty()) {
      const llvm::Function *function = pending.back();
      pending.pop_back();
      if (!to.insert(function).second) continue;
      for (const llvm::CallBase *site : points_to_.calls().callers(function)) pending.push_back(site->getFunction());
    }
  };
  for (const llvm::Function &function : *points_to_.calls().entered().front()->getParent()) {
    if (!models_.waits(function.getName())) continue;
    add(function, waits_);
    if (!models_.sleeps(function.getName())) add(function, waits_for_event_);
  }
}

// Which functions each root of a thread of control may run, and how many threads it may be.
void Classes::find_runs() {
  std::vector<llvm::SmallDenseSet<uint32_t>> callees;  // of cycles of the call graph, by their order
  for (const llvm::Function *function : points_to_.calls().entered()) {
    const uint32_t order = accesses_.order(function);
    if (order >= callees.size()) callees.resize(order + 1);
    for (const llvm::Instruction &instruction : llvm::instructions(function))
      if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
        for (const llvm::Function *callee : accesses_.runs(*site)) callees[order].insert(accesses_.order(callee));
  }
  std::vector<llvm::BitVector> run(callees.size(), llvm::BitVector(callees.size()));
  for (uint32_t order = 0; order < callees.size(); ++order) {  // callees before callers
    for (const uint32_t callee : callees[order])
      if (callee != order) run[order] |= run[callee];
    run[order].set(order);
  }
  for (const auto &[root, instances] : accesses_.roots()) roots_.push_back({instances, run[accesses_.order(root)]});
}

// Whether a call satisfies a condition somewhere in a loop.
static bool any_callee(const Loop &loop, const CallGraph &calls, const llvm::DenseSet<const llvm::Function *> &among) {
  return llvm::any_of(loop.blocks, [&](const llvm::BasicBlock *block) {
    return llvm::any_of(*block, [&](const llvm::Instruction &instruction) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      return site && llvm::any_of(calls.callees(site), [&](const llvm::Function *one) { return among.contains(one); });
    });
  });
}

// The memory that threads of control other than those of a root write after a packet was received.
const llvm::BitVector &Classes::written_beside(size_t root) {
  const auto [found, is_new] = written_beside_.try_emplace(root, accesses_.count());
  if (!is_new) return found->second;
  llvm::BitVector &written = found->second;
  llvm::BitVector run(roots_[root].runs.size());
  for (size_t other = 0; other < roots_.size(); ++other)
    if (other != root) run |= roots_[other].runs;
  llvm::DenseSet<uint32_t> done;  // many instructions have the same footprint
  for (const llvm::Function *function : reach_.functions()) {
    if (!run.test(accesses_.order(function))) continue;
    for (const llvm::Instruction &instruction : llvm::instructions(function)) {
      if (!reach_.contains(&instruction)) continue;
      for (const uint32_t footprint : accesses_.of(instruction).writes)
        if (done.insert(footprint).second)
          for (const Atom atom : accesses_.atoms(footprint)) written.set(atom);
    }
  }
  const Memory &memory = points_to_.memory();
  for (ObjectId object = 0; object < memory.objects(); ++object)  // of which each thread has its own
    if (memory.object(object).kind == ObjectKind::Library && points_to_.library_name(object) == "__errno_location") {
      const auto [first, last] = accesses_.range(object);
      written.reset(first, last);
    }
  return written;
}

// Whether a loop that sleeps may get data of another thread of control meanwhile: it reads memory that others write
// after a packet was received. Otherwise the loop only delays its work.
bool Classes::takes_work(const Loop &loop) {
  if (!any_callee(loop, points_to_.calls(), waits_)) return false;
  size_t own = 0;
  unsigned threads = 0;
  for (size_t root = 0; root < roots_.size(); ++root)
    if (roots_[root].runs.test(accesses_.order(loop.function))) {
      own = root;
      threads += roots_[root].instances;
    }
  if (threads != 1) return true;  // several threads run the loop, and may give work to each other
  const llvm::BitVector &written = written_beside(own);
  llvm::DenseSet<uint32_t> callees;  // of which those that call each other read the same
  for (const llvm::BasicBlock *block : loop.blocks)
    for (const llvm::Instruction &instruction : *block) {
      for (const uint32_t footprint : accesses_.of(instruction).reads)
        if (llvm::any_of(accesses_.atoms(footprint), [&](Atom atom) { return written.test(atom); })) return true;
      if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
        for (const llvm::Function *callee : accesses_.runs(*site))
          if (callees.insert(accesses_.order(callee)).second && accesses_.may_read(callee).anyCommon(written)) return true;
    }
  return false;
}

// A thread waits for data of the receiving one, so that its outermost loops, and those in which it waits, are
// loops over packets as well.
void Classes::find_thread_loops() {
  if (receives_.calls().empty()) return;
  llvm::SetVector<const llvm::Function *> pending, chain;
  for (const Spawn &spawn : points_to_.calls().spawns())
    if (spawn.role == CallRole::Thread && !receives_.may_receive(spawn.function)) pending.insert(spawn.function);
  if (pending.empty()) return;
  find_waiting();
  find_runs();
  while (!pending.empty()) {
    const llvm::Function *function = pending.pop_back_val();
    if (function->isDeclaration() || !chain.insert(function)) continue;
    llvm::SmallPtrSet<const llvm::BasicBlock *, 16> in_loops;
    for (const Loop &loop : lifetimes_.loops(function)) {
      in_loops.insert(loop.blocks.begin(), loop.blocks.end());
      if (loop.outermost || any_callee(loop, points_to_.calls(), waits_for_event_) || takes_work(loop)) add_loop(loop);
    }
    for (const llvm::BasicBlock &block : *function)
      for (const llvm::Instruction &instruction : block)
        if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
          for (const llvm::Function *callee : points_to_.calls().callees(site))
            if (!in_loops.contains(&block) || waits_.contains(callee)) pending.insert(callee);
  }
}

}  // namespace analyze
