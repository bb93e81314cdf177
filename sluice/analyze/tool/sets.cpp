#include "sets.h"

#include <algorithm>

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/bit.h"

namespace analyze {

SetPool::SetPool() { intern(Parts()); }

uint32_t SetPool::intern(const Block &block) {
  return blocks_.number(block, llvm::hash_combine_range(block.begin(), block.end()));
}

SetId SetPool::intern(Parts parts) {
  uint64_t hash = parts.size();
  for (const Part &part : parts) hash = llvm::hash_combine(hash, part.place, part.block);
  parts.shrink_to_fit();
  return sets_.number(std::move(parts), hash);
}

uint32_t SetPool::index(NodeId node) {
  if (node >= indices_.size()) indices_.resize(node + 1, kNone);
  uint32_t &found = indices_[node];
  if (found == kNone) {
    found = static_cast<uint32_t>(members_.size());
    members_.push_back(node);
  }
  return found;
}

SetId SetPool::of(const std::vector<NodeId> &elements) {
  std::vector<uint32_t> sorted;
  sorted.reserve(elements.size());
  for (const NodeId node : elements) sorted.push_back(index(node));
  std::sort(sorted.begin(), sorted.end());
  Parts parts;
  for (size_t i = 0; i < sorted.size();) {
    Block block{};
    const uint32_t place = sorted[i] / kBits;
    for (; i < sorted.size() && sorted[i] / kBits == place; ++i)
      block[sorted[i] % kBits / 64] |= uint64_t{1} << sorted[i] % 64;
    parts.push_back({place, intern(block)});
  }
  return intern(std::move(parts));
}

SetId SetPool::unite(SetId a, SetId b) {
  if (a == b || b == kEmpty) return a;
  if (a == kEmpty) return b;
  if (a > b) std::swap(a, b);
  const auto known = unions_.find({a, b});
  if (known != unions_.end()) return known->second;
  const Parts &one = sets_[a], &other = sets_[b];
  Parts both;
  both.reserve(one.size() + other.size());
  auto at = one.begin();
  for (const Part &part : other) {
    while (at != one.end() && at->place < part.place) both.push_back(*at++);
    if (at == one.end() || at->place != part.place || at->block == part.block) {
      if (at != one.end() && at->place == part.place) ++at;
      both.push_back(part);
      continue;
    }
    Block block = blocks_[part.block];
    for (unsigned word = 0; word < kWords; ++word) block[word] |= blocks_[at->block][word];
    both.push_back({part.place, intern(block)});
    ++at;
  }
  both.insert(both.end(), at, one.end());
  const SetId result = intern(std::move(both));
  unions_[{a, b}] = result;
  return result;
}

SetId SetPool::minus(SetId a, SetId b) {
  if (a == b || a == kEmpty) return kEmpty;
  if (b == kEmpty) return a;
  const auto known = differences_.find({a, b});
  if (known != differences_.end()) return known->second;
  const Parts &from = sets_[a], &removed = sets_[b];
  Parts rest;
  auto at = removed.begin();
  for (const Part &part : from) {
    while (at != removed.end() && at->place < part.place) ++at;
    if (at == removed.end() || at->place != part.place) {
      rest.push_back(part);
      continue;
    }
    if (at->block == part.block) continue;
    Block block = blocks_[part.block];
    uint64_t any = 0;
    for (unsigned word = 0; word < kWords; ++word) any |= block[word] &= ~blocks_[at->block][word];
    if (any != 0) rest.push_back({part.place, intern(block)});
  }
  const SetId result = intern(std::move(rest));
  differences_[{a, b}] = result;
  return result;
}

std::vector<NodeId> SetPool::list(SetId set) const {
  std::vector<NodeId> found;
  for (const Part &part : sets_[set])
    for (unsigned word = 0; word < kWords; ++word)
      for (uint64_t bits = blocks_[part.block][word]; bits != 0; bits &= bits - 1)
        found.push_back(members_[part.place * kBits + word * 64 + static_cast<unsigned>(llvm::countr_zero(bits))]);
  return found;
}

llvm::ArrayRef<NodeId> SetPool::elements(SetId set) const {
  std::unique_ptr<std::vector<NodeId>> &found = lists_[set];
  if (!found) found = std::make_unique<std::vector<NodeId>>(list(set));
  return *found;
}

}  // namespace analyze
