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

// The variables that have one of these cells. Pointers with the same targets share them.
llvm::ArrayRef<size_t> Classes::named_among(llvm::ArrayRef<NodeId> cells) {
  if (cells.empty()) return {};
  const auto [found, is_new] = named_among_.try_emplace(cells.data());
  if (!is_new) return found->second;
  llvm::SetVector<size_t> numbers;
  for (const NodeId cell : cells) {
    const MemoryObject &object = points_to_.memory().object(points_to_.memory().object_of(cell));
    if (object.kind != ObjectKind::Global && object.kind != ObjectKind::Stack) continue;
    if (const size_t *number = numbered(object.site)) numbers.insert(*number);
  }
  found->second = numbers.takeVector();
  return found->second;
}

void Classes::use_pointee(const llvm::Value *pointer, const llvm::Instruction &by) {
  const Use use{&by, location_near(by), by.getFunction(), false};
  for (const size_t number : named_among(points_to_.targets(pointer))) add_use(number, use);
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
          for (const uint32_t footprint : accesses_.of(instruction).writes) {  // of unknown code: all that escaped
            const std::vector<Atom> &atoms = accesses_.atoms(footprint);
            for (size_t i = 0; i < atoms.size(); ++i) {
              const ObjectId object = accesses_.object_of(atoms[i]);
              if (i != 0 && accesses_.object_of(atoms[i - 1]) == object) continue;
              if (const size_t *number = numbered(points_to_.memory().object(object).site))
                add_use(*number, {&instruction, location_near(instruction), instruction.getFunction(), false});
            }
          }
        } else if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(instruction)) {
          use_pointee(instruction.getOperand(0), instruction);
        }
      }
}

}  // namespace analyze
