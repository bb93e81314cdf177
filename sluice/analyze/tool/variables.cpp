#include "variables.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/BinaryFormat/Dwarf.h"

namespace analyze {

Variables::Variables(const llvm::Module &module, const Lifetimes &lifetimes) {
  for (const llvm::GlobalVariable &global : module.globals()) {
    llvm::SmallVector<llvm::DIGlobalVariableExpression *, 1> infos;
    global.getDebugInfo(infos);
    bool named = false;
    for (const llvm::DIGlobalVariableExpression *info : infos) {
      const llvm::DIGlobalVariable *variable = info->getVariable();
      if (variable->getName().empty()) continue;  // a string literal
      const bool in_function = llvm::isa<llvm::DILocalScope>(variable->getScope());
      all_.push_back({in_function ? VariableKind::Static : VariableKind::Global, variable, &global, nullptr, nullptr});
      named = true;
      break;  // members of an anonymous union share the global
    }
    const bool literal = global.isConstant() || global.hasPrivateLinkage() || global.getName().starts_with("llvm.");
    if (!named && infos.empty() && !literal && !global.isDeclaration()) nameless_.push_back(&global);
  }
  for (const llvm::Function &function : module) {
    llvm::DenseSet<const llvm::DILocalVariable *> seen;
    for (const Local &local : lifetimes.locals(&function))
      if (seen.insert(local.info).second)
        all_.push_back({local.info->getArg() ? VariableKind::Parameter : VariableKind::Local, local.info, nullptr,
                        &function, &local});
  }
}

llvm::StringRef scope_name(const llvm::DIVariable *variable) {
  const llvm::DIScope *scope = variable->getScope();
  const auto *local = llvm::dyn_cast_or_null<llvm::DILocalScope>(scope);
  return local && local->getSubprogram() ? local->getSubprogram()->getName() : llvm::StringRef();
}

// C writes the parts of a derived type around the declarator; `inner` is the declarator so far.
static std::string declare(const llvm::DIType *type, std::string inner, unsigned depth) {
  using namespace llvm;
  const std::string space = inner.empty() || inner[0] == '[' || inner[0] == '(' ? "" : " ";
  if (!type) return "void" + (inner.empty() ? "" : " " + inner);
  if (depth > 16) return "..." + inner;
  if (const auto *derived = dyn_cast<DIDerivedType>(type)) {
    const DIType *base = derived->getBaseType();
    switch (derived->getTag()) {
      case dwarf::DW_TAG_pointer_type: {
        const auto *composite = dyn_cast_or_null<DICompositeType>(base);
        const bool wraps = isa_and_nonnull<DISubroutineType>(base) ||
                           (composite && composite->getTag() == dwarf::DW_TAG_array_type);
        return declare(base, wraps ? "(*" + inner + ")" : "*" + inner, depth + 1);
      }
      case dwarf::DW_TAG_const_type:
        if (isa_and_nonnull<DIDerivedType>(base) && base->getTag() == dwarf::DW_TAG_pointer_type)
          return declare(base, "const" + (inner.empty() ? "" : " " + inner), depth + 1);
        return "const " + declare(base, inner, depth + 1);
      case dwarf::DW_TAG_volatile_type: return "volatile " + declare(base, inner, depth + 1);
      case dwarf::DW_TAG_restrict_type: return declare(base, inner, depth + 1);
      case dwarf::DW_TAG_atomic_type: return "_Atomic " + declare(base, inner, depth + 1);
      case dwarf::DW_TAG_typedef: return derived->getName().str() + space + inner;
      default: return declare(base, inner, depth + 1);
    }
  }
  if (isa<DISubroutineType>(type)) {
    const DITypeRefArray types = cast<DISubroutineType>(type)->getTypeArray();
    return declare(types.size() ? types[0] : nullptr, inner + "()", depth + 1);
  }
  const auto *composite = dyn_cast<DICompositeType>(type);
  if (!composite) return type->getName().str() + space + inner;
  if (composite->getTag() == dwarf::DW_TAG_array_type) {
    for (const DINode *element : composite->getElements()) {
      const auto *range = dyn_cast<DISubrange>(element);
      const auto *count = range ? dyn_cast_if_present<ConstantInt *>(range->getCount()) : nullptr;
      inner += count && !count->isMinusOne() ? "[" + std::to_string(count->getZExtValue()) + "]" : "[]";
    }
    return declare(composite->getBaseType(), inner, depth + 1);
  }
  const char *word = composite->getTag() == dwarf::DW_TAG_union_type         ? "union "
                     : composite->getTag() == dwarf::DW_TAG_enumeration_type ? "enum "
                     : composite->getTag() == dwarf::DW_TAG_structure_type   ? "struct "
                                                                             : "";
  const std::string name = composite->getName().empty() ? "{...}" : composite->getName().str();
  return word + name + space + inner;
}

std::string type_name(const llvm::DIType *type) { return declare(type, "", 0); }

}  // namespace analyze
