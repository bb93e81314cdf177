#include "allocated.h"

#include "llvm/IR/InstIterator.h"

namespace analyze {

// Whether offset 0 of an object means its beginning only, or that of equal structures: if the elements of its bytes
// are smaller, it represents others as well, such as those after an allocator's header.
static bool begins_there(const MemoryObject &object, const llvm::DICompositeType &type) {
  return !object.collapsed && llvm::none_of(object.regions, [&](const Region &region) {
    return region.contains(0) && region.element < type.getSizeInBits() / 8;
  });
}

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
        if (memory.offset_of(cell) == 0 && begins_there(memory.object(memory.object_of(cell)), *type))
          used[memory.object_of(cell)].insert(type);
    }
  std::map<const llvm::CallBase *, const llvm::DICompositeType *> found;
  for (const auto &[object, types] : used) {
    const auto *call = llvm::dyn_cast_or_null<llvm::CallBase>(memory.object(object).site);
    if (!call || memory.object(object).kind != ObjectKind::Heap) continue;
    // a structure begins with its first member, so that the larger one was allocated
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
