// Context-sensitive slices of the dependence graph: the dependences of a node, through calls and returns that match. Of
// the reversed graph, they are forward slices.
//
// A slice has two phases (Horwitz, Reps, Binkley): the first ascends from functions to their callers, the second
// descends into callees; calls that it passes are crossed by summaries, which are computed on demand.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "graph.h"

namespace analyze {

class Slicer {
 public:
  // stop: nodes that are part of a slice, and whose own dependences are not followed. Without one: none.
  explicit Slicer(Edges &graph, std::function<bool(const Node &)> stop = nullptr, size_t most_steps = kMostSteps);

  // From now on, slices consist of these nodes only. Has to precede the first slice.
  void limit_to(const llvm::DenseSet<GraphNode> &nodes) { only_ = &nodes; }

  // Begins another slice with the same graph and stop; summaries of functions are used again.
  void restart(size_t most_steps);

  // Adds the dependences of these nodes to the slice. Returns false if it became too large, and is not complete.
  bool follow(const std::vector<GraphNode> &from);
  // ... of a node that has these dependences, and that is no part of the slice.
  void follow_edges(llvm::ArrayRef<Dependence> dependences, GraphNode from) { expand(dependences, true, from); }

  // Instead of follow(): follows returns to all callers. The slice contains that of follow(), and takes time in
  // proportion to the dependences.
  bool follow_unmatched(const std::vector<GraphNode> &from);

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
  void expand(llvm::ArrayRef<Dependence> dependences, bool ascends, GraphNode from);

  Edges &graph_;
  std::function<bool(const Node &)> stop_;
  size_t most_steps_;
  const llvm::DenseSet<GraphNode> *only_ = nullptr;
  llvm::DenseMap<GraphNode, std::unique_ptr<Summary>> summaries_;
  std::vector<std::pair<GraphNode, GraphNode>> pending_summaries_;  // exit, node
  std::deque<std::pair<GraphNode, bool>> pending_;
  llvm::DenseSet<GraphNode> ascending_, descending_;
  llvm::SetVector<GraphNode> nodes_;
  llvm::DenseMap<GraphNode, GraphNode> from_;
  size_t steps_ = 0, work_ = 0;
};

}  // namespace analyze
