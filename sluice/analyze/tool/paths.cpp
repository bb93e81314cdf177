#include "paths.h"

#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

Paths::Paths(const Accesses &accesses, const Receives &receives, const Reach &reach, const Classes &classes)
    : accesses_(accesses), receives_(receives), reach_(reach), classes_(classes) {
  find_leading();
  find_reloading();
}

PathKind Paths::of(const llvm::Instruction &instruction) const {
  if (!leads(instruction)) return PathKind::Exit;
  return reloading(instruction) ? PathKind::Reload : PathKind::Packet;
}

// Blocks from whose beginning a packet may be received: backward from receive calls, over returns to callers.
void Paths::find_leading() {
  const auto &entered = accesses_.points_to().calls().entered();
  for (const Spawn &spawn : accesses_.points_to().calls().spawns())
    if (spawn.role != CallRole::Thread && spawn.role != CallRole::Exit) leading_return_.insert(spawn.function);
  for (const llvm::Function *function : receives_.callbacks()) leading_return_.insert(function);
  for (const llvm::Function *function : entered) {
    const ObjectId *object = accesses_.points_to().object_of(function);
    if (object && accesses_.points_to().constraints().escaped(*object)) leading_return_.insert(function);
  }
  for (const Loop *loop : classes_.loops()) leading_.insert(loop->header);
  llvm::SetVector<const llvm::BasicBlock *> pending;  // whose ends may have become leading
  for (const llvm::Function *function : entered)
    for (const llvm::BasicBlock &block : *function) pending.insert(&block);
  while (!pending.empty()) {
    const llvm::BasicBlock *block = pending.pop_back_val();
    bool now = llvm::isa<llvm::ReturnInst>(block->getTerminator()) && leading_return_.contains(block->getParent());
    for (const llvm::BasicBlock *next : llvm::successors(block)) now = now || leading_.contains(next);
    for (const llvm::Instruction &instruction : llvm::reverse(*block)) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      if (!site || llvm::isa<llvm::IntrinsicInst>(site)) continue;
      if (now)
        for (const llvm::Function *callee : accesses_.runs(*site))
          if (leading_return_.insert(callee).second)
            for (const llvm::BasicBlock &end : *callee)
              if (llvm::isa<llvm::ReturnInst>(end.getTerminator())) pending.insert(&end);
      if (!reach_.returns(site)) now = false;
      if (receives_.may_receive(site)) now = true;
    }
    if (now && leading_.insert(block).second)
      for (const llvm::BasicBlock *before : llvm::predecessors(block)) pending.insert(before);
  }
}

bool Paths::leads(const llvm::Instruction &instruction) const {
  const llvm::BasicBlock *block = instruction.getParent();
  for (const llvm::Instruction *at = &instruction; at; at = at->getNextNode())
    if (const auto *site = llvm::dyn_cast<llvm::CallBase>(at)) {
      if (receives_.may_receive(site)) return true;
      if (!reach_.returns(site)) return false;
    }
  if (llvm::isa<llvm::ReturnInst>(block->getTerminator())) return leading_return_.contains(block->getParent());
  return llvm::any_of(llvm::successors(block), [&](const llvm::BasicBlock *next) { return leading_.contains(next); });
}

// The load that a condition tests for zero, and whether the condition is true if it is not zero.
static std::pair<const llvm::LoadInst *, bool> tested(const llvm::Value *value, bool sense = true) {
  using namespace llvm;
  for (unsigned depth = 0; depth < 8; ++depth) {
    if (const auto *load = dyn_cast<LoadInst>(value)) return {load, sense};
    if (const auto *compare = dyn_cast<ICmpInst>(value)) {
      const auto *number = dyn_cast<ConstantInt>(compare->getOperand(1));
      if (!number) return {};
      const bool zero = number->isZero();
      switch (compare->getPredicate()) {
        case CmpInst::ICMP_EQ: sense = zero ? !sense : sense; break;
        case CmpInst::ICMP_NE: sense = zero ? sense : !sense; break;
        case CmpInst::ICMP_SGT:
        case CmpInst::ICMP_UGT: break;
        default: return {};
      }
      if (!zero && compare->getPredicate() == CmpInst::ICMP_NE) return {};
      value = compare->getOperand(0);
    } else if (isa<ZExtInst, SExtInst, TruncInst>(value)) {
      value = cast<CastInst>(value)->getOperand(0);
    } else if (const auto *flip = dyn_cast<BinaryOperator>(value); flip && flip->getOpcode() == Instruction::Xor) {
      const auto *number = dyn_cast<ConstantInt>(flip->getOperand(1));
      if (!number || !number->getType()->isIntegerTy(1)) return {};
      sense = !sense;
      value = flip->getOperand(0);
    } else {
      return {};
    }
  }
  return {};
}

void Paths::find_reloading() {
  llvm::BitVector flags(accesses_.count());
  for (const Spawn &spawn : accesses_.points_to().calls().spawns()) {
    if (spawn.role != CallRole::Signal || spawn.function->isDeclaration()) continue;
    flags |= accesses_.may_write(spawn.function);
    reloading_.insert(spawn.function);
  }
  if (reloading_.empty()) return;
  const auto &entered = accesses_.points_to().calls().entered();
  for (const llvm::Function *function : entered) {
    std::optional<llvm::DominatorTree> tree;
    for (const llvm::BasicBlock &block : *function) {
      const auto *branch = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
      if (!branch || !branch->isConditional()) continue;
      const auto [load, sense] = tested(branch->getCondition());
      if (!load) continue;
      const std::vector<Atom> read = accesses_.all(accesses_.of(*load).reads);
      if (read.empty() || !llvm::all_of(read, [&](Atom atom) { return flags.test(atom); })) continue;
      const llvm::BasicBlock *side = branch->getSuccessor(sense ? 0 : 1);
      if (side->getSinglePredecessor() != &block) continue;
      if (!tree) tree.emplace(*const_cast<llvm::Function *>(function));
      for (const llvm::BasicBlock &other : *function)
        if (tree->dominates(side, &other)) after_flag_.insert(&other);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const llvm::Function *function : entered) {
      if (reloading_.contains(function) || receives_.callbacks().contains(function)) continue;
      bool called = false, always = true;
      for (const llvm::CallBase *site : accesses_.run_by(*function)) {
        if (!reach_.contains(site)) continue;  // before the first packet
        called = true;
        always = always && reloading(*site);
      }
      const bool spawned = llvm::any_of(accesses_.points_to().calls().spawns(), [&](const Spawn &spawn) {
        return spawn.function == function && spawn.role != CallRole::Callback;
      });
      if (called && always && !spawned && reloading_.insert(function).second) changed = true;
    }
  }
}

bool Paths::reloading(const llvm::Instruction &instruction) const {
  return after_flag_.contains(instruction.getParent()) || reloading_.contains(instruction.getFunction());
}

}  // namespace analyze
