// Abstract memory: one object for each global, function, local variable and allocation site, divided into cells by
// byte offset. The elements of an array are one element ("region"); regions are found from types and from pointer
// arithmetic with an index that is not constant.
//
// Invariant: a cell's offset is folded by all regions of its object. When a region is added, cells that fold to the
// same offset are merged: the caller fetches the pairs from `take_merges` and unites their points-to sets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Value.h"
#include "sets.h"

namespace analyze {

using ObjectId = uint32_t;

enum class ObjectKind {
  Global,
  Function,
  Stack,     // a local variable that was not promoted to a register
  Heap,      // one object for each allocation site
  Varargs,   // the variable arguments of a function
  Library,   // memory that an external function owns and returns pointers to
  Moved,     // what a copy of memory takes from its sources to its destinations; no pointer leads to it
};

struct Region {
  uint64_t start;
  uint64_t element;  // size of one element
  uint64_t count;    // kUnbounded: to the end of the object

  static constexpr uint64_t kUnbounded = 0;
  uint64_t end() const { return count == kUnbounded ? UINT64_MAX : start + element * count; }
  bool contains(uint64_t offset) const { return offset >= start && offset < end(); }
};

struct MemoryObject {
  ObjectKind kind;
  const llvm::Value *site;  // the global, function, alloca or call
  uint64_t size;            // 0: not known
  bool collapsed = false;   // all offsets are one cell
  bool constant = false;    // in memory that cannot be written: no defined program does
  std::vector<Region> regions = {};  // outer before inner; an inner one lies in the first element of its outer one
  std::map<uint64_t, NodeId> cells = {};
  unsigned changes = 0;     // of its division into cells
};

class Memory {
 public:
  // make_node: makes a node of the constraint graph for a new cell.
  Memory(bool field_sensitive, std::function<NodeId()> make_node);

  ObjectId add(ObjectKind kind, const llvm::Value *site, llvm::Type *type, const llvm::DataLayout &layout);
  ObjectId add_moved();

  // The cell at an offset; made if there is none. Offsets that lie outside an object of known size give nothing: no
  // defined program uses such a pointer.
  std::optional<NodeId> cell(ObjectId object, int64_t offset);
  // Cells of an object that exist, by offset.
  const std::map<uint64_t, NodeId> &cells(ObjectId object) const { return objects_[object].cells; }

  // Where a pointer to `cell` may point after adding a constant number of bytes.
  void shift(NodeId cell, int64_t bytes, std::vector<NodeId> &out);
  // ... a constant number of steps of `stride` bytes, as in `p + 1`.
  void step(NodeId cell, uint64_t stride, int64_t steps, std::vector<NodeId> &out);
  // ... any number of steps.
  void walk(NodeId cell, uint64_t stride, std::vector<NodeId> &out);
  // ... selecting an element of an array of `count` elements (0: not known) that begins at the cell.
  void index(NodeId cell, uint64_t stride, uint64_t count, std::vector<NodeId> &out);
  // ... any number of bytes: makes the object one cell.
  void anywhere(NodeId cell, std::vector<NodeId> &out);

  // The offset of the cell that represents an offset.
  uint64_t folded(ObjectId object, uint64_t offset) const { return fold(objects_[object], offset); }

  ObjectId object_of(NodeId cell) const { return places_[cell].object; }
  uint64_t offset_of(NodeId cell) const { return places_[cell].offset; }
  const MemoryObject &object(ObjectId id) const { return objects_[id]; }
  size_t objects() const { return objects_.size(); }

  // Pairs (kept, merged) of cells that were merged since the last call.
  std::vector<std::pair<NodeId, NodeId>> take_merges() { return std::exchange(merges_, {}); }
  // Cells that were made since the last call.
  std::vector<NodeId> take_new() { return std::exchange(new_cells_, {}); }
  // Objects of which cells got another offset since the last call.
  std::vector<ObjectId> take_refolded() { return std::exchange(refolded_, {}); }

  void collapse(ObjectId object);
  void set_constant(ObjectId object) { objects_[object].constant = true; }
  // Whether a store can change the content of a cell.
  bool is_writable(NodeId cell) const {
    const MemoryObject &object = objects_[object_of(cell)];
    return object.kind != ObjectKind::Function && !object.constant;
  }

 private:
  struct Place {
    ObjectId object = 0;
    uint32_t offset = 0;  // kMostOffset at most
  };

  uint64_t fold(const MemoryObject &object, uint64_t offset) const;
  bool steps_within_array(const MemoryObject &object, uint64_t offset, uint64_t stride) const;
  const Region *innermost(const MemoryObject &object, uint64_t offset) const;
  void add_regions_of(ObjectId id, llvm::Type *type, uint64_t start, const llvm::DataLayout &layout);
  void add_region(ObjectId id, Region region);
  void refold(ObjectId id);
  void leave_element(ObjectId id, Region region, uint64_t offset, int64_t bytes, std::vector<NodeId> &out);

  static constexpr size_t kMostCells = 512;      // per object; beyond, it becomes one cell
  static constexpr int64_t kMostUnfolded = 64;   // elements that a constant offset out of an array is tried from
  static constexpr int64_t kMostOffset = 1 << 24;

  bool field_sensitive_;
  std::function<NodeId()> make_node_;
  std::vector<MemoryObject> objects_;
  std::vector<Place> places_;  // by node, of those that are cells
  std::vector<std::pair<NodeId, NodeId>> merges_;
  std::vector<NodeId> new_cells_;
  std::vector<ObjectId> refolded_;
};

}  // namespace analyze
