// Loading a program's bitcode, refusing what cannot be analysed, and bringing it into the form that analyses expect.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace analyze {

// Errors say what is wrong with the file and what to do.
llvm::Expected<std::unique_ptr<llvm::Module>> load_module(const std::string &path, llvm::LLVMContext &context);

// Functions that were compiled without debug info; their local variables have no names.
std::vector<const llvm::Function *> without_debug_info(const llvm::Module &module);

// Promotes local variables to registers, so that pointers in them are followed flow-sensitively. Does not change the
// control flow graph. Lifetimes are computed before.
void promote_locals(llvm::Module &module);

// "file.c:12" of an instruction, as its debug info has it; empty if it has none.
std::string place_of(const llvm::Instruction &instruction);

}  // namespace analyze
