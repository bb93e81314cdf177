// Which local variables keep their value from one iteration of a loop to the next.
//
// A local variable survives an iteration if the loop may read the value that an earlier iteration (or the code before
// the loop) left: it is live where the loop begins, and no iteration leaves the block in which it is declared (C11,
// 6.2.4: the lifetime of an object ends there). If its address is taken, it counts as live. Where the lifetime ends is
// known from the markers that clang emits when it optimises; without them, from the debug info.
//
// Computed on the module as clang emits it before any optimisation, while local variables are still in memory.
#pragma once

#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

namespace analyze {

// A local variable or parameter, and where the function accesses it by name.
struct Local {
  const llvm::DILocalVariable *info;
  const llvm::AllocaInst *memory;  // not to be dereferenced if the variable was promoted
  bool address_taken;
  bool promoted;
};

struct LoopLocal {
  unsigned local;  // index in the function's locals
  bool read;       // by name, in the loop
  bool written;
  std::vector<std::pair<llvm::DebugLoc, bool>> places;  // of accesses by name, in the loop; whether they write
};

struct Loop {
  const llvm::Function *function;
  const llvm::BasicBlock *header;
  bool outermost;
  llvm::SmallPtrSet<const llvm::BasicBlock *, 8> blocks;
  std::vector<LoopLocal> survivors;
};

class Lifetimes {
 public:
  explicit Lifetimes(const llvm::Module &module);

  const std::vector<Loop> &loops(const llvm::Function *function) const;
  const std::vector<Local> &locals(const llvm::Function *function) const;

 private:
  void add(const llvm::Function &function);

  llvm::DenseMap<const llvm::Function *, std::vector<Loop>> loops_;
  llvm::DenseMap<const llvm::Function *, std::vector<Local>> locals_;
};

}  // namespace analyze
