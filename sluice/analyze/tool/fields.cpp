#include "fields.h"

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/Operator.h"

namespace analyze {

Fields::Fields(const llvm::Module &module) : layout_(module.getDataLayout()) {
  llvm::DebugInfoFinder finder;
  finder.processModule(module);
  for (const llvm::DIType *type : finder.types()) {
    const llvm::DIType *named = type;
    while (const auto *derived = llvm::dyn_cast_or_null<llvm::DIDerivedType>(type)) {
      if (derived->getTag() != llvm::dwarf::DW_TAG_typedef) break;
      type = derived->getBaseType();
    }
    if (const auto *composite = llvm::dyn_cast_or_null<llvm::DICompositeType>(type))
      if (!named->getName().empty() && composite->getElements()) types_.try_emplace(named->getName(), composite);
  }
}

// "struct.iphdr", or "struct.iphdr.12" where modules were linked.
static llvm::StringRef plain_name(const llvm::StructType &type) {
  llvm::StringRef name = type.hasName() ? type.getName() : "";
  if (!name.consume_front("struct.") && !name.consume_front("union.")) return "";
  const auto [front, number] = name.rsplit('.');
  unsigned ignored;
  return !number.empty() && !number.getAsInteger(10, ignored) ? front : name;
}

// Members at a bit offset; bit fields that one load reads are several.
static std::string members_at(const llvm::DICompositeType &type, uint64_t bit, uint64_t bits) {
  std::string found;
  for (const llvm::DINode *element : type.getElements()) {
    const auto *member = llvm::dyn_cast<llvm::DIDerivedType>(element);
    if (!member || member->getTag() != llvm::dwarf::DW_TAG_member) continue;
    const uint64_t start = member->getOffsetInBits(), size = member->getSizeInBits();
    const bool is_field = member->isBitField();
    if (is_field ? start + size <= bit || bit + bits <= start : bit < start || start + size <= bit) continue;
    if (member->getName().empty()) {
      const auto *inner = llvm::dyn_cast_or_null<llvm::DICompositeType>(member->getBaseType());
      if (inner) return members_at(*inner, bit - start, bits);
    }
    if (type.getTag() == llvm::dwarf::DW_TAG_union_type && !found.empty()) {
      // both views of a union are the same bytes: the first that is more than a byte array
      const auto *first = llvm::dyn_cast_or_null<llvm::DICompositeType>(member->getBaseType());
      if (first && first->getTag() == llvm::dwarf::DW_TAG_array_type) continue;
      return found;
    }
    const auto *base = llvm::dyn_cast_or_null<llvm::DICompositeType>(member->getBaseType());
    if (base && base->getName().empty() && base->getTag() != llvm::dwarf::DW_TAG_array_type && base->getElements()) {
      const std::string inner = members_at(*base, bit - start, bits);
      found = member->getName().str() + (inner.empty() ? "" : "." + inner);
    } else {
      found += (found.empty() ? "" : "|") + member->getName().str();
    }
    if (!is_field && type.getTag() != llvm::dwarf::DW_TAG_union_type) break;
  }
  return found;
}

std::string Fields::name(const llvm::Value *pointer, uint64_t bytes) const {
  std::string found;
  uint64_t offset = 0;
  bool known = true;
  while (const auto *address = llvm::dyn_cast<llvm::GEPOperator>(pointer)) {
    llvm::APInt constant(64, 0);
    const auto *record = llvm::dyn_cast<llvm::StructType>(address->getSourceElementType());
    const bool selects = address->getNumIndices() > 1;
    // indices of arrays within the structure count as their first element
    uint64_t inside = 0;
    for (auto it = llvm::gep_type_begin(*address), end = llvm::gep_type_end(*address); it != end; ++it) {
      const auto *index = llvm::dyn_cast<llvm::ConstantInt>(it.getOperand());
      if (const llvm::StructType *type = it.getStructTypeOrNull())
        inside += layout_.getStructLayout(const_cast<llvm::StructType *>(type))
                      ->getElementOffset(static_cast<unsigned>(index->getZExtValue()))
                      .getFixedValue();
      else if (index)
        inside += index->getZExtValue() * it.getSequentialElementStride(layout_).getFixedValue();
      else if (it == llvm::gep_type_begin(*address) || !record)
        known = known && record;
    }
    offset += inside;
    if (record && selects) {
      const llvm::StringRef type = plain_name(*record);
      const auto entry = types_.find(type);
      if (entry != types_.end()) {
        const std::string member = members_at(*entry->second, offset * 8, bytes == 0 ? 8 : bytes * 8);
        if (!member.empty()) found = type.str() + "." + member;
      }
    }
    pointer = address->getPointerOperand();
  }
  if (!found.empty()) return found;
  return known ? "+" + std::to_string(offset) : "";
}

std::pair<std::string, uint64_t> Fields::member(const llvm::Value *pointer) const {
  std::pair<std::string, uint64_t> found;
  uint64_t offset = 0;
  while (const auto *address = llvm::dyn_cast<llvm::GEPOperator>(pointer)) {
    const auto *record = llvm::dyn_cast<llvm::StructType>(address->getSourceElementType());
    llvm::APInt inside(64, 0);
    if (!address->accumulateConstantOffset(layout_, inside)) break;
    offset += inside.getZExtValue();
    if (record && address->getNumIndices() > 1) found = {plain_name(*record).str(), offset};
    pointer = address->getPointerOperand();
  }
  return found;
}

llvm::StringRef Fields::selected(const llvm::GEPOperator &address) {
  const auto *record = llvm::dyn_cast<llvm::StructType>(address.getSourceElementType());
  return record && address.getNumIndices() > 1 ? plain_name(*record) : "";
}

bool Fields::is_member(const llvm::Value *pointer) const {
  while (const auto *address = llvm::dyn_cast<llvm::GEPOperator>(pointer)) {
    if (llvm::isa<llvm::StructType>(address->getSourceElementType()) && address->getNumIndices() > 1) return true;
    pointer = address->getPointerOperand();
  }
  return false;
}

}  // namespace analyze
