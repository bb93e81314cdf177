// Top-level variables: persistent ones that an instruction uses that may run after a packet was received, by name or
// through a pointer.
#include "classify.h"
#include "module.h"

namespace analyze {

void Classes::add_use(size_t persistent, const Use &use) {
  std::vector<Use> &uses = persistent_[persistent].uses;
  const auto [found, is_new] = use_index_.try_emplace({persistent, use.place.get(), use.function}, uses.size());
  if (is_new) {
    uses.push_back(use);
    return;
  }
  Use &other = uses[found->second];
  other.direct |= use.direct;
  other.writes |= use.writes;
  if (!other.instruction) other.instruction = use.instruction;
}

// Globals that an operand names, also within a constant expression.
void Classes::use(const llvm::Value *named, const llvm::Instruction &by) {
  if (const auto found = by_memory_.find(named); found != by_memory_.end()) {
    add_use(found->second, {&by, location_near(by), by.getFunction(), true});
  } else if (const auto *expression = llvm::dyn_cast<llvm::ConstantExpr>(named)) {
    for (const llvm::Use &used : expression->operands()) use(used.get(), by);
  } else if (const auto *alias = llvm::dyn_cast<llvm::GlobalAlias>(named)) {
    use(alias->getAliasee(), by);
  }
}

void Classes::use_pointee(const llvm::Value *pointer, const llvm::Instruction &by) {
  for (const NodeId cell : points_to_.targets(pointer)) {
    const MemoryObject &object = points_to_.memory().object(points_to_.memory().object_of(cell));
    if (object.kind != ObjectKind::Global && object.kind != ObjectKind::Stack) continue;
    const auto found = by_memory_.find(object.site);
    if (found != by_memory_.end()) add_use(found->second, {&by, location_near(by), by.getFunction(), false});
  }
}

void Classes::find_uses() {
  for (const llvm::Function *function : reach_.functions())
    for (const llvm::BasicBlock &block : *function)
      for (const llvm::Instruction &instruction : block) {
        if (!reach_.contains(&instruction) || instruction.isLifetimeStartOrEnd()) continue;
        for (const llvm::Use &used : instruction.operands()) use(used.get(), instruction);
        if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
          use_pointee(load->getPointerOperand(), instruction);
        } else if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
          use_pointee(store->getPointerOperand(), instruction);
        } else if (const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction)) {
          const auto callees = points_to_.calls().callees(call);
          const bool outside = callees.empty() || llvm::any_of(callees, [](const llvm::Function *callee) {
                                 return callee->isDeclaration();
                               });
          if (!outside) continue;  // the callee's use of the pointer is its own
          for (const llvm::Use &argument : call->args())
            if (argument->getType()->isPointerTy()) use_pointee(argument.get(), instruction);
        } else if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(instruction)) {
          use_pointee(instruction.getOperand(0), instruction);
        }
      }
}

}  // namespace analyze
