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

class Impacts {
 public:
  Impacts(const Accesses &accesses, const Reach &reach, const Classes &classes, const Updates &updates);

  const std::optional<Impact> &packet(size_t number) const { return packet_[number]; }
  const std::optional<Impact> &log(size_t number) const { return log_[number]; }
  bool has_outputs(OutputKind kind) const { return kind == OutputKind::Packet ? packets_ : logs_; }
  // Whether the slices are complete; if not, all variables count.
  bool is_complete() const { return complete_; }
  size_t nodes() const { return graph_.nodes(); }

 private:
  bool slice(const Reach &reach, const Updates &updates, OutputKind kind, std::vector<std::optional<Impact>> &found);

  const Classes &classes_;
  Graph graph_;
  bool complete_ = true, packets_ = false, logs_ = false;
  std::vector<std::optional<Impact>> packet_, log_;
};

}  // namespace analyze
