#include "constraints.h"

#include <algorithm>

#include "components.h"

namespace analyze {

static constexpr unsigned kRounds = 4, kMostRounds = 32;

Constraints::Constraints(bool field_sensitive)
    : memory_(field_sensitive, [this] { return node(); }), unknown_(node()) {}

NodeId Constraints::node() {
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.emplace_back();
  parents_.push_back(id);
  changed_ = true;
  return id;
}

NodeId Constraints::find(NodeId node) const {
  while (parents_[node] != node) {
    parents_[node] = parents_[parents_[node]];
    node = parents_[node];
  }
  return node;
}

Constraints::Rules &Constraints::rules_of(NodeId node) {
  Node &found = nodes_[find(node)];
  if (!found.rules) found.rules = std::make_unique<Rules>();
  found.applied = SetPool::kEmpty;  // the new rule has to process all targets
  changed_ = true;
  return *found.rules;
}

void Constraints::address(NodeId to, NodeId cell) {
  Node &node = nodes_[find(to)];
  node.targets = sets_.unite(node.targets, sets_.of({cell}));
  changed_ = true;
}

void Constraints::copy(NodeId to, NodeId from) {
  to = find(to);
  from = find(from);
  if (to == from || !edges_.insert({from, to}).second) return;
  nodes_[from].successors.push_back(to);
  nodes_[to].targets = sets_.unite(nodes_[to].targets, nodes_[from].targets);
  changed_ = true;
}

void Constraints::load(NodeId to, NodeId pointer) { rules_of(pointer).loads.push_back(to); }
void Constraints::store(NodeId pointer, NodeId from) { rules_of(pointer).stores.push_back(from); }

void Constraints::derive(NodeId to, NodeId base, std::vector<PointerOp> operations) {
  if (operations.empty()) {
    copy(to, base);
    return;
  }
  const auto [known, is_new] =
      operation_numbers_.try_emplace(std::move(operations), static_cast<uint32_t>(operations_.size()));
  if (is_new) operations_.push_back(&known->first);
  rules_of(base).derivations.push_back({to, known->second});
}

void Constraints::move(NodeId to, NodeId from, uint64_t bytes) {
  const Move move{memory_.add_moved(), bytes};
  rules_of(from).moves_from.push_back(move);
  rules_of(to).moves_to.push_back(move);
}

void Constraints::escape(NodeId pointer) { copy(unknown_, pointer); }

void Constraints::call(NodeId pointer, std::function<void(const llvm::Value *)> on_target) {
  each_target(pointer, [this, on_target = std::move(on_target)](NodeId cell) {
    const MemoryObject &object = memory_.object(memory_.object_of(cell));
    if (object.kind == ObjectKind::Function) on_target(object.site);
  });
}

void Constraints::each_target(NodeId pointer, std::function<void(NodeId)> on_target) {
  rules_of(pointer).visits.push_back(std::move(on_target));
}

template <typename T>
static void append(std::vector<T> &to, std::vector<T> &from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
  from.clear();
}

void Constraints::merge(NodeId into, NodeId from) {
  into = find(into);
  from = find(from);
  if (into == from) return;
  Node &a = nodes_[into];
  Node &b = nodes_[from];
  const auto is_used = [this](NodeId node) {
    return nodes_[node].rules || !nodes_[node].cells.empty() || node == find(unknown_);
  };
  // what holds for the successors and uses of both, of which one may have none
  if (a.successors.empty())
    a.propagated = b.propagated;
  else if (!b.successors.empty())
    a.propagated = sets_.common(a.propagated, b.propagated);
  if (!is_used(into))
    a.applied = b.applied;
  else if (is_used(from))
    a.applied = sets_.common(a.applied, b.applied);
  parents_[from] = into;
  a.targets = sets_.unite(a.targets, b.targets);
  append(a.successors, b.successors);
  append(a.cells, b.cells);
  if (b.rules) {
    if (!a.rules) a.rules = std::make_unique<Rules>();
    append(a.rules->loads, b.rules->loads);
    append(a.rules->stores, b.rules->stores);
    append(a.rules->derivations, b.rules->derivations);
    append(a.rules->moves_from, b.rules->moves_from);
    append(a.rules->moves_to, b.rules->moves_to);
    append(a.rules->visits, b.rules->visits);
    b.rules.reset();
  }
  changed_ = true;
}

// Applies the changes of Memory since then: new cells, and cells that were merged.
void Constraints::settle_memory() {
  for (NodeId cell : memory_.take_new()) {
    nodes_[find(cell)].cells.push_back(cell);
    if (escaped_objects_.count(memory_.object_of(cell))) apply_escape(cell);
  }
  for (const auto &[kept, merged] : memory_.take_merges()) merge(kept, merged);
  const std::vector<ObjectId> refolded = memory_.take_refolded();
  for (ObjectId object : refolded) {  // moves from it begin where its cells are now
    refolded_.insert(object);
    const auto links = links_.find(object);
    if (links == links_.end()) continue;
    for (Link link : std::vector<Link>(links->second)) {
      link.from_offset = memory_.folded(object, link.from_offset);
      add_link(object, link);
    }
  }
  if (!refolded.empty()) settle_memory();  // links make cells, too
}

// Merges the nodes of each cycle; leaves the representatives in topological order.
void Constraints::collapse_cycles() {
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    std::vector<NodeId> &successors = nodes_[node].successors;
    bool merged = false;
    for (NodeId &successor : successors)
      if (const NodeId now = find(successor); now != successor) successor = now, merged = true;
    if (merged) {  // several edges may have become one
      std::sort(successors.begin(), successors.end());
      successors.erase(std::unique(successors.begin(), successors.end()), successors.end());
    }
  }
  std::vector<std::vector<NodeId>> cycles;
  order_.clear();
  each_component(nodes_.size(), [this](NodeId node) -> const auto & { return nodes_[node].successors; },
                 [&](const std::vector<NodeId> &members) {
                   if (find(members.back()) == members.back()) order_.push_back(members.back());
                   if (members.size() > 1) cycles.push_back(members);
                 });
  for (const std::vector<NodeId> &members : cycles) {
    for (const NodeId member : members) merge(members.back(), member);  // the last one is in order_
    ++collapsed_;
  }
  std::reverse(order_.begin(), order_.end());
}

