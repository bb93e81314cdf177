// The reverse of a dependence graph: from a node to those that depend on it. Slices that follow it are forward slices.
#pragma once

#include "graph.h"

namespace analyze {

class Dependents : public Edges {
 public:
  // Makes all of a graph, which is made on demand otherwise: the nodes of all instructions, and what these depend on.
  // most: dependences; beyond, the reverse is not complete
  Dependents(Graph &graph, size_t most);

  bool is_complete() const { return complete_; }
  const Node &node(GraphNode number) const override { return graph_.node(number); }
  // Those that depend on the node. What returns from a callee (Down) enters it here (Up), and the reverse.
  llvm::ArrayRef<Dependence> dependences(GraphNode node) override {
    return node < to_.size() ? llvm::ArrayRef<Dependence>(to_[node]) : llvm::ArrayRef<Dependence>();
  }

 private:
  Graph &graph_;
  std::vector<std::vector<Dependence>> to_;
  bool complete_ = true;
};

}  // namespace analyze
