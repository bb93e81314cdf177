// The bitcode that recording embedded in a program's object files (in a section that linkers concatenate), linked into
// one module; and the parts of the program's code that it does not cover.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace analyze {

// Named metadata of a module: parts of the program that the module lacks.
constexpr char kMissingFunctions[] = "sluice.missing.functions";
constexpr char kMissingVariables[] = "sluice.missing.variables";

// files: the program first, then shared libraries to include. Writes the module to `output`. Returns the number of
// modules that were linked, the functions of the program and its variables that none of them defines, and the inline
// functions that the module has a body of and the program need not have.
llvm::Expected<llvm::json::Object> extract(const std::vector<std::string> &files, const std::string &output);

}  // namespace analyze
