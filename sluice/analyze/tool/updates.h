// Which top-level variables packet processing may update (thesis, figure 4.9): an instruction that may run after a packet
// was received writes the variable's own memory, or memory without a name (of malloc, say) reached from it.
//
// Memory that is reached through another named variable counts for that one, which the thesis counts for both.
#pragma once

#include "access.h"
#include "classify.h"

namespace analyze {

struct Update {
  const llvm::Instruction *instruction;  // nothing if it was promoted
  const llvm::DILocation *place;
  const llvm::Function *function;
  std::vector<ObjectId> chain;  // from the variable to the written object; empty for a variable in a register
};

class Updates {
 public:
  Updates(const Accesses &accesses, const Reach &reach, const Classes &classes);

  // Of the variable with this number in Classes::persistent().
  const std::vector<Update> &of(size_t number) const { return updates_[number]; }
  size_t variables() const;
  // Whether packet processing may write an object.
  bool may_write(ObjectId object) const { return writes_.count(object) != 0; }
  // The instructions of packet processing that may write an object.
  llvm::ArrayRef<const llvm::Instruction *> writes(ObjectId object) const {
    const auto found = writes_.find(object);
    return found == writes_.end() ? llvm::ArrayRef<const llvm::Instruction *>() : found->second.getArrayRef();
  }
  // Whether a write to a local variable's own memory precedes the loops over whose iterations it persists: it begins with
  // the value, and no packet changes it there.
  bool initialises(size_t number, const llvm::Instruction &write) const;
  // The variable's own memory, and objects reached from it without leaving unnamed memory; for top-level variables.
  const std::vector<ObjectId> &memory_of(size_t number) const { return memory_[number]; }

 private:
  void find_writes();
  void assign(size_t number);
  bool is_opaque(ObjectId id) const;
  std::vector<ObjectId> leads_to(const Persistent &persistent) const;

  const PointsTo &points_to_;
  const Accesses &accesses_;
  const Reach &reach_;
  const Classes &classes_;
  llvm::DenseMap<ObjectId, llvm::SetVector<const llvm::Instruction *>> writes_;  // by the objects that they may write
  std::vector<std::vector<Update>> updates_;
  std::vector<std::vector<ObjectId>> memory_;
};

}  // namespace analyze