bool Constraints::propagate() {
  bool any = false;
  for (NodeId at : order_) {
    if (find(at) != at) continue;  // merged since the order was found
    Node &node = nodes_[at];
    const SetId fresh = sets_.minus(node.targets, node.propagated);
    if (fresh == SetPool::kEmpty) continue;
    node.propagated = node.targets;
    for (NodeId successor : node.successors) {
      const NodeId to = find(successor);
      if (to != at) nodes_[to].targets = sets_.unite(nodes_[to].targets, fresh);
    }
    any = true;
  }
  return any;
}

bool Constraints::apply_rules() {
  bool any = false;
  for (NodeId at = 0; at < nodes_.size(); ++at) {  // rules may add nodes
    if (find(at) != at) continue;
    const SetId fresh = sets_.minus(nodes_[at].targets, nodes_[at].applied);
    if (fresh == SetPool::kEmpty) continue;
    const bool first = nodes_[at].applied == SetPool::kEmpty;
    nodes_[at].applied = nodes_[at].targets;
    if (first)  // contents that may be pointers now follow the moves of their object
      for (NodeId cell : std::vector<NodeId>(nodes_[at].cells)) {
        const ObjectId object = memory_.object_of(cell);
        const auto links = links_.find(object);
        if (links == links_.end()) continue;
        for (const Link &link : std::vector<Link>(links->second)) apply_link(object, link, cell);
      }
    if (nodes_[at].rules || at == find(unknown_)) apply(at, fresh);
    settle_memory();
    any = true;
  }
  return any;
}

void Constraints::solve() {
  settle_memory();
  do {
    while (changed_) run_wave();
  } while (derive_again());
}

void Constraints::run_wave() {
  changed_ = false;
  ++waves_;
  collapse_cycles();
  // Finding cycles visits the whole graph: it waits for some rounds, or for more edges.
  const size_t edges = edges_.size();
  bool any = false, more = true;
  for (unsigned round = 0; more && round < kMostRounds; ++round) {
    if (round >= kRounds && edges_.size() > edges + edges / 16) break;
    const auto known = static_cast<NodeId>(nodes_.size());
    more = propagate();
    more = apply_rules() || more;
    for (NodeId added = known; added < nodes_.size(); ++added) order_.push_back(added);
    any = any || more;
  }
  changed_ = changed_ || any;
}

}  // namespace analyze
