#include "pruning.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"

namespace analyze {

namespace {

class Pruner {
 public:
  Pruner(UpdatePoints &points, size_t variables, const Accesses &accesses, const Receives &receives)
      : points_(points), variables_(variables), accesses_(accesses), receives_(receives) {}

  size_t run(const llvm::Function &function) {
    const llvm::ReversePostOrderTraversal<const llvm::Function *> order(&function);
    llvm::DenseMap<const llvm::BasicBlock *, llvm::BitVector> at_end;
    const auto at_begin = [&](const llvm::BasicBlock *block) {
      llvm::BitVector set(variables_, block != &function.getEntryBlock());
      for (const llvm::BasicBlock *before : llvm::predecessors(block))
        if (const auto found = at_end.find(before); found != at_end.end()) set &= found->second;
      return set;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (const llvm::BasicBlock *block : order) {
        llvm::BitVector set = at_begin(block);
        for (const llvm::Instruction &instruction : *block) pass(instruction, set);
        const auto [found, is_new] = at_end.try_emplace(block, set);
        if (!is_new && found->second == set) continue;
        found->second = std::move(set);
        changed = true;
      }
    }
    size_t pruned = 0;
    for (const llvm::BasicBlock *block : order) {
      llvm::BitVector set = at_begin(block);
      for (const llvm::Instruction &instruction : *block) {
        const llvm::BitVector before = set;
        pass(instruction, set);
        const auto point = points_.find(&instruction);
        if (point == points_.end() || ends_packet(instruction)) continue;
        const size_t all = point->second.size();
        point->second.remove_if([&](unsigned number) { return before.test(number); });
        pruned += all - point->second.size();
        set |= before;
      }
    }
    return pruned;
  }

 private:
  // Whether a packet may end while the instruction runs.
  bool ends_packet(const llvm::Instruction &instruction) const {
    const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (!call || llvm::isa<llvm::IntrinsicInst>(call)) return false;
    return receives_.may_receive(call) || llvm::any_of(accesses_.runs(*call), [&](const llvm::Function *function) {
             return receives_.may_receive(function) || receives_.callbacks().contains(function);
           });
  }

  void pass(const llvm::Instruction &instruction, llvm::BitVector &set) const {
    if (ends_packet(instruction)) set.reset();
    if (const auto point = points_.find(&instruction); point != points_.end())
      for (const unsigned number : point->second) set.set(number);
  }

  UpdatePoints &points_;
  size_t variables_;
  const Accesses &accesses_;
  const Receives &receives_;
};

}  // namespace

size_t prune(UpdatePoints &points, size_t variables, const Accesses &accesses, const Receives &receives) {
  llvm::SetVector<const llvm::Function *> functions;
  for (const auto &[instruction, numbers] : points) functions.insert(instruction->getFunction());
  Pruner pruner(points, variables, accesses, receives);
  size_t pruned = 0;
  for (const llvm::Function *function : functions) pruned += pruner.run(*function);
  return pruned;
}

}  // namespace analyze
