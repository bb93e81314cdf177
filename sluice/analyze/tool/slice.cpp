#include "slice.h"

#include <algorithm>

namespace analyze {

Slicer::Slicer(Graph &graph, std::function<bool(const Node &)> stop, size_t most_steps)
    : graph_(graph), stop_(std::move(stop)), most_steps_(most_steps) {}

void Slicer::reach(GraphNode exit, GraphNode node) {
  if (summaries_[exit].seen.insert(node).second) pending_summaries_.emplace_back(exit, node);
}

// The summary of a node that leaves a function, complete.
Slicer::Summary &Slicer::summary(GraphNode exit) {
  const auto [found, fresh] = summaries_.try_emplace(exit);
  if (!fresh) return found->second;
  reach(exit, exit);
  while (!pending_summaries_.empty() && steps_ < most_steps_) {
    const auto [context, node] = pending_summaries_.back();
    pending_summaries_.pop_back();
    ++steps_;
    if (stop_ && stop_(graph_.node(node))) continue;
    for (const Dependence &dependence : std::vector<Dependence>(graph_.dependences(node))) {
      switch (dependence.kind) {
        case Dependence::Local: reach(context, dependence.on); break;
        case Dependence::Up: {
          Summary &own = summaries_[context];
          const auto end = std::make_pair(dependence.site, dependence.on);
          if (std::find(own.ends.begin(), own.ends.end(), end) != own.ends.end()) break;
          own.ends.push_back(end);
          for (const Waiter &waiter : std::vector<Waiter>(own.waiters))
            if (waiter.site == dependence.site) reach(waiter.context, dependence.on);
          break;
        }
        case Dependence::Down: {
          const bool unknown = summaries_.find(dependence.on) == summaries_.end();
          Summary &callee = summaries_[dependence.on];
          const Waiter waiter{context, node, dependence.site};
          if (std::find(callee.waiters.begin(), callee.waiters.end(), waiter) == callee.waiters.end())
            callee.waiters.push_back(waiter);
          if (unknown) reach(dependence.on, dependence.on);
          for (const auto &[site, on] : std::vector(summaries_[dependence.on].ends))
            if (site == dependence.site) reach(context, on);
          break;
        }
        case Dependence::Jump: break;  // the second phase follows it
      }
    }
  }
  return summaries_[exit];
}

void Slicer::add(GraphNode node, bool ascends, GraphNode from) {
  if (ascends ? !ascending_.insert(node).second : ascending_.contains(node) || !descending_.insert(node).second)
    return;
  if (nodes_.insert(node)) from_[node] = from;
  pending_.emplace_back(node, ascends);
}

bool Slicer::backward(const std::vector<GraphNode> &from) {
  for (const GraphNode node : from) add(node, true, node);
  while (!pending_.empty() && steps_ < most_steps_) {
    const auto [node, ascends] = pending_.back();
    pending_.pop_back();
    ++steps_;
    if (stop_ && stop_(graph_.node(node))) continue;
    for (const Dependence &dependence : std::vector<Dependence>(graph_.dependences(node))) {
      switch (dependence.kind) {
        case Dependence::Local: add(dependence.on, ascends, node); break;
        case Dependence::Up:
          if (ascends) add(dependence.on, true, node);
          break;
        case Dependence::Down:
          add(dependence.on, false, node);
          for (const auto &[site, on] : std::vector(summary(dependence.on).ends))
            if (site == dependence.site) add(on, ascends, node);
          break;
        case Dependence::Jump: add(dependence.on, true, node); break;
      }
    }
  }
  return pending_.empty() && pending_summaries_.empty();
}

std::vector<GraphNode> Slicer::path(GraphNode to) const {
  std::vector<GraphNode> found{to};
  for (auto at = from_.find(to); at != from_.end() && at->second != found.back(); at = from_.find(at->second))
    found.push_back(at->second);
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace analyze
