// Sets of node numbers, each distinct set stored once, so that equal points-to sets share memory and comparing two of them
// compares two numbers (hash-consing). Unions and differences are memoised.
//
// Elements are numbered in the order in which they first become members. A set is a list of blocks of 256 elements, and
// each distinct block is stored once, too: the large sets of a program differ in few of their blocks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "distinct.h"
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
  SetId of(const std::vector<NodeId> &elements);
  SetId unite(SetId a, SetId b);
  SetId minus(SetId a, SetId b);
  SetId common(SetId a, SetId b) { return minus(a, minus(a, b)); }

  // In the order in which they first became members of a set.
  std::vector<NodeId> list(SetId set) const;
  // The same, kept for the next call.
  llvm::ArrayRef<NodeId> elements(SetId set) const;

  size_t distinct() const { return sets_.values().size(); }

 private:
  static constexpr unsigned kWords = 4, kBits = 64 * kWords;
  using Block = std::array<uint64_t, kWords>;
  struct Part {
    uint32_t place, block;  // elements from place * kBits on; the number of the block
    bool operator==(const Part &other) const { return place == other.place && block == other.block; }
  };
  using Parts = std::vector<Part>;

  SetId intern(Parts parts);
  uint32_t intern(const Block &block);
  uint32_t index(NodeId node);

  Distinct<Block> blocks_;
  Distinct<Parts> sets_;
  std::vector<uint32_t> indices_;  // of nodes, or kNone
  std::vector<NodeId> members_;    // by index
  llvm::DenseMap<std::pair<SetId, SetId>, SetId> unions_, differences_;
  mutable llvm::DenseMap<SetId, std::unique_ptr<std::vector<NodeId>>> lists_;

  static constexpr uint32_t kNone = UINT32_MAX;
};

}  // namespace analyze
