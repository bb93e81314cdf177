#include "sets.h"

#include <algorithm>

#include "llvm/ADT/Hashing.h"

namespace analyze {

SetPool::SetPool() { intern({}); }

SetId SetPool::intern(std::vector<NodeId> sorted) {
  const uint64_t hash = llvm::hash_combine_range(sorted.begin(), sorted.end()) >> 2;  // DenseMap reserves two keys
  std::vector<SetId> &same_hash = by_hash_[hash];
  for (SetId candidate : same_hash)
    if (sets_[candidate] == sorted) return candidate;
  const auto id = static_cast<SetId>(sets_.size());
  sets_.push_back(std::move(sorted));
  same_hash.push_back(id);
  return id;
}

SetId SetPool::of(std::vector<NodeId> elements) {
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return intern(std::move(elements));
}

SetId SetPool::unite(SetId a, SetId b) {
  if (a == b || b == kEmpty) return a;
  if (a == kEmpty) return b;
  if (a > b) std::swap(a, b);
  const auto found = unions_.find({a, b});
  if (found != unions_.end()) return found->second;
  std::vector<NodeId> both;
  both.reserve(sets_[a].size() + sets_[b].size());
  std::set_union(sets_[a].begin(), sets_[a].end(), sets_[b].begin(), sets_[b].end(), std::back_inserter(both));
  const SetId result = intern(std::move(both));
  unions_[{a, b}] = result;
  return result;
}

SetId SetPool::minus(SetId a, SetId b) {
  if (a == b || a == kEmpty) return kEmpty;
  if (b == kEmpty) return a;
  const auto found = differences_.find({a, b});
  if (found != differences_.end()) return found->second;
  std::vector<NodeId> rest;
  std::set_difference(sets_[a].begin(), sets_[a].end(), sets_[b].begin(), sets_[b].end(), std::back_inserter(rest));
  const SetId result = intern(std::move(rest));
  differences_[{a, b}] = result;
  return result;
}

bool SetPool::contains(SetId set, NodeId element) const {
  return std::binary_search(sets_[set].begin(), sets_[set].end(), element);
}

}  // namespace analyze
