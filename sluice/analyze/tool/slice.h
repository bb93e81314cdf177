// Context-sensitive slices of the dependence graph: the dependences of a node, through calls and returns that match.
//
// A slice has two phases (Horwitz, Reps, Binkley): the first ascends from functions to their callers, the second
// descends into callees; calls that it passes are crossed by summaries, which are computed on demand.
#pragma once

#include <functional>
#include <memory>

#include "graph.h"

namespace analyze {

class Slicer {
 public:
  // stop: nodes that are part of a slice, and whose own dependences are not followed. Without one: none.
  explicit Slicer(Graph &graph, std::function<bool(const Node &)> stop = nullptr, size_t most_steps = kMostSteps);

  // Begins another slice with the same graph and stop; summaries of functions are used again.
  void restart(size_t most_steps);

  // Adds the dependences of these nodes to the slice. Returns false if it became too large, and is not complete.
  bool backward(const std::vector<GraphNode> &from);

  // Instead of backward(): follows returns to all callers. The slice contains that of backward(), and takes time in
  // proportion to the dependences.
  bool backward_unmatched(const std::vector<GraphNode> &from);

  const llvm::SetVector<GraphNode> &nodes() const { return nodes_; }
  // The nodes from one of those at which the slice began to this one.
  std::vector<GraphNode> path(GraphNode to) const;

  // The dependences that were followed since restart(), in which the time is spent.
  size_t work() const { return work_; }

  static constexpr size_t kMostSteps = 4'000'000;

 private:
  struct Summary {  // of a function's output: its dependences within the function and its callees
    llvm::DenseSet<GraphNode> seen;
    llvm::DenseMap<const llvm::CallBase *, llvm::SetVector<GraphNode>> ends;  // dependences on the callers
    llvm::DenseMap<const llvm::CallBase *, llvm::SetVector<GraphNode>> waiters;  // contexts that depend on this, at the call
  };

  Summary &summary(GraphNode exit);
  Summary &of(GraphNode exit);
  void reach(GraphNode exit, Summary &summary, GraphNode node);
  void reach(GraphNode exit, GraphNode node) { reach(exit, of(exit), node); }
  void add(GraphNode node, bool ascends, GraphNode from);

  Graph &graph_;
  std::function<bool(const Node &)> stop_;
  size_t most_steps_;
  llvm::DenseMap<GraphNode, std::unique_ptr<Summary>> summaries_;
  std::vector<std::pair<GraphNode, GraphNode>> pending_summaries_;  // exit, node
  std::vector<std::pair<GraphNode, bool>> pending_;
  llvm::DenseSet<GraphNode> ascending_, descending_;
  llvm::SetVector<GraphNode> nodes_;
  llvm::DenseMap<GraphNode, GraphNode> from_;
  size_t steps_ = 0, work_ = 0;
};

}  // namespace analyze
