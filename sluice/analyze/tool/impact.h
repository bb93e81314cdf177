// Which variables may affect packets or logs that packet processing puts out (thesis, figure 4.11): backward slices from
// the calls of output functions.
#pragma once

#include "slice.h"
#include "updates.h"

namespace analyze {

struct Impact {
  const llvm::CallBase *output;
  std::vector<const llvm::Instruction *> path;  // from the output back to the variable
};

// Calls in packet processing that put out packets or logs.
std::vector<const llvm::CallBase *> output_calls(const Accesses &accesses, const Reach &reach, OutputKind kind);

class Impacts {
 public:
  // most_steps: of a slice that matches calls and returns, and follows the order of writes to memory; one that would need
  // more does neither
  Impacts(const Accesses &accesses, const Reach &reach, const Classes &classes, const Updates &updates,
          size_t most_steps = kMostMatched);

  const std::optional<Impact> &packet(size_t number) const { return packet_[number]; }
  const std::optional<Impact> &log(size_t number) const { return log_[number]; }
  bool has_outputs(OutputKind kind) const { return kind == OutputKind::Packet ? packets_ : logs_; }
  // Whether the slices are complete; if not, all variables count.
  bool is_complete() const { return complete_; }
  // Whether they match calls and returns; if not, they are larger than needed.
  bool is_matched() const { return matched_; }
  size_t nodes() const { return graph_.nodes() + (unordered_ ? unordered_->nodes() : 0); }

  static constexpr size_t kMostMatched = 1'000'000;

 private:
  bool slice(const Reach &reach, const Updates &updates, OutputKind kind, std::vector<std::optional<Impact>> &found);

  const Classes &classes_;
  size_t most_steps_;
  Graph graph_;
  std::optional<Graph> unordered_;
  static constexpr size_t kMostUnmatched = 20'000'000;
  bool complete_ = true, matched_ = true, packets_ = false, logs_ = false;
  std::vector<std::optional<Impact>> packet_, log_;
};

}  // namespace analyze
