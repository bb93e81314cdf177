#include "types.h"

#include "llvm/BinaryFormat/Dwarf.h"
#include "variables.h"

namespace analyze {

namespace dwarf = llvm::dwarf;

static const llvm::DIType *plain(const llvm::DIType *type) {
  while (const auto *derived = llvm::dyn_cast_or_null<llvm::DIDerivedType>(type)) {
    const unsigned tag = derived->getTag();
    if (tag != dwarf::DW_TAG_typedef && tag != dwarf::DW_TAG_const_type && tag != dwarf::DW_TAG_volatile_type &&
        tag != dwarf::DW_TAG_restrict_type && tag != dwarf::DW_TAG_atomic_type)
      break;
    type = derived->getBaseType();
  }
  return type;
}

int64_t Types::number(const llvm::DIType *type) {
  type = plain(type);
  if (!type) return -1;
  const auto [found, is_new] = numbers_.try_emplace(type, static_cast<int64_t>(types_.size()));
  if (is_new) types_.push_back(type);
  return found->second;
}

llvm::json::Object Types::describe(const llvm::DICompositeType &type) {
  const unsigned tag = type.getTag();
  if (tag == dwarf::DW_TAG_array_type) {
    int64_t count = 1;
    bool known = true;
    for (const llvm::DINode *element : type.getElements())
      if (const auto *range = llvm::dyn_cast<llvm::DISubrange>(element)) {
        const auto *bound = llvm::dyn_cast_or_null<llvm::ConstantInt *>(range->getCount());
        if (bound && bound->getSExtValue() >= 0)
          count *= bound->getSExtValue();
        else
          known = false;
      }
    return llvm::json::Object{{"kind", "array"}, {"of", number(type.getBaseType())}, {"count", known ? count : 0}};
  }
  if (tag == dwarf::DW_TAG_enumeration_type) return llvm::json::Object{{"kind", "base"}};
  if (type.isForwardDecl()) return llvm::json::Object{{"kind", "unknown"}};
  llvm::json::Array members;
  for (const llvm::DINode *element : type.getElements()) {
    const auto *member = llvm::dyn_cast<llvm::DIDerivedType>(element);
    if (!member || member->getTag() != dwarf::DW_TAG_member || member->isStaticMember()) continue;
    members.push_back(llvm::json::Object{{"name", member->getName()},
                                         {"offset", static_cast<int64_t>(member->getOffsetInBits() / 8)},
                                         {"bits", member->isBitField()},
                                         {"type", number(member->getBaseType())}});
  }
  return llvm::json::Object{{"kind", tag == dwarf::DW_TAG_union_type ? "union" : "record"}, {"members", std::move(members)}};
}

llvm::json::Object Types::describe(const llvm::DIType &type) {
  if (const auto *composite = llvm::dyn_cast<llvm::DICompositeType>(&type)) return describe(*composite);
  if (llvm::isa<llvm::DISubroutineType>(type)) return llvm::json::Object{{"kind", "function"}};
  if (const auto *derived = llvm::dyn_cast<llvm::DIDerivedType>(&type); derived && derived->getTag() == dwarf::DW_TAG_pointer_type)
    return llvm::json::Object{{"kind", "pointer"}, {"of", number(derived->getBaseType())}};
  return llvm::json::Object{{"kind", llvm::isa<llvm::DIBasicType>(type) ? "base" : "unknown"}};
}

llvm::json::Array Types::list() {
  llvm::json::Array found;
  for (size_t i = 0; i < types_.size(); ++i) {  // describing a type may add others
    llvm::json::Object one = describe(*types_[i]);
    one["name"] = type_name(types_[i]);
    one["bytes"] = static_cast<int64_t>(types_[i]->getSizeInBits() / 8);
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace analyze
