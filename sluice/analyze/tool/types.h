// The types of variables, and of the targets of their pointers, from debug info: what code needs that exports
// the variables' contents.
#pragma once

#include <map>

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/Support/JSON.h"

namespace analyze {

class Types {
 public:
  // The number of a type, in the list that list() gives; -1 for void. Typedefs and qualifiers are left out.
  int64_t number(const llvm::DIType *type);
  // Types by their numbers: each with its kind (base, record, union, array, pointer, function, unknown), name and bytes;
  // members with name, offset and type; `of` for arrays and pointers.
  llvm::json::Array list();

 private:
  llvm::json::Object describe(const llvm::DIType &type);
  llvm::json::Object describe(const llvm::DICompositeType &type);

  std::map<const llvm::DIType *, int64_t> numbers_;
  std::vector<const llvm::DIType *> types_;
};

}  // namespace analyze
