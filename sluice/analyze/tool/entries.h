// Calls of a function that a structure has, with arguments that the same structure has: `entry->function(entry->data)`.
#pragma once

#include <optional>
#include <vector>

#include "llvm/IR/InstrTypes.h"

namespace analyze {

struct Entry {
  const llvm::Value *base;  // points to the structure
  int64_t function;         // where the structure has the function: bytes
  std::vector<std::optional<int64_t>> arguments;  // where it has each argument; nothing for those of another origin
};

// Nothing if no argument is of the structure that has the function.
std::optional<Entry> entry_of(const llvm::CallBase &call);

}  // namespace analyze
