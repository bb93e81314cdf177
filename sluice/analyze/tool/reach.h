// Which instructions may run after a packet was received: those that the inter-procedural control flow reaches from a
// receive call. Calls and returns match: a function that is called after the receive returns to that call only, and a
// function in which a packet was received returns to each of its callers.
//
// Threads and signal handlers run beside the rest and are reached from their beginning.
//
// A branch is not followed if the constants that all reached calls pass as arguments decide it otherwise (conditional
// constant propagation: Wegman and Zadeck, 1991): a function that inserts an entry only if a flag is set, and that packet
// processing calls without the flag, inserts none.
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
  // passes: whether the call passes its own arguments, in their order; a library passes others.
  void enter(const llvm::Function *function, const llvm::CallBase *reason, bool passes);
  void set_argument(const llvm::Argument &argument, const llvm::ConstantInt *value);
  void receive_in(const llvm::Function *function);
  const llvm::ConstantInt *constant(const llvm::Value *value, unsigned depth = 0) const;
  void follow(const llvm::Instruction *terminator);
  void pass_on();
  void scan(const llvm::Instruction *from);
  void leave(const llvm::Function *function);
  void drain();

  const PointsTo &points_to_;
  const Models &models_;
  const Receives &receives_;
  llvm::DenseSet<const llvm::Function *> may_return_;
  llvm::DenseMap<const llvm::BasicBlock *, const llvm::Instruction *> reached_;  // first instruction of each block
  llvm::DenseSet<const llvm::BasicBlock *> ends_;  // blocks of which the end is reached
  llvm::SetVector<const llvm::Function *> functions_;
  llvm::DenseMap<const llvm::Function *, const llvm::CallBase *> reasons_;
  llvm::DenseSet<const llvm::Function *> received_in_;  // a packet was received in them, or in a callee
  llvm::DenseSet<const llvm::Function *> left_;
  std::vector<const llvm::Instruction *> pending_;
  // Of arguments of reached functions: the value that all reached calls pass, or nothing if they differ.
  llvm::DenseMap<const llvm::Argument *, const llvm::ConstantInt *> arguments_;
  llvm::SetVector<const llvm::Function *> changed_;  // functions of which an argument has more values than before
  std::vector<const llvm::CallBase *> jump_targets_;  // calls of setjmp
};

}  // namespace analyze
