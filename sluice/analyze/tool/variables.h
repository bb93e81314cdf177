// The variables of a program as its debug info names them. String literals and other data that the compiler makes up
// are none.
#pragma once

#include <string>
#include <vector>

#include "lifetimes.h"
#include "llvm/IR/GlobalVariable.h"

namespace analyze {

enum class VariableKind { Global, Static, Local, Parameter };

struct Variable {
  VariableKind kind;
  const llvm::DIVariable *info;
  const llvm::GlobalVariable *global = nullptr;  // Global, Static
  const llvm::Function *function = nullptr;      // Local, Parameter; Static: nothing
  const Local *local = nullptr;                  // Local, Parameter
};

class Variables {
 public:
  Variables(const llvm::Module &module, const Lifetimes &lifetimes);

  const std::vector<Variable> &all() const { return all_; }
  // Globals that are defined in the program without debug info, other than the compiler's own.
  const std::vector<const llvm::GlobalVariable *> &nameless() const { return nameless_; }

 private:
  std::vector<Variable> all_;
  std::vector<const llvm::GlobalVariable *> nameless_;
};

// A type as C writes it: "struct host *", "char *[100]".
std::string type_name(const llvm::DIType *type);

// The function that declares a variable, or an empty name.
llvm::StringRef scope_name(const llvm::DIVariable *variable);

}  // namespace analyze
