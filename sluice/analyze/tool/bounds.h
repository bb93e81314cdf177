// Bounds of integers that constants and types show.
#pragma once

#include <cstdint>

#include "llvm/IR/Value.h"

namespace analyze {

// The most bytes that an operation of this length covers; UINT64_MAX if that is not known.
uint64_t most_bytes(const llvm::Value *length);

}  // namespace analyze
