// Sets of node numbers, each distinct set stored once, so that equal points-to sets share memory and
// comparing two of them compares two numbers. Unions and differences are memoised (hash-consing).
#pragma once

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

namespace analyze {

using NodeId = uint32_t;
using SetId = uint32_t;

class SetPool {
 public:
  static constexpr SetId kEmpty = 0;

  SetPool();

  // The set of these elements, in any order, repeated or not.
  SetId of(std::vector<NodeId> elements);
  SetId unite(SetId a, SetId b);
  SetId minus(SetId a, SetId b);

  // In ascending order; valid until the next call of a function that is not const.
  llvm::ArrayRef<NodeId> elements(SetId set) const { return sets_[set]; }
  bool contains(SetId set, NodeId element) const;

  size_t distinct() const { return sets_.size(); }

 private:
  using Pair = std::pair<SetId, SetId>;

  SetId intern(std::vector<NodeId> sorted);

  std::vector<std::vector<NodeId>> sets_;
  llvm::DenseMap<uint64_t, std::vector<SetId>> by_hash_;
  llvm::DenseMap<Pair, SetId> unions_;
  llvm::DenseMap<Pair, SetId> differences_;
};

}  // namespace analyze
