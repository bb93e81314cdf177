// Which variables persist from packet to packet (thesis, figure 4.6), and which of these packet processing uses
// (figure 4.7): the top-level variables.
#pragma once

#include "access.h"
#include "lifetimes.h"
#include "reach.h"
#include "variables.h"

namespace analyze {

struct ClassifyOptions {
  // As the thesis has it: every local variable and parameter of a function with a receive loop persists.
  bool all_locals = false;
};

// A use of a variable in packet processing, by its name.
struct Use {
  const llvm::Instruction *instruction;  // nothing if the instruction was promoted; then `place` has it
  llvm::DebugLoc place;
  const llvm::Function *function;
  bool writes = false;  // known for promoted variables only; see Updates
};

struct Persistent {
  const Variable *variable;
  const Loop *loop = nullptr;  // Local, Parameter: the loop over whose iterations it persists, or that of a library
  const llvm::CallBase *library_loop = nullptr;
  std::vector<Use> uses = {};  // in packet processing, by name
  std::vector<uint32_t> users = {};  // ... and through pointers: groups of Classes::users()
  bool top_level() const { return !uses.empty() || !users.empty(); }
};

class Classes {
 public:
  Classes(const Accesses &accesses, const Models &models, const Receives &receives, const Reach &reach,
          const Lifetimes &lifetimes, const Variables &variables, const ClassifyOptions &options);

  const std::vector<Persistent> &persistent() const { return persistent_; }
  // Loops that receive a packet in each iteration, or wait for one (the loops of threads).
  const std::vector<const Loop *> &loops() const { return loops_; }
  // Instructions of packet processing that use the same variables through a pointer.
  llvm::ArrayRef<const llvm::Instruction *> users(uint32_t group) const { return users_[group]; }
  // The number in persistent() of the variable with this memory; nothing if it is no persistent variable's.
  const size_t *numbered(const llvm::Value *memory) const {
    const auto found = by_memory_.find(memory);
    return found == by_memory_.end() ? nullptr : &found->second;
  }

 private:
  void find_loops();
  void find_thread_loops();
  void add_loop(const Loop &loop);
  void add_library_loop(const llvm::CallBase &site);
  Persistent &persist(const Variable *variable);
  const Variable *local_named(const llvm::Function *function, const llvm::DILocalVariable *info) const;
  void find_uses();
  void use(const llvm::Value *named, const llvm::Instruction &by);
  void use_pointee(const llvm::Value *pointer, const llvm::Instruction &by);
  void use_written(const llvm::Instruction &by);
  template <typename Objects>
  uint32_t add_group(const Objects &objects);
  void add_use(size_t persistent, const Use &use);
  void find_waiting();
  void find_runs();
  const llvm::BitVector &written_beside(size_t root);
  bool takes_work(const Loop &loop);

  const Accesses &accesses_;
  const PointsTo &points_to_;
  const Models &models_;
  const Receives &receives_;
  const Reach &reach_;
  const Lifetimes &lifetimes_;
  const Variables &variables_;
  ClassifyOptions options_;
  std::vector<Persistent> persistent_;
  std::vector<const Loop *> loops_;
  llvm::DenseMap<const llvm::DIVariable *, size_t> index_;      // in persistent_
  // of uses by place and function, in the list of each variable
  std::map<std::tuple<size_t, const llvm::DILocation *, const llvm::Function *>, size_t> use_index_;
  llvm::DenseMap<const llvm::Value *, size_t> by_memory_;       // global or alloca
  llvm::DenseMap<const llvm::DIVariable *, const Variable *> by_info_;
  std::vector<std::vector<const llvm::Instruction *>> users_;
  llvm::DenseMap<const NodeId *, uint32_t> group_of_targets_;  // by the place of the list of cells
  llvm::DenseMap<uint32_t, uint32_t> group_of_footprint_;
  llvm::DenseSet<const llvm::Function *> waits_, waits_for_event_;
  struct Root {  // where a thread of control begins
    unsigned instances;    // 2: several may run at once
    llvm::BitVector runs;  // the functions that it may run, by their order
  };
  std::vector<Root> roots_;
  std::map<size_t, llvm::BitVector> written_beside_;  // by root
};

}  // namespace analyze
