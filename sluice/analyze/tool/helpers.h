// Small functions that are given a pointer, or return memory that they allocated, are analysed separately for each call: their
// bodies replace the calls. Otherwise, all memory of an allocator of the program's own would be one object, and a function
// that fills its argument's target would change the arguments of all of its calls.
#pragma once

#include "llvm/IR/Module.h"
#include "models.h"

namespace analyze {

// Returns how many calls were replaced. Debug info names the function that a line belongs to. The functions remain, for
// calls through pointers.
unsigned inline_helpers(llvm::Module &module, const Models &models);

}  // namespace analyze
