// Values that are stored once, and have numbers (hash-consing).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "llvm/ADT/DenseMap.h"

namespace analyze {

template <typename Value>
class Distinct {
 public:
  // The number of the value; of equal values it is the same.
  uint32_t number(Value value, uint64_t hash) {
    const auto [found, is_new] = newest_.try_emplace(hash >> 2, kNone);  // DenseMap reserves two keys
    for (uint32_t one = found->second; one != kNone; one = before_[one])
      if (values_[one] == value) return one;
    const uint32_t added = add(std::move(value));
    before_[added] = std::exchange(found->second, added);
    return added;
  }

  // The number of a value that number() does not find.
  uint32_t add(Value value) {
    values_.push_back(std::move(value));
    before_.push_back(kNone);
    return static_cast<uint32_t>(values_.size() - 1);
  }

  const Value &operator[](uint32_t number) const { return values_[number]; }
  const std::vector<Value> &values() const { return values_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Value> values_;
  std::vector<uint32_t> before_;  // the value before it with the same hash
  llvm::DenseMap<uint64_t, uint32_t> newest_;
};

}  // namespace analyze
