#include "slice.h"

#include <algorithm>

namespace analyze {

Slicer::Slicer(Edges &graph, std::function<bool(const Node &)> stop, size_t most_steps)
    : graph_(graph), stop_(std::move(stop)), most_steps_(most_steps) {}

void Slicer::restart(size_t most_steps) {
  if (!pending_summaries_.empty()) summaries_.clear();  // some of them are not complete
  pending_summaries_.clear();
  pending_.clear();
  ascending_.clear();
  descending_.clear();
  nodes_.clear();
  from_.clear();
  steps_ = work_ = 0;
  most_steps_ = most_steps;
}

Slicer::Summary &Slicer::of(GraphNode exit) {
  std::unique_ptr<Summary> &found = summaries_[exit];
  if (!found) found = std::make_unique<Summary>();
  return *found;
}

void Slicer::reach(GraphNode exit, Summary &summary, GraphNode node) {
  if (only_ && !only_->contains(node)) return;
  if (summary.seen.insert(node).second) pending_summaries_.emplace_back(exit, node);
}

// The summary of a node that leaves a function, complete.
Slicer::Summary &Slicer::summary(GraphNode exit) {
  if (const auto found = summaries_.find(exit); found != summaries_.end()) return *found->second;
  reach(exit, exit);
  while (!pending_summaries_.empty() && steps_ < most_steps_) {
    const auto [context, node] = pending_summaries_.back();
    pending_summaries_.pop_back();
    ++steps_;
    if (stop_ && stop_(graph_.node(node))) continue;
    Summary &own = of(context);
    const llvm::ArrayRef<Dependence> dependences = graph_.dependences(node);
    work_ += dependences.size();
    for (const Dependence &dependence : dependences) {
      switch (dependence.kind) {
        case Dependence::Local: reach(context, own, dependence.on); break;
        case Dependence::Up: {
          if (!own.ends[dependence.site].insert(dependence.on)) break;
          const auto waiters = own.waiters.find(dependence.site);
          if (waiters == own.waiters.end()) break;
          for (const GraphNode waiting : waiters->second) reach(waiting, dependence.on);
          break;
        }
        case Dependence::Down: {
          const bool unknown = !summaries_.contains(dependence.on);
          Summary &callee = of(dependence.on);
          callee.waiters[dependence.site].insert(context);
          if (unknown) reach(dependence.on, callee, dependence.on);
          const auto ends = callee.ends.find(dependence.site);
          if (ends == callee.ends.end()) break;
          for (const GraphNode on : ends->second) reach(context, own, on);
          break;
        }
        case Dependence::Jump: break;  // the second phase follows it
      }
    }
  }
  return of(exit);
}

void Slicer::add(GraphNode node, bool ascends, GraphNode from) {
  if (only_ && !only_->contains(node)) return;
  if (ascends ? !ascending_.insert(node).second : ascending_.contains(node) || !descending_.insert(node).second)
    return;
  if (nodes_.insert(node)) from_[node] = from;
  pending_.emplace_back(node, ascends);
}

void Slicer::expand(llvm::ArrayRef<Dependence> dependences, bool ascends, GraphNode from) {
  work_ += dependences.size();
  for (const Dependence &dependence : dependences) {
    switch (dependence.kind) {
      case Dependence::Local: add(dependence.on, ascends, from); break;
      case Dependence::Up:
        if (ascends) add(dependence.on, true, from);
        break;
      case Dependence::Down:
        add(dependence.on, false, from);
        if (const auto &ends = summary(dependence.on).ends; ends.contains(dependence.site))
          for (const GraphNode on : ends.find(dependence.site)->second) add(on, ascends, from);
        break;
      case Dependence::Jump: add(dependence.on, true, from); break;
    }
  }
}

bool Slicer::follow(const std::vector<GraphNode> &from) {
  for (const GraphNode node : from) add(node, true, node);
  while (!pending_.empty() && steps_ < most_steps_) {
    const auto [node, ascends] = pending_.back();
    pending_.pop_back();
    ++steps_;
    if (stop_ && stop_(graph_.node(node))) continue;
    expand(graph_.dependences(node), ascends, node);
  }
  return pending_.empty() && pending_summaries_.empty();
}

bool Slicer::follow_unmatched(const std::vector<GraphNode> &from) {
  for (const GraphNode node : from) add(node, true, node);
  while (!pending_.empty() && steps_ < most_steps_) {
    const GraphNode node = pending_.front().first;  // in order, so that paths are short
    pending_.pop_front();
    ++steps_;
    if (stop_ && stop_(graph_.node(node))) continue;
    for (const Dependence &dependence : graph_.dependences(node)) add(dependence.on, true, node);
  }
  return pending_.empty();
}

std::vector<GraphNode> Slicer::path(GraphNode to) const {
  std::vector<GraphNode> found{to};
  for (auto at = from_.find(to); at != from_.end() && at->second != found.back(); at = from_.find(at->second))
    found.push_back(at->second);
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace analyze
