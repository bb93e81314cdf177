// Which top-level variables packet processing may update (thesis, figure 4.9): an instruction that may run after a packet
// was received writes the variable's own memory, or memory without a name (of malloc, say) that it leads to.
//
// Memory that is reached through another named variable counts for that one, which the thesis counts for both.
#pragma once

#include "classify.h"

namespace analyze {

struct Update {
  const llvm::Instruction *instruction;  // nothing if it was promoted
  const llvm::DILocation *place;
  const llvm::Function *function;
  std::vector<ObjectId> chain;  // from the variable to what is written; empty for a variable in a register
};

class Updates {
 public:
  Updates(const PointsTo &points_to, const Models &models, const Reach &reach, const Classes &classes);

  // Of the variable with this number in Classes::persistent().
  const std::vector<Update> &of(size_t number) const { return updates_[number]; }
  size_t variables() const;

 private:
  void find_writes();
  void add_call(const llvm::CallBase &call);
  void add_unknown(const llvm::CallBase &call);
  void add_write(const llvm::Value *pointer, const llvm::Instruction &by);
  void assign(size_t number);
  bool is_opaque(ObjectId id) const;
  std::vector<ObjectId> leads_to(const Persistent &persistent) const;

  const PointsTo &points_to_;
  const Models &models_;
  const Reach &reach_;
  const Classes &classes_;
  llvm::DenseMap<ObjectId, llvm::SetVector<const llvm::Instruction *>> writes_;  // by what they may write
  std::vector<std::vector<Update>> updates_;
};

}  // namespace analyze
