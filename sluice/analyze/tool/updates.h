// Which top-level variables packet processing may update (thesis, figure 4.9): an instruction that may run after a packet
// was received writes the variable's own memory, or memory without a name (of malloc, say) reached from it.
//
// Memory that is reached through another named variable counts for that one, which the thesis counts for both.
#pragma once

#include "access.h"
#include "classify.h"

namespace analyze {

// Of the variable itself.
struct Update {
  const llvm::Instruction *instruction;  // nothing if it was promoted
  const llvm::DILocation *place;
  const llvm::Function *function;
};

// Of instructions that write, one update for each line: the first.
std::vector<Update> by_line(llvm::ArrayRef<const llvm::Instruction *> writes);

// An object to which pointers of a variable lead, by the shortest chain.
struct Reached {
  ObjectId object, from;  // `from` is the object before it in the chain; the same as `object` at the beginning
};

class Updates {
 public:
  Updates(const Accesses &accesses, const Reach &reach, const Classes &classes);

  // Of the variable with this number in Classes::persistent(): of its own memory or registers, one for each line.
  const std::vector<Update> &own(size_t number) const { return own_[number]; }
  // Memory that packet processing may write, and what leads to it, in the order of the lengths of the chains.
  const std::vector<Reached> &reached(size_t number) const { return reached_[number]; }
  // Whether packet processing may update the variable, or memory that is reached from it.
  bool has(size_t number) const { return !own_[number].empty() || !reached_[number].empty(); }
  size_t variables() const;
  // The variable's own memory; nothing for a variable in registers.
  std::optional<ObjectId> memory(size_t number) const;
  // Whether packet processing may write an object.
  bool may_write(ObjectId object) const { return writers_of_.count(object) != 0; }
  // Instructions of packet processing that may write the same memory: the numbers of those groups that may write an object.
  llvm::ArrayRef<uint32_t> writers_of(ObjectId object) const {
    const auto found = writers_of_.find(object);
    return found == writers_of_.end() ? llvm::ArrayRef<uint32_t>() : llvm::ArrayRef<uint32_t>(found->second);
  }
  // ... and the instructions of a group, in the order of the program.
  llvm::ArrayRef<const llvm::Instruction *> writers(uint32_t group) const { return writers_[group]; }
  // The instructions of packet processing that may write an object, in that order.
  std::vector<const llvm::Instruction *> writes(ObjectId object) const;
  // Whether a write to a local variable's own memory precedes the loops over whose iterations it persists: it begins with
  // the value, and no packet changes it there.
  bool initialises(size_t number, const llvm::Instruction &write) const;
  // The variable's own memory, and objects reached from it without leaving unnamed memory; for top-level variables.
  const std::vector<ObjectId> &memory_of(size_t number) const { return memory_[number]; }

 private:
  void find_writes();
  void find_opaque();
  void assign(size_t number);
  bool is_opaque(ObjectId id) const { return opaque_.test(id); }
  std::vector<ObjectId> targets(const Persistent &persistent) const;

  const PointsTo &points_to_;
  const Accesses &accesses_;
  const Reach &reach_;
  const Classes &classes_;
  llvm::BitVector opaque_;
  llvm::DenseMap<ObjectId, std::vector<uint32_t>> writers_of_;
  std::vector<std::vector<const llvm::Instruction *>> writers_;  // by footprint
  llvm::DenseMap<const llvm::Instruction *, uint32_t> order_;
  std::vector<std::vector<Update>> own_;
  std::vector<std::vector<Reached>> reached_;
  std::vector<std::vector<ObjectId>> memory_;
};

}  // namespace analyze
