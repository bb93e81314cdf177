// Variables that carry nothing from packet to packet, although they persist: all that an iteration reads from them,
// it has written before. Static text buffers and copies of the current packet are examples.
//
// By liveness (backward data flow over the calls of the program): a variable carries something if some byte of it may
// be read, before it is overwritten, after the point at which the next packet is received, and packet processing changes
// that byte, or memory reached from the variable.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "access.h"
#include "classify.h"
#include "updates.h"

namespace analyze {

class Overwritten {
 public:
  Overwritten(const Accesses &accesses, const Receives &receives, const Classes &classes, const Updates &updates);

  // Of the variable with this number in Classes::persistent().
  bool contains(size_t number) const { return found_[number]; }

 private:
  using Bits = llvm::BitVector;
  struct Step {  // the effect of instructions on candidates: of a call, or of those before and after calls
    const llvm::Instruction *instruction;
    const Bits *reads, *kills;  // before anything is overwritten; nothing if they are empty
    std::optional<size_t> runs;  // which of Runs, if it may run functions of the program
    bool repeats;
    bool outside;  // may also call a function outside the program
  };
  // Functions that the same calls may run; many calls by pointers share them.
  struct Runs {
    std::vector<const llvm::Function *> functions;
    Bits kills, exposed, live;  // what all overwrite, what any may read first, and what is read after they return
    bool is_known = false;      // kills and exposed are those of the functions
  };
  using Blocks = llvm::DenseMap<const llvm::BasicBlock *, Bits>;
  using Pending = std::set<std::pair<uint32_t, const llvm::Function *>>;  // in the order of the call graph

  void prepare(const llvm::Function &function);
  const Bits *candidates_of(const std::vector<uint32_t> &footprints);
  Pending all() const;
  void add_callers(const llvm::Function &function, Pending &pending) const;
  std::optional<size_t> runs_of(llvm::ArrayRef<const llvm::Function *> functions);
  const Runs &known(size_t runs);
  void forget(const llvm::Function &function);
  void find_kills();
  void find_exposed();
  void find_live();
  void kill(const Step &step, Bits &live, bool value);
  void apply(const Step &step, Bits &live);
  Blocks solve(const llvm::Function &function, const Bits &at_return);
  Bits live_after(const llvm::BasicBlock &block, const Blocks &live, const Bits &at_return) const;

  const Accesses &accesses_;
  const Receives &receives_;
  std::vector<bool> found_;
  llvm::DenseMap<Atom, unsigned> candidates_;
  llvm::DenseMap<uint32_t, const Bits *> of_footprints_;
  std::deque<Bits> bits_;  // of steps
  llvm::DenseMap<const llvm::BasicBlock *, std::vector<Step>> steps_;
  std::deque<Runs> runs_;
  std::map<std::vector<const llvm::Function *>, size_t> runs_numbers_;
  llvm::DenseMap<const llvm::Function *, std::vector<size_t>> runs_with_;
  llvm::DenseMap<const llvm::Function *, Bits> kills_, exposed_, at_return_;
};

}  // namespace analyze
