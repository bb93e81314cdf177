// Loops over packets in threads that others give packets to.
#include "classify.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

bool Classes::waits(const llvm::Function *function) {
  const auto [found, fresh] = waits_.try_emplace(function, false);
  if (!fresh) return found->second;
  bool any = models_.waits(function->getName());
  for (const llvm::Instruction &instruction : llvm::instructions(function))
    if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
      for (const llvm::Function *callee : points_to_.calls().callees(site)) any = any || waits(callee);
  waits_[function] = any;
  return any;
}

// Whether a call satisfies a condition somewhere in a loop.
template <typename Condition>
static bool any_callee(const Loop &loop, const CallGraph &calls, Condition condition) {
  return llvm::any_of(loop.blocks, [&](const llvm::BasicBlock *block) {
    return llvm::any_of(*block, [&](const llvm::Instruction &instruction) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      return site && llvm::any_of(calls.callees(site), condition);
    });
  });
}

bool Classes::waits_for_event(const Loop &loop) {
  const std::function<bool(const llvm::Function *)> does = [&](const llvm::Function *function) {
    const auto [found, fresh] = waits_for_event_.try_emplace(function, false);
    if (!fresh) return found->second;
    bool any = models_.waits(function->getName()) && !models_.sleeps(function->getName());
    for (const llvm::Instruction &instruction : llvm::instructions(function))
      if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
        for (const llvm::Function *callee : points_to_.calls().callees(site)) any = any || does(callee);
    waits_for_event_[function] = any;
    return any;
  };
  return any_callee(loop, points_to_.calls(), does);
}

// Whether a loop that sleeps may get data of another thread of control meanwhile: it reads memory that others write
// after a packet was received. Otherwise the loop only delays its work.
bool Classes::takes_work(const Loop &loop) const {
  if (!any_callee(loop, points_to_.calls(), [&](const llvm::Function *callee) {
        return const_cast<Classes *>(this)->waits(callee);
      }))
    return false;
  llvm::SetVector<const llvm::Function *> others;
  unsigned own = 0;
  for (const auto &[root, instances] : accesses_.roots()) {
    llvm::SetVector<const llvm::Function *> run;
    run.insert(root);
    for (size_t i = 0; i < run.size(); ++i)
      for (const llvm::Instruction &instruction : llvm::instructions(run[i]))
        if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
          for (const llvm::Function *callee : accesses_.runs(*site)) run.insert(callee);
    const bool is_own = run.contains(loop.function);
    own += is_own ? instances : 0;
    if (!is_own) others.insert(run.begin(), run.end());
  }
  if (own != 1) return true;  // several threads run the loop, and may give work to each other
  llvm::BitVector read(accesses_.count());
  for (const llvm::BasicBlock *block : loop.blocks)
    for (const llvm::Instruction &instruction : *block) {
      for (const Atom atom : accesses_.all(accesses_.of(instruction).reads)) read.set(atom);
      if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
        for (const llvm::Function *callee : accesses_.runs(*site)) read |= accesses_.may_read(callee);
    }
  const auto is_errno = [&](Atom atom) {  // of which each thread has its own
    const ObjectId object = accesses_.object_of(atom);
    return points_to_.memory().object(object).kind == ObjectKind::Library &&
           points_to_.library_name(object) == "__errno_location";
  };
  return llvm::any_of(others, [&](const llvm::Function *function) {
    return llvm::any_of(llvm::instructions(function), [&](const llvm::Instruction &instruction) {
      return reach_.contains(&instruction) &&
             llvm::any_of(accesses_.all(accesses_.of(instruction).writes),
                          [&](Atom atom) { return read.test(atom) && !is_errno(atom); });
    });
  });
}

// A thread waits for data of the receiving one, so that its outermost loops, and those in which it waits, are
// loops over packets as well.
void Classes::find_thread_loops() {
  if (receives_.calls().empty()) return;
  llvm::SetVector<const llvm::Function *> pending, chain;
  for (const Spawn &spawn : points_to_.calls().spawns())
    if (spawn.role == CallRole::Thread && !receives_.may_receive(spawn.function)) pending.insert(spawn.function);
  while (!pending.empty()) {
    const llvm::Function *function = pending.pop_back_val();
    if (function->isDeclaration() || !chain.insert(function)) continue;
    llvm::SmallPtrSet<const llvm::BasicBlock *, 16> in_loops;
    for (const Loop &loop : lifetimes_.loops(function)) {
      in_loops.insert(loop.blocks.begin(), loop.blocks.end());
      if (loop.outermost || waits_for_event(loop) || takes_work(loop)) add_loop(loop);
    }
    for (const llvm::BasicBlock &block : *function)
      for (const llvm::Instruction &instruction : block)
        if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
          for (const llvm::Function *callee : points_to_.calls().callees(site))
            if (!in_loops.contains(&block) || waits(callee)) pending.insert(callee);
  }
}

}  // namespace analyze
