// Slices that a user requests: forward from a place in the source, backward from another one, or the chop between both.
#pragma once

#include "dependents.h"
#include "llvm/IR/ValueHandle.h"
#include "reach.h"
#include "slice.h"

namespace analyze {

// Where a slice begins (slicing criterion: Weiser, 1984): FILE:LINE, of which FILE may be the end of a path. A forward
// slice may also begin at `receive`, all receive calls, and a backward one at `packets` or `logs`, all calls that put
// these out.
struct Criteria {
  std::string from, to;  // one of them may be empty
  size_t most_steps = kMostSteps;  // of a slice that matches calls and returns

  static constexpr size_t kMostSteps = 4'000'000;
};

// An assignment to a local variable that is in a register afterwards: no instruction of it may be left.
struct Assignment {
  const llvm::Function *function;
  llvm::DebugLoc place;
  llvm::WeakTrackingVH value;
};

// Has to precede promote_locals().
std::vector<Assignment> assignments(const llvm::Module &module);

// The lines of a slice, by function. A forward slice has the lines whose values, or whether they run, may depend on the
// criterion; a backward slice has those on which it may depend; the chop has those through which one criterion may depend
// on the other.
llvm::Expected<llvm::json::Object> slice_between(const Criteria &criteria, const Accesses &accesses,
                                                 const Receives &receives, const Reach &reach,
                                                 llvm::ArrayRef<Assignment> assigned);

}  // namespace analyze
