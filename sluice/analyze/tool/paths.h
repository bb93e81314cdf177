// Updates that do not belong to the processing of packets, although they may run after one was received: on the path to
// the program's exit, and after a signal (reading the configuration again, for example).
#pragma once

#include "access.h"
#include "classify.h"

namespace analyze {

enum class PathKind { Packet, Exit, Reload };

class Paths {
 public:
  Paths(const Accesses &accesses, const Receives &receives, const Reach &reach, const Classes &classes);

  // Exit: no packet is received afterwards. Reload: runs in a signal handler, or only if a variable that a handler
  // writes is not zero. Packet: all else.
  PathKind of(const llvm::Instruction &instruction) const;

 private:
  void find_leading();
  bool leads(const llvm::Instruction &instruction) const;
  void find_reloading();
  bool reloading(const llvm::Instruction &instruction) const;

  const Accesses &accesses_;
  const Receives &receives_;
  const Reach &reach_;
  const Classes &classes_;
  llvm::DenseSet<const llvm::BasicBlock *> leading_;       // from their beginning
  llvm::DenseSet<const llvm::Function *> leading_return_;  // after their return
  llvm::DenseSet<const llvm::BasicBlock *> after_flag_;    // run if a signal was noticed
  llvm::DenseSet<const llvm::Function *> reloading_;       // functions that only such blocks call, and handlers
};

}  // namespace analyze
