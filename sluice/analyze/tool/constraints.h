// The constraint graph of the points-to analysis: its elements, and its solution.
//
// Inclusion-based (Andersen), by wave propagation (Pereira and Berlin, 2009): cycles of the copy edges are collapsed,
// new targets propagate in topological order, then loads, stores and calls add edges for the new targets; until nothing
// changes. A node is the value of a register or the contents of a cell.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "llvm/ADT/DenseSet.h"
#include "memory.h"
#include "sets.h"

namespace analyze {

// The effect of pointer arithmetic on a pointer; see Memory.
struct PointerOp {
  enum Kind { Shift, Step, Walk, Index, Anywhere } kind;
  uint64_t stride = 0;
  int64_t amount = 0;  // Shift: bytes; Step: steps; Index: number of elements

  bool operator<(const PointerOp &other) const {
    return std::tie(kind, stride, amount) < std::tie(other.kind, other.stride, other.amount);
  }
};

class Constraints {
 public:
  explicit Constraints(bool field_sensitive);

  NodeId node();
  Memory &memory() { return memory_; }
  const Memory &memory() const { return memory_; }
  SetPool &sets() { return sets_; }

  void address(NodeId to, NodeId cell);                                  // to = &cell
  void copy(NodeId to, NodeId from);                                     // to = from
  void load(NodeId to, NodeId pointer);                                  // to = *pointer
  void store(NodeId pointer, NodeId from);                               // *pointer = from
  void derive(NodeId to, NodeId base, std::vector<PointerOp> operations);  // to = base + ...
  // memmove(to, from, bytes); kAllBytes if the number is not known
  void move(NodeId to, NodeId from, uint64_t bytes);
  // Code that is not known has this pointer: everything reachable from it may be read, changed and called.
  void escape(NodeId pointer);
  // `on_target` is called once for each function that the pointer may point to.
  void call(NodeId pointer, std::function<void(const llvm::Value *)> on_target);

  // `on_target` is called once for each cell that the pointer may point to.
  void each_target(NodeId pointer, std::function<void(NodeId)> on_target);

  // The values that unknown code returns and stores: a pointer to anything that escaped.
  NodeId unknown() const { return unknown_; }
  // Called once for each function that escaped.
  void on_escaped_function(std::function<void(const llvm::Value *)> action) { escaped_function_ = std::move(action); }

  void solve();

  // After solve(): the cells that a node may point to.
  llvm::ArrayRef<NodeId> targets(NodeId node) const { return elements(set(node)); }
  // Nodes with the same set may point to the same cells.
  SetId set(NodeId node) const { return nodes_[find(node)].targets; }
  llvm::ArrayRef<NodeId> elements(SetId set) const { return sets_.elements(set); }
  bool escaped(ObjectId object) const { return escaped_objects_.count(object) != 0; }

  size_t nodes() const { return nodes_.size(); }
  size_t waves() const { return waves_; }
  size_t distinct_sets() const { return sets_.distinct(); }
  size_t collapsed_cycles() const { return collapsed_; }

  static constexpr uint64_t kAllBytes = UINT64_MAX;

 private:
  struct Derivation {
    NodeId to;
    uint32_t operations;  // their number
  };
  // Half of a copy of memory: between the targets of a pointer and the first byte of an object that is between the sources
  // and the destinations, so that not each pair of them needs a link.
  struct Move {
    ObjectId moved;
    uint64_t bytes;
  };
  struct Link {  // a move between two objects
    ObjectId to;
    uint64_t to_offset, from_offset, bytes;
  };
  struct Rules {  // the uses of a pointer
    std::vector<NodeId> loads;
    std::vector<NodeId> stores;
    std::vector<Derivation> derivations;
    std::vector<Move> moves_from, moves_to;
    std::vector<std::function<void(NodeId)>> visits;
  };
  struct Node {
    SetId targets = SetPool::kEmpty;
    SetId propagated = SetPool::kEmpty;  // of targets, those that all successors have
    SetId applied = SetPool::kEmpty;     // of targets, those that the rules were applied to
    std::vector<NodeId> successors = {};
    std::vector<NodeId> cells = {};      // whose contents this node is
    std::unique_ptr<Rules> rules = nullptr;
  };

  NodeId find(NodeId node) const;
  Rules &rules_of(NodeId node);
  void merge(NodeId into, NodeId from);
  void settle_memory();
  void run_wave();
  void collapse_cycles();
  bool propagate();
  bool apply_rules();
  void apply(NodeId node, SetId fresh);
  void add_link(ObjectId from, const Link &link);
  void apply_link(ObjectId from, const Link &link, NodeId cell);
  std::vector<NodeId> pointers_in(ObjectId object) const;
  void apply_escape(NodeId cell);
  // Nodes between many pointers with the same targets and these: what is loaded from them, and stored to them.
  NodeId loaded_from(SetId set, const std::vector<NodeId> &targets);
  NodeId stored_to(SetId set, const std::vector<NodeId> &targets);
  void apply_derivations(NodeId at, SetId set);
  SetId derived(SetId set, uint32_t operations);
  bool derive_again();

  SetPool sets_;
  std::deque<Node> nodes_;
  mutable std::vector<NodeId> parents_;
  Memory memory_;
  llvm::DenseSet<std::pair<NodeId, NodeId>> edges_;
  llvm::DenseMap<SetId, NodeId> loaded_, stored_;
  std::map<std::vector<PointerOp>, uint32_t> operation_numbers_;
  std::vector<const std::vector<PointerOp> *> operations_;
  llvm::DenseMap<std::pair<SetId, uint32_t>, SetId> derived_;  // of a set, by the number of the operations
  llvm::DenseSet<ObjectId> refolded_;                         // since derive_again()
  std::vector<NodeId> order_;  // representatives in topological order
  llvm::DenseMap<ObjectId, std::vector<Link>> links_;
  // of each pair of places, the most bytes that a link has: objects from and to, and their offsets
  llvm::DenseMap<std::tuple<ObjectId, ObjectId, uint64_t, uint64_t>, uint64_t> most_linked_;
  llvm::DenseSet<ObjectId> escaped_objects_;
  std::function<void(const llvm::Value *)> escaped_function_;
  NodeId unknown_;
  bool changed_ = false;
  size_t waves_ = 0;
  size_t collapsed_ = 0;
};

}  // namespace analyze
