// Where searches compare entries of variables with values: the run-time library finds a flow's entries by the same ones.
#include "flowspace.h"

namespace analyze {

// A load, through conversions of its value.
static const llvm::LoadInst *loaded(const llvm::Value *value) {
  while (const auto *cast = llvm::dyn_cast<llvm::CastInst>(value)) value = cast->getOperand(0);
  return llvm::dyn_cast<llvm::LoadInst>(value);
}

static const llvm::Value *without_casts(const llvm::Value *value, uint64_t bytes, const llvm::DataLayout &layout) {
  while (const auto *cast = llvm::dyn_cast<llvm::CastInst>(value)) {
    if (layout.getTypeStoreSize(value->getType()) == bytes) break;
    value = cast->getOperand(0);
  }
  return value;
}

void Flowspace::add_comparisons(size_t number, const Search &search) {
  const PointsTo &points_to = accesses_.points_to();
  const std::vector<ObjectId> &memory = updates_.memory_of(number);
  const llvm::DenseSet<ObjectId> own(memory.begin(), memory.end());
  const auto is_entry = [&](const llvm::Value *pointer) {
    return llvm::any_of(points_to.targets(pointer),
                        [&](NodeId cell) { return own.contains(points_to.memory().object_of(cell)); });
  };
  const auto add = [&](const llvm::Instruction &at, const llvm::Value *entry, const llvm::Value *sought, uint64_t bytes) {
    if (!is_entry(entry)) return;
    const auto [type, offset] = fields_.member(entry);
    if (!type.empty()) comparisons_.push_back({number, &at, sought, type, offset, bytes});
  };
  for (const llvm::BasicBlock *block : search.loop->blocks)
    for (const llvm::Instruction &instruction : *block) {
      const llvm::DataLayout &layout = instruction.getDataLayout();
      if (const auto *compare = llvm::dyn_cast<llvm::ICmpInst>(&instruction); compare && compare->isEquality()) {
        for (const unsigned side : {0u, 1u}) {
          const llvm::LoadInst *member = loaded(compare->getOperand(side));
          if (!member || llvm::isa<llvm::Constant>(compare->getOperand(1 - side))) continue;
          const uint64_t bytes = layout.getTypeStoreSize(member->getType()).getFixedValue();
          const llvm::LoadInst *other = loaded(compare->getOperand(1 - side));
          if (other && is_entry(other->getPointerOperand())) continue;  // two entries
          const llvm::Value *sought = without_casts(compare->getOperand(1 - side), bytes, layout);
          if (!sought->getType()->isIntegerTy() || layout.getTypeStoreSize(sought->getType()) != bytes) continue;
          add(instruction, member->getPointerOperand(), sought, bytes);
        }
      } else if (const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction)) {
        const llvm::Function *callee = call->getCalledFunction();
        if (!callee || (callee->getName() != "memcmp" && callee->getName() != "bcmp") || call->arg_size() != 3) continue;
        const auto *bytes = llvm::dyn_cast<llvm::ConstantInt>(call->getArgOperand(2));
        if (!bytes) continue;
        for (const unsigned side : {0u, 1u})
          add(instruction, call->getArgOperand(side), call->getArgOperand(1 - side), bytes->getZExtValue());
      }
    }
}

}  // namespace analyze
