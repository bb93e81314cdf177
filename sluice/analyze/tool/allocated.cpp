#include "allocated.h"

#include "llvm/IR/InstIterator.h"

namespace analyze {

std::map<const llvm::CallBase *, const llvm::DICompositeType *> allocated_structures(const PointsTo &points_to,
                                                                                      const Fields &fields) {
  const Memory &memory = points_to.memory();
  std::map<ObjectId, std::set<const llvm::DICompositeType *>> used;
  for (const llvm::Function *function : points_to.calls().entered())
    for (const llvm::Instruction &instruction : llvm::instructions(*function)) {
      const auto *address = llvm::dyn_cast<llvm::GEPOperator>(&instruction);
      const llvm::DICompositeType *type = address ? fields.structure(Fields::selected(*address)) : nullptr;
      if (!type) continue;
      for (const NodeId cell : points_to.targets(address->getPointerOperand()))
        if (memory.offset_of(cell) == 0) used[memory.object_of(cell)].insert(type);
    }
  std::map<const llvm::CallBase *, const llvm::DICompositeType *> found;
  for (const auto &[object, types] : used) {
    const auto *call = llvm::dyn_cast_or_null<llvm::CallBase>(memory.object(object).site);
    if (!call || memory.object(object).kind != ObjectKind::Heap) continue;
    // a structure begins with its first member, so that the larger one is what was allocated
    const llvm::DICompositeType *largest = nullptr;
    bool nested = true;
    for (const llvm::DICompositeType *type : types)
      if (!largest || type->getSizeInBits() > largest->getSizeInBits()) largest = type;
    for (const llvm::DICompositeType *type : types) {
      const llvm::DIType *inner = largest;
      while (inner && inner != type) {
        const auto *record = llvm::dyn_cast<llvm::DICompositeType>(inner);
        const auto *first = record && record->getElements().size() > 0
                                ? llvm::dyn_cast<llvm::DIDerivedType>(record->getElements()[0])
                                : nullptr;
        inner = first ? first->getBaseType() : nullptr;
      }
      nested = nested && inner == type;
    }
    if (nested) found[call] = largest;
  }
  return found;
}

}  // namespace analyze
