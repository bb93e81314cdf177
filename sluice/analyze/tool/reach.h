// Which instructions may run after a packet was received: those that the inter-procedural control flow reaches from a
// receive call. Calls and returns match: a function that is called after the receive returns to that call only, and a
// function in which a packet was received returns to each of its callers.
//
// Threads and signal handlers run beside the rest and are reached from their beginning.
#pragma once

#include "receive.h"

namespace analyze {

class Reach {
 public:
  Reach(const PointsTo &points_to, const Models &models, const Receives &receives);

  bool contains(const llvm::Instruction *instruction) const;
  // Whether the call may return.
  bool returns(const llvm::CallBase *site) const;
  // Functions with an instruction that is reached.
  const llvm::SetVector<const llvm::Function *> &functions() const { return functions_; }
  // Why a function is reached: the call, or nothing for one that receives, a thread or a handler.
  const llvm::CallBase *reason(const llvm::Function *function) const;

 private:
  void find_returning();
  void start(const llvm::Instruction *from);
  void enter(const llvm::Function *function, const llvm::CallBase *reason);
  void scan(const llvm::Instruction *from);
  void leave(const llvm::Function *function);
  void drain();

  const PointsTo &points_to_;
  const Models &models_;
  const Receives &receives_;
  llvm::DenseSet<const llvm::Function *> may_return_;
  llvm::DenseMap<const llvm::BasicBlock *, const llvm::Instruction *> reached_;  // first instruction of each block
  llvm::SetVector<const llvm::Function *> functions_;
  llvm::DenseMap<const llvm::Function *, const llvm::CallBase *> reasons_;
  llvm::DenseSet<const llvm::Function *> received_in_;  // a packet was received in them, or in a callee
  llvm::DenseSet<const llvm::Function *> left_;
  std::vector<const llvm::Instruction *> pending_;
};

}  // namespace analyze
