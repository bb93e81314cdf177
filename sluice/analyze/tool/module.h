// Loading a program's bitcode, refusing unsupported ones, and bringing it into the form that analyses expect.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace analyze {

llvm::Error problem(const llvm::Twine &text);

// Errors have the defect of the file and the advice.
llvm::Expected<std::unique_ptr<llvm::Module>> load_module(const std::string &path, llvm::LLVMContext &context);

// Functions that were compiled without debug info; their local variables have no names.
std::vector<const llvm::Function *> without_debug_info(const llvm::Module &module);

// Promotes local variables to registers, so that pointers in them are followed flow-sensitively. Does not change the
// control flow graph. Lifetimes are computed before.
void promote_locals(llvm::Module &module);

// The source line of an instruction; of one that the compiler made up, that of the instruction before it. May be null.
const llvm::DILocation *location_near(const llvm::Instruction &instruction);

// The name that a function has in its source; linking renames static functions of the same name.
llvm::StringRef source_name(const llvm::Function &function);

// "file.c:12" of an instruction, as its debug info has it; empty if it has none.
std::string place_of(const llvm::Instruction &instruction);

}  // namespace analyze
