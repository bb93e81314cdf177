#include "pruning.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"

namespace analyze {

namespace {

// All that is certain of a point is that some update before it, on each path since the packet began, set the byte. The first
// of them on a path has none before it, and is not pruned: so its own byte is set there.
class Pruner {
 public:
  Pruner(UpdatePoints &points, size_t variables, const Accesses &accesses, const Receives &receives)
      : points_(points), variables_(variables), accesses_(accesses), receives_(receives) {
    for (const Spawn &spawn : accesses.points_to().calls().spawns()) called_from_outside_.insert(spawn.function);
    for (const llvm::Function *function : receives.callbacks()) called_from_outside_.insert(function);
    for (const llvm::Function *function : accesses.points_to().calls().entered()) {
      const ObjectId *object = accesses.points_to().object_of(function);
      if (object && accesses.points_to().constraints().escaped(*object)) called_from_outside_.insert(function);
      at_return_[function] = at_entry_[function] = Bits(variables, true);
    }
  }

  size_t run() {
    find_returns();
    find_entries();
    size_t pruned = 0;
    for (const llvm::Function *function : accesses_.points_to().calls().entered()) {
      const Blocks at_end = solve(*function, at_entry_[function]);
      for (const llvm::BasicBlock &block : *function) {
        Bits set = at_begin(block, at_end, at_entry_[function]);
        for (const llvm::Instruction &instruction : block) {
          const Bits before = set;
          pass(instruction, set);
          const auto point = points_.find(&instruction);
          if (point == points_.end() || ends_packet(instruction)) continue;
          removed_[&instruction] = before;
          pruned += static_cast<size_t>(llvm::count_if(point->second, [&](unsigned number) { return before.test(number); }));
        }
      }
    }
    for (const auto &[instruction, before] : removed_)  // after all decisions, which are about all points
      points_.find(instruction)->second.remove_if([&, set = before](unsigned number) { return set.test(number); });
    return pruned;
  }

 private:
  using Bits = llvm::BitVector;
  using Blocks = llvm::DenseMap<const llvm::BasicBlock *, Bits>;

  // Whether a packet may end while the instruction runs.
  bool ends_packet(const llvm::Instruction &instruction) const {
    const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (!call || llvm::isa<llvm::IntrinsicInst>(call)) return false;
    return receives_.may_receive(call) || llvm::any_of(accesses_.runs(*call), [&](const llvm::Function *function) {
             return receives_.may_receive(function) || receives_.callbacks().contains(function);
           });
  }

  void pass(const llvm::Instruction &instruction, Bits &set) const {
    if (ends_packet(instruction)) set.reset();
    if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction)) {
      const auto runs = accesses_.runs(*site);
      const bool certain = !runs.empty() && !accesses_.repeats(*site) &&
                           llvm::none_of(accesses_.points_to().calls().callees(site),
                                         [](const llvm::Function *callee) { return callee->isDeclaration(); });
      if (certain) {
        Bits all(variables_, true);
        for (const llvm::Function *function : runs) all &= at_return_.find(function)->second;
        set |= all;
      }
    }
    if (const auto point = points_.find(&instruction); point != points_.end())
      for (const unsigned number : point->second) set.set(number);
  }

  Bits at_begin(const llvm::BasicBlock &block, const Blocks &at_end, const Bits &at_entry) const {
    const bool is_entry = &block == &block.getParent()->getEntryBlock();
    Bits set = is_entry ? at_entry : Bits(variables_, true);
    for (const llvm::BasicBlock *before : llvm::predecessors(&block))
      if (const auto found = at_end.find(before); found != at_end.end()) set &= found->second;
    return set;
  }

  Blocks solve(const llvm::Function &function, const Bits &at_entry) const {
    const llvm::ReversePostOrderTraversal<const llvm::Function *> order(&function);
    Blocks at_end;
    for (bool changed = true; changed;) {
      changed = false;
      for (const llvm::BasicBlock *block : order) {
        Bits set = at_begin(*block, at_end, at_entry);
        for (const llvm::Instruction &instruction : *block) pass(instruction, set);
        const auto [found, is_new] = at_end.try_emplace(block, set);
        if (!is_new && found->second == set) continue;
        found->second = std::move(set);
        changed = true;
      }
    }
    return at_end;
  }

  // Variables that functions certainly set, whatever was set before: the greatest solution.
  void find_returns() {
    const auto &entered = accesses_.points_to().calls().entered();
    llvm::SetVector<const llvm::Function *> pending(entered.begin(), entered.end());
    while (!pending.empty()) {
      const llvm::Function *function = pending.pop_back_val();
      const Blocks at_end = solve(*function, Bits(variables_));
      Bits found(variables_, true);
      for (const llvm::BasicBlock &block : *function)
        if (const auto end = at_end.find(&block); llvm::isa<llvm::ReturnInst>(block.getTerminator()) && end != at_end.end())
          found &= end->second;
      if (found == at_return_[function]) continue;
      at_return_[function] = found;
      for (const llvm::CallBase *site : accesses_.run_by(*function))
        if (at_return_.count(site->getFunction())) pending.insert(site->getFunction());
    }
  }

  // Variables that all callers have set when they call a function.
  void find_entries() {
    const auto &entered = accesses_.points_to().calls().entered();
    for (const llvm::Function *function : entered)
      if (called_from_outside_.contains(function) || accesses_.run_by(*function).empty()) at_entry_[function].reset();
    llvm::SetVector<const llvm::Function *> pending(entered.begin(), entered.end());
    while (!pending.empty()) {
      const llvm::Function *function = pending.pop_back_val();
      const Blocks at_end = solve(*function, at_entry_[function]);
      for (const llvm::BasicBlock &block : *function) {
        Bits set = at_begin(block, at_end, at_entry_[function]);
        for (const llvm::Instruction &instruction : block) {
          if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
            for (const llvm::Function *callee : accesses_.runs(*site)) {
              Bits &entry = at_entry_[callee];
              const Bits before = entry;
              entry &= set;
              if (entry != before) pending.insert(callee);
            }
          pass(instruction, set);
        }
      }
    }
  }

  UpdatePoints &points_;
  size_t variables_;
  const Accesses &accesses_;
  const Receives &receives_;
  llvm::DenseSet<const llvm::Function *> called_from_outside_;
  llvm::DenseMap<const llvm::Function *, Bits> at_return_, at_entry_;
  llvm::DenseMap<const llvm::Instruction *, Bits> removed_;
};

}  // namespace

size_t prune(UpdatePoints &points, size_t variables, const Accesses &accesses, const Receives &receives) {
  return Pruner(points, variables, accesses, receives).run();
}

}  // namespace analyze
