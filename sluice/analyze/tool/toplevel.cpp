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
  other.writes |= use.writes;
  if (!other.instruction) other.instruction = use.instruction;
}

// Globals that an operand names, also within a constant expression.
void Classes::use(const llvm::Value *named, const llvm::Instruction &by) {
  if (const auto found = by_memory_.find(named); found != by_memory_.end()) {
    add_use(found->second, {&by, location_near(by), by.getFunction()});
  } else if (const auto *expression = llvm::dyn_cast<llvm::ConstantExpr>(named)) {
    for (const llvm::Use &used : expression->operands()) use(used.get(), by);
  } else if (const auto *alias = llvm::dyn_cast<llvm::GlobalAlias>(named)) {
    use(alias->getAliasee(), by);
  }
}

// A group of users of these objects, without any so far.
template <typename Objects>
uint32_t Classes::add_group(const Objects &objects) {
  const auto group = static_cast<uint32_t>(users_.size());
  users_.emplace_back();
  llvm::DenseSet<size_t> found;
  for (const ObjectId object : objects)
    if (const size_t *number = numbered(points_to_.memory().object(object).site); number && found.insert(*number).second)
      persistent_[*number].users.push_back(group);
  return group;
}

void Classes::use_pointee(const llvm::Value *pointer, const llvm::Instruction &by) {
  const llvm::ArrayRef<NodeId> cells = points_to_.targets(pointer);
  if (cells.empty()) return;
  const auto [found, is_new] = group_of_targets_.try_emplace(cells.data(), 0);
  if (is_new)
    found->second = add_group(llvm::map_range(cells, [&](NodeId cell) { return points_to_.memory().object_of(cell); }));
  users_[found->second].push_back(&by);
}

// Memory that a call writes, also of unknown code all that escaped.
void Classes::use_written(const llvm::Instruction &by) {
  for (const uint32_t footprint : accesses_.of(by).writes) {
    const std::vector<Atom> &atoms = accesses_.atoms(footprint);
    if (atoms.empty()) continue;
    const auto [found, is_new] = group_of_footprint_.try_emplace(footprint, 0);
    if (is_new) found->second = add_group(llvm::map_range(atoms, [&](Atom atom) { return accesses_.object_of(atom); }));
    users_[found->second].push_back(&by);
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
          use_written(instruction);
        } else if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(instruction)) {
          use_pointee(instruction.getOperand(0), instruction);
        }
      }
}

}  // namespace analyze
