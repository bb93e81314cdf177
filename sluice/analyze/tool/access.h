// Which bytes of abstract memory each instruction reads, may write, and certainly overwrites.
//
// The bytes of an object are divided into atoms at the boundaries of all accesses, so that each access covers whole
// atoms. An atom of an array's element represents that part of every element.
#pragma once

#include "distinct.h"
#include "llvm/ADT/BitVector.h"
#include "pointsto.h"

namespace analyze {

using Atom = uint32_t;

// Of one instruction, without those of functions of the program that it calls.
struct Effects {
  std::vector<uint32_t> reads, writes, overwrites;  // numbers of footprints; overwritten ones are also written
};

class Accesses {
 public:
  Accesses(const PointsTo &points_to, const Models &models);

  const Effects &of(const llvm::Instruction &instruction) const;
  bool reads(const llvm::Instruction &instruction, Atom atom) const { return covers(of(instruction).reads, atom); }
  bool writes(const llvm::Instruction &instruction, Atom atom) const { return covers(of(instruction).writes, atom); }
  // Whether all of the atom has a new value after the instruction.
  bool overwrites(const llvm::Instruction &instruction, Atom atom) const {
    return covers(of(instruction).overwrites, atom);
  }
  // The atoms of a footprint, in ascending order.
  const std::vector<Atom> &atoms(uint32_t footprint) const { return footprints_[footprint]; }
  std::vector<Atom> all(const std::vector<uint32_t> &footprints) const;

  size_t count() const { return objects_.size(); }
  ObjectId object_of(Atom atom) const { return objects_[atom]; }
  // The atoms of an object are consecutive numbers: the first, and the one after the last.
  std::pair<Atom, Atom> range(ObjectId object) const { return {first_[object], first_[object + 1]}; }
  // The bytes of an atom in its object, as folded offsets.
  std::pair<uint64_t, uint64_t> bytes(Atom atom) const { return bytes_[atom]; }
  // The atoms among bytes [start, end) of an object, if the atom's part of an array is no part of them: all of the array.
  std::vector<Atom> among(ObjectId object, uint64_t start, uint64_t end) const;

  // An object that is one variable at a time: a global, or a local variable of a function that is not recursive.
  bool is_single(ObjectId object) const;
  // Functions of the program that a call may run before it returns: callees, callbacks, registered callbacks.
  llvm::ArrayRef<const llvm::Function *> runs(const llvm::CallBase &site) const;
  // ... and the reverse: calls that may run a function.
  llvm::ArrayRef<const llvm::CallBase *> run_by(const llvm::Function &function) const;
  // Whether the call may run functions none, one or many times, in any order: calls of libraries that call back.
  bool repeats(const llvm::CallBase &site) const;

  // Of functions: callees before callers, unless these may call each other.
  uint32_t order(const llvm::Function *function) const { return cycle_of_.find(function)->second; }
  // The possible reads and writes of a function and its callees, without their own local variables.
  const llvm::BitVector &may_read(const llvm::Function *function) const {
    return may_read_[cycle_of_.find(function)->second];
  }
  const llvm::BitVector &may_write(const llvm::Function *function) const {
    return may_write_[cycle_of_.find(function)->second];
  }
  // Where threads of control begin: main, threads, handlers, what unknown code may call; 2 if several may run at once.
  llvm::MapVector<const llvm::Function *, unsigned> roots() const;
  // Atoms that threads or signal handlers access at the same time as other code.
  bool is_shared(Atom atom) const { return shared_.test(atom); }

  // Memory that a call of an output function reads: all that is reached from its arguments.
  const PointsTo &points_to() const { return points_to_; }
  const Models &models() const { return models_; }

 private:
  struct Range {
    ObjectId object;
    uint64_t start, end;
    bool operator<(const Range &other) const {
      return std::tie(object, start, end) < std::tie(other.object, other.start, other.end);
    }
    bool operator==(const Range &other) const {
      return object == other.object && start == other.start && end == other.end;
    }
  };
  struct Exact {
    ObjectId object;
    uint64_t offset;
  };

