// Which function each call may call. The points-to analysis fills it in while it resolves pointers to functions.
#pragma once

#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/InstrTypes.h"
#include "models.h"

namespace analyze {

// A function that a library calls, or starts, because a call gave it.
struct Spawn {
  const llvm::CallBase *site;
  const llvm::Function *function;
  CallRole role;
};

class CallGraph {
 public:
  // Returns whether the edge is new.
  bool add(const llvm::CallBase *site, const llvm::Function *callee);
  bool add_spawn(const Spawn &spawn);
  void enter(const llvm::Function *function) { entered_.insert(function); }

  // Functions of the program, and external ones, that a call may call; in order of discovery.
  llvm::ArrayRef<const llvm::Function *> callees(const llvm::CallBase *site) const;
  // ... and those that the library calls meanwhile.
  llvm::ArrayRef<const llvm::Function *> callbacks(const llvm::CallBase *site) const;
  llvm::ArrayRef<const llvm::CallBase *> callers(const llvm::Function *function) const;
  const std::vector<Spawn> &spawns() const { return spawns_; }

  // Functions with a body that may run: called, started, or given to unknown code.
  const llvm::SetVector<const llvm::Function *> &entered() const { return entered_; }

  size_t edges() const { return edges_.size(); }

 private:
  using Edge = std::pair<const llvm::CallBase *, const llvm::Function *>;

  llvm::DenseSet<Edge> edges_;
  llvm::DenseMap<const llvm::CallBase *, std::vector<const llvm::Function *>> callees_, callbacks_;
  llvm::DenseMap<const llvm::Function *, std::vector<const llvm::CallBase *>> callers_;
  std::vector<Spawn> spawns_;
  llvm::SetVector<const llvm::Function *> entered_;
};

}  // namespace analyze
