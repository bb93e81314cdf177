// Additions of loads, stores, pointer arithmetic, moves of memory, calls and escapes to the constraint graph for new
// targets of a pointer.
#include <algorithm>

#include "constraints.h"

namespace analyze {

static constexpr size_t kMostDirect = 8;  // edges for each load or store; beyond, those with the same targets share them

void Constraints::apply(NodeId at, SetId fresh) {
  const std::vector<NodeId> targets = sets_.list(fresh);
  if (at == find(unknown_))
    for (NodeId cell : targets) {
      const ObjectId object = memory_.object_of(cell);
      if (!escaped_objects_.insert(object).second) continue;
      for (const auto &[offset, member] : memory_.cells(object)) apply_escape(member);
      const MemoryObject &whole = memory_.object(object);
      if (whole.kind == ObjectKind::Function && escaped_function_) escaped_function_(whole.site);
    }
  if (!nodes_[at].rules) return;
  // By index, and copied: a call that is resolved may add rules to this node.
  for (size_t i = 0; i < nodes_[at].rules->loads.size(); ++i) {
    const NodeId to = nodes_[at].rules->loads[i];
    if (targets.size() > kMostDirect)
      copy(to, loaded_from(fresh, targets));
    else
      for (NodeId cell : targets) copy(to, cell);
  }
  for (size_t i = 0; i < nodes_[at].rules->stores.size(); ++i) {
    const NodeId from = nodes_[at].rules->stores[i];
    if (targets.size() > kMostDirect)
      copy(stored_to(fresh, targets), from);
    else
      for (NodeId cell : targets)
        if (memory_.is_writable(cell)) copy(cell, from);
  }
  apply_derivations(at, fresh);
  for (size_t i = 0; i < nodes_[at].rules->moves_from.size(); ++i) {
    const Move move = nodes_[at].rules->moves_from[i];
    for (NodeId cell : targets)
      add_link(memory_.object_of(cell), {move.moved, 0, memory_.offset_of(cell), move.bytes});
  }
  for (size_t i = 0; i < nodes_[at].rules->moves_to.size(); ++i) {
    const Move move = nodes_[at].rules->moves_to[i];
    for (NodeId cell : targets)
      if (memory_.is_writable(cell))
        add_link(move.moved, {memory_.object_of(cell), memory_.offset_of(cell), 0, move.bytes});
  }
  for (size_t i = 0; i < nodes_[at].rules->visits.size(); ++i) {
    const auto on_target = nodes_[at].rules->visits[i];
    for (NodeId cell : targets) on_target(cell);
  }
}

void Constraints::apply_derivations(NodeId at, SetId set) {
  for (size_t i = 0; i < nodes_[at].rules->derivations.size(); ++i) {
    const Derivation derivation = nodes_[at].rules->derivations[i];
    const SetId results = derived(set, derivation.operations);
    Node &to = nodes_[find(derivation.to)];
    const SetId united = sets_.unite(to.targets, results);
    if (united != to.targets) changed_ = true;
    to.targets = united;
  }
}

// A cell stands for more places once a region of its object is found: pointers that were derived from it before may have
// more targets. Returns whether any has.
bool Constraints::derive_again() {
  const llvm::DenseSet<ObjectId> refolded = std::exchange(refolded_, {});
  if (refolded.empty()) return false;
  derived_.clear();
  for (const ObjectId object : refolded) {  // what is copied from an array makes its destination one
    const auto links = links_.find(object);
    if (links == links_.end()) continue;
    const std::vector<NodeId> pointers = pointers_in(object);
    for (const Link &link : std::vector<Link>(links->second))
      for (const NodeId cell : pointers) apply_link(object, link, cell);
  }
  settle_memory();
  llvm::DenseMap<SetId, bool> concerned;
  for (NodeId at = 0; at < nodes_.size(); ++at) {
    if (find(at) != at || !nodes_[at].rules || nodes_[at].rules->derivations.empty()) continue;
    const SetId set = nodes_[at].targets;
    const auto [known, is_new] = concerned.try_emplace(set, false);
    if (is_new)
      known->second = llvm::any_of(sets_.list(set), [&](NodeId cell) { return refolded.contains(memory_.object_of(cell)); });
    if (!known->second) continue;
    apply_derivations(at, set);
    settle_memory();
  }
  return changed_ || !refolded_.empty();
}

// The results of one operation on a cell.
static void operate(Memory &memory, NodeId from, const PointerOp &operation, std::vector<NodeId> &results) {
  if (memory.object(memory.object_of(from)).kind == ObjectKind::Function) return;
  switch (operation.kind) {
    case PointerOp::Shift: memory.shift(from, operation.amount, results); break;
    case PointerOp::Step: memory.step(from, operation.stride, operation.amount, results); break;
    case PointerOp::Walk: memory.walk(from, operation.stride, results); break;
    case PointerOp::Index:
      memory.index(from, operation.stride, static_cast<uint64_t>(operation.amount), results);
      break;
    case PointerOp::Anywhere: memory.anywhere(from, results); break;
  }
}

NodeId Constraints::loaded_from(SetId set, const std::vector<NodeId> &targets) {
  const auto known = loaded_.find(set);
  if (known != loaded_.end()) return known->second;
  const NodeId contents = loaded_[set] = node();
  for (NodeId cell : targets) copy(contents, cell);
  return contents;
}

NodeId Constraints::stored_to(SetId set, const std::vector<NodeId> &targets) {
  const auto known = stored_.find(set);
  if (known != stored_.end()) return known->second;
  const NodeId contents = stored_[set] = node();
  for (NodeId cell : targets)
    if (memory_.is_writable(cell)) copy(cell, contents);
  return contents;
}

SetId Constraints::derived(SetId set, uint32_t operations) {
  const auto known = derived_.find({set, operations});
  if (known != derived_.end()) return known->second;
  std::vector<NodeId> results = sets_.list(set);
  for (const PointerOp &operation : *operations_[operations]) {
    std::vector<NodeId> next;
    for (NodeId from : results) operate(memory_, from, operation, next);
    results = std::move(next);
  }
  return derived_[{set, operations}] = sets_.of(results);
}

void Constraints::add_link(ObjectId from, const Link &link) {
  uint64_t &known = most_linked_[{from, link.to, link.from_offset, link.to_offset}];
  if (known >= link.bytes) return;
  known = link.bytes;
  links_[from].push_back(link);
  for (const NodeId cell : pointers_in(from)) apply_link(from, link, cell);
}

// The cells of an object that may contain pointers, as a list, because a link may make and merge cells.
std::vector<NodeId> Constraints::pointers_in(ObjectId object) const {
  std::vector<NodeId> pointers;
  for (const auto &[offset, cell] : memory_.cells(object))
    if (nodes_[find(cell)].targets != SetPool::kEmpty) pointers.push_back(cell);
  return pointers;
}

// Copies one cell of a moved object. If the cell represents many elements of an array (or for the whole of a collapsed
// object), its contents may lie at any of them, so that the destination becomes an array of the same elements.
void Constraints::apply_link(ObjectId from, const Link &link, NodeId cell) {
  const MemoryObject &object = memory_.object(from);
  const uint64_t at = memory_.offset_of(cell);
  uint64_t element = object.collapsed ? 1 : 0;
  uint64_t start = 0, end = UINT64_MAX;
  for (const Region &region : object.regions)
    if (region.contains(at)) {
      element = region.element;
      start = region.start;
      end = region.end();
    }
  const bool many = element != 0 && link.bytes > element;
  uint64_t distance = 0;
  if (at >= link.from_offset) {
    distance = at - link.from_offset;
  } else {
    if (!many || link.from_offset < start) return;
    distance = (element - (link.from_offset - at) % element) % element;
  }
  if (distance >= link.bytes) return;
  const auto target = memory_.cell(link.to, static_cast<int64_t>(link.to_offset + distance));
  if (!target) return;
  if (many) {
    std::vector<NodeId> same;
    const uint64_t bytes = std::min(link.bytes == kAllBytes ? UINT64_MAX : link.bytes - distance,
                                    end == UINT64_MAX ? UINT64_MAX : end - at);
    const uint64_t count = bytes == UINT64_MAX ? Region::kUnbounded : (bytes + element - 1) / element;
    if (count != 1) memory_.index(*target, element, count, same);
  }
  copy(*target, cell);
}

void Constraints::apply_escape(NodeId cell) {
  if (memory_.object(memory_.object_of(cell)).kind == ObjectKind::Function) return;
  copy(unknown_, cell);
  if (memory_.is_writable(cell)) copy(cell, unknown_);
}

}  // namespace analyze