  void find_recursive();
  void find_started();
  void find_own_frames();
  bool has_instances(const llvm::Function *function, ObjectId local) const;
  void collect(const llvm::Instruction &instruction);
  void collect_call(const llvm::CallBase &call, Effects &effects);
  void collect_external(const llvm::CallBase &call, const llvm::Function &callee, Effects &effects);
  void collect_unknown(const llvm::CallBase &call, Effects &effects);
  void add_overwrite(const llvm::Value *pointer, uint64_t bytes, Effects &effects);
  uint32_t footprint(const llvm::Value *pointer, uint64_t bytes);
  uint32_t footprint(std::vector<Range> ranges);
  uint32_t written(const llvm::Value *pointer, uint64_t bytes) { return writable(footprint(pointer, bytes)); }
  uint32_t writable(uint32_t all);
  uint32_t closure(const llvm::CallBase &call);
  uint32_t pointee(const llvm::Value *pointer, uint64_t offset);
  void find_groups();
  uint32_t escaped();
  void add_range(NodeId cell, uint64_t bytes, std::vector<Range> &ranges) const;
  Range range_at(ObjectId object, uint64_t offset, uint64_t bytes) const;
  std::optional<Exact> exact(const llvm::Value *pointer, unsigned depth = 0) const;
  void divide();
  void summarise();
  void find_shared();
  bool covers(const std::vector<uint32_t> &footprints, Atom atom) const;

  const PointsTo &points_to_;
  const Models &models_;
  const llvm::DataLayout *layout_ = nullptr;
  llvm::DenseMap<const llvm::Instruction *, Effects> effects_;
  std::map<std::tuple<const NodeId *, size_t, uint64_t>, uint32_t> by_set_;
  Distinct<std::vector<Range>> ranges_;          // of footprints
  std::vector<std::vector<Atom>> footprints_;
  std::vector<bool> is_overwrite_;               // the footprint is certainly overwritten
  std::vector<ObjectId> objects_;                // by atom
  std::vector<std::pair<uint64_t, uint64_t>> bytes_;
  std::vector<Atom> first_;                      // by object
  // Cycles of the call graph, callees first: the functions of one have the same summaries.
  llvm::DenseMap<const llvm::Function *, uint32_t> cycle_of_;
  std::vector<std::vector<const llvm::Function *>> cycles_;
  std::vector<llvm::BitVector> may_read_, may_write_;
  // Groups of objects that lead to each other, and the groups to which their pointers lead.
  std::vector<uint32_t> group_of_;  // by object
  std::vector<std::vector<ObjectId>> groups_;
  std::vector<std::vector<uint32_t>> leads_of_group_;
  llvm::DenseSet<const llvm::Function *> recursive_;
  llvm::MapVector<const llvm::Function *, unsigned> started_;  // threads and handlers; 2: several may run at once
  llvm::DenseSet<ObjectId> own_frame_;                         // local variables whose address no other thread can have
  llvm::BitVector shared_;
  std::optional<uint32_t> escaped_;
  std::vector<const llvm::Function *> registered_;
  std::vector<const llvm::CallBase *> dispatch_sites_;
  // of calls and functions for which it is not what the call graph has
  mutable llvm::DenseMap<const llvm::CallBase *, std::vector<const llvm::Function *>> runs_;
  mutable llvm::DenseMap<const llvm::Function *, std::vector<const llvm::CallBase *>> run_by_;

 public:
  static constexpr uint64_t kToEnd = UINT64_MAX;
};

// The size of the target of a function's parameter, from its prototype; 0 for void, char or an unknown type.
uint64_t pointee_bytes(const llvm::Function &function, unsigned index);
// Whether by its prototype a function does not write the argument's target.
bool is_const(const llvm::Function &function, unsigned index);

}  // namespace analyze
