// Places in the source, as paths and as JSON.
#pragma once

#include "lifetimes.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/Support/JSON.h"

namespace analyze {

std::string path_of(const llvm::DIFile *file);
llvm::json::Object place(const llvm::DIFile *file, unsigned line);
llvm::json::Object place(const llvm::DILocation *location);  // null: no line
llvm::json::Object place(const Loop &loop);                  // where the statement begins
// Of a call, with the function in which it is.
llvm::json::Object site(const llvm::CallBase *call);

// The function in whose source a line is: of a helper whose body replaced a call, its own.
llvm::StringRef procedure_at(const llvm::DILocation *location, const llvm::Function &function);

}  // namespace analyze
