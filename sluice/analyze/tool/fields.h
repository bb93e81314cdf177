// Names of the members of packet headers that loads read, from debug info: "iphdr.saddr".
#pragma once

#include <string>

#include "llvm/ADT/StringMap.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"

namespace analyze {

class Fields {
 public:
  explicit Fields(const llvm::Module &module);

  // The target of a pointer: the member of the outermost structure; "+12" for a constant offset from a pointer that
  // is none to a structure; empty if the offset is not known.
  std::string name(const llvm::Value *pointer, uint64_t bytes) const;
  // The outermost structure that a pointer to a member begins in, and the member's offset; an empty name for others.
  std::pair<std::string, uint64_t> member(const llvm::Value *pointer) const;
  // The structure's debug info, by its name; nothing if there is none.
  const llvm::DICompositeType *structure(llvm::StringRef name) const { return types_.lookup(name); }
  // The structure of which an address selects a member, without a number that linking added; or an empty name.
  static llvm::StringRef selected(const llvm::GEPOperator &address);
  // Whether the pointer is to a member of a structure.
  bool is_member(const llvm::Value *pointer) const;

 private:
  const llvm::DataLayout &layout_;
  llvm::StringMap<const llvm::DICompositeType *> types_;  // by name or typedef
};

}  // namespace analyze
