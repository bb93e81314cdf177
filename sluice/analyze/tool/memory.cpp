#include "memory.h"

#include <algorithm>
#include <numeric>

#include "llvm/IR/DerivedTypes.h"

namespace analyze {

Memory::Memory(bool field_sensitive, std::function<NodeId()> make_node)
    : field_sensitive_(field_sensitive), make_node_(std::move(make_node)) {}

ObjectId Memory::add(ObjectKind kind, const llvm::Value *site, llvm::Type *type, const llvm::DataLayout &layout) {
  const auto id = static_cast<ObjectId>(objects_.size());
  const bool sized = type && type->isSized();
  objects_.push_back({kind, site, sized ? layout.getTypeAllocSize(type).getFixedValue() : 0});
  objects_[id].collapsed = !field_sensitive_;
  if (sized) add_regions_of(id, type, 0, layout);
  return id;
}

ObjectId Memory::add_moved() {
  objects_.push_back({ObjectKind::Moved, nullptr, 0, !field_sensitive_});
  return static_cast<ObjectId>(objects_.size() - 1);
}

void Memory::add_regions_of(ObjectId id, llvm::Type *type, uint64_t start, const llvm::DataLayout &layout) {
  if (auto *array = llvm::dyn_cast<llvm::ArrayType>(type)) {
    const uint64_t element = layout.getTypeAllocSize(array->getElementType()).getFixedValue();
    if (element == 0 || array->getNumElements() == 0) return;
    add_regions_of(id, array->getElementType(), start, layout);
    if (array->getNumElements() > 1) add_region(id, {start, element, array->getNumElements()});
  } else if (auto *record = llvm::dyn_cast<llvm::StructType>(type)) {
    const llvm::StructLayout *fields = layout.getStructLayout(record);
    for (unsigned i = 0; i < record->getNumElements(); ++i)
      add_regions_of(id, record->getElementType(i), start + fields->getElementOffset(i).getFixedValue(), layout);
  }
}

uint64_t Memory::fold(const MemoryObject &object, uint64_t offset) const {
  if (object.collapsed) return 0;
  for (const Region &region : object.regions)
    if (region.contains(offset)) offset = region.start + (offset - region.start) % region.element;
  return offset;
}

const Region *Memory::innermost(const MemoryObject &object, uint64_t offset) const {
  const Region *found = nullptr;
  for (const Region &region : object.regions)
    if (region.contains(offset)) found = &region;
  return found;
}

std::optional<NodeId> Memory::cell(ObjectId id, int64_t offset) {
  MemoryObject &object = objects_[id];
  if (offset < 0) return std::nullopt;
  if (object.size != 0 && static_cast<uint64_t>(offset) > object.size) return std::nullopt;
  if (offset > kMostOffset && !object.collapsed) collapse(id);
  const uint64_t folded = fold(object, static_cast<uint64_t>(offset));
  const auto found = object.cells.find(folded);
  if (found != object.cells.end()) return found->second;
  if (object.cells.size() >= kMostCells) {
    collapse(id);
    return object.cells.begin()->second;
  }
  const NodeId node = make_node_();
  object.cells[folded] = node;
  if (node >= places_.size()) places_.resize(node + 1);
  places_[node] = {id, static_cast<uint32_t>(folded)};
  new_cells_.push_back(node);
  return node;
}

void Memory::collapse(ObjectId id) {
  objects_[id].collapsed = true;
  objects_[id].regions.clear();
  refold(id);
}

// Adds a region, and unites it with those that it overlaps without lying in one element of them or they of it.
void Memory::add_region(ObjectId id, Region region) {
  MemoryObject &object = objects_[id];
  if (object.collapsed || region.element == 0) return;
  for (const Region &other : object.regions) {
    const bool aligned = region.element % other.element == 0 && (region.start - other.start) % other.element == 0;
    if (other.start <= region.start && region.end() <= other.end() && aligned) return;  // folds the same cells already
  }
  for (size_t i = 0; i < object.regions.size();) {
    Region &other = object.regions[i];
    const bool overlap = region.start < other.end() && other.start < region.end();
    if (!overlap) {
      ++i;
      continue;
    }
    const bool inside = other.start <= region.start && region.end() <= other.start + other.element;
    const uint64_t shift = other.start >= region.start ? (other.start - region.start) % region.element : 0;
    const bool around = region.start <= other.start && other.count != Region::kUnbounded &&
                        shift + other.element * other.count <= region.element;
    if (inside) {
      ++i;
      continue;
    }
    if (around) {
      other.start = region.start + shift;
      ++i;
      continue;
    }
    const uint64_t start = std::min(region.start, other.start);
    const uint64_t distance = std::max(region.start, other.start) - start;
    const uint64_t element = std::gcd(std::gcd(region.element, other.element), distance);
    const uint64_t end = std::max(region.end(), other.end());
    region = {start, element, end == UINT64_MAX ? Region::kUnbounded : (end - start + element - 1) / element};
    object.regions.erase(object.regions.begin() + static_cast<std::ptrdiff_t>(i));
    i = 0;  // the larger region may overlap those that were compared already
  }
  object.regions.push_back(region);
  std::stable_sort(object.regions.begin(), object.regions.end(),
                   [](const Region &a, const Region &b) { return a.end() - a.start > b.end() - b.start; });
  refold(id);
}

void Memory::refold(ObjectId id) {
  MemoryObject &object = objects_[id];
  ++object.changes;
  std::map<uint64_t, NodeId> folded;
  for (const auto &[offset, node] : object.cells) {
    const uint64_t place = fold(object, offset);
    const auto [at, fresh] = folded.emplace(place, node);
    places_[node].offset = static_cast<uint32_t>(place);
    if (!fresh) merges_.emplace_back(at->second, node);
  }
  object.cells = std::move(folded);
  if (!object.cells.empty()) refolded_.push_back(id);
}

static void put(std::optional<NodeId> cell, std::vector<NodeId> &out) {
  if (cell) out.push_back(*cell);
}

void Memory::shift(NodeId from, int64_t bytes, std::vector<NodeId> &out) {
  const Place place = places_[from];
  const MemoryObject &object = objects_[place.object];
  if (object.collapsed || bytes == 0) {
    out.push_back(from);
    return;
  }
  const auto target = static_cast<int64_t>(place.offset) + bytes;
  const Region *region = innermost(object, place.offset);
  const bool stays = !region || (target >= static_cast<int64_t>(region->start) &&
                                 target < static_cast<int64_t>(region->start + region->element));
  if (stays)
    put(cell(place.object, target), out);
  else
    leave_element(place.object, *region, place.offset, bytes, out);
}

// A pointer into an array's element represents the same place in every element. Adding a constant that leaves the
// element gives a place in a neighbour (one cell), or, from the first and last elements, one outside the array.
void Memory::leave_element(ObjectId id, Region region, uint64_t offset, int64_t bytes, std::vector<NodeId> &out) {
  const auto element = static_cast<int64_t>(region.element);
  const auto start = static_cast<int64_t>(region.start);
  const int64_t first = static_cast<int64_t>(offset) + bytes;
  const auto last = region.count == Region::kUnbounded ? INT64_MAX : static_cast<int64_t>(region.count) - 1;
  if (std::abs(bytes) / element > kMostUnfolded) {
    collapse(id);
    put(cell(id, 0), out);
    return;
  }
  int64_t k = 0;
  for (; k <= last && first + k * element < start; ++k) put(cell(id, first + k * element), out);
  const auto end = region.count == Region::kUnbounded ? INT64_MAX : static_cast<int64_t>(region.end());
  if (k <= last && first + k * element < end) put(cell(id, first + k * element), out);
  if (last == INT64_MAX) return;
  for (int64_t j = last; j >= k && first + j * element >= end; --j) put(cell(id, first + j * element), out);
}

// Whether steps of so many bytes may be steps in an array that is known, of which each element has the same place. One that is
// shorter than a step is a part of what the pointer steps over.
bool Memory::steps_within_array(const MemoryObject &object, uint64_t offset, uint64_t stride) const {
  return std::any_of(object.regions.begin(), object.regions.end(), [&](const Region &region) {
    return region.contains(offset) && stride % region.element == 0 && stride <= region.end() - region.start;
  });
}

void Memory::step(NodeId from, uint64_t stride, int64_t steps, std::vector<NodeId> &out) {
  const Place place = places_[from];
  // C requires that the result lies in the same array; bytes of a whole object are an array as well (C11, 6.3.2.3).
  if (stride > 1 && steps_within_array(objects_[place.object], place.offset, stride))
    out.push_back(from);
  else
    shift(from, static_cast<int64_t>(stride) * steps, out);
}

void Memory::walk(NodeId from, uint64_t stride, std::vector<NodeId> &out) {
  const Place place = places_[from];
  const MemoryObject &object = objects_[place.object];
  const bool same = object.collapsed || stride == 0 || steps_within_array(object, place.offset, stride);
  if (!same) add_region(place.object, {place.offset % stride, stride, Region::kUnbounded});
  put(cell(place.object, static_cast<int64_t>(place.offset)), out);
}

void Memory::index(NodeId from, uint64_t stride, uint64_t count, std::vector<NodeId> &out) {
  const Place place = places_[from];
  if (count != 1 && stride != 0) add_region(place.object, {place.offset, stride, count});
  put(cell(place.object, static_cast<int64_t>(place.offset)), out);
}

void Memory::anywhere(NodeId from, std::vector<NodeId> &out) {
  const Place place = places_[from];
  if (!objects_[place.object].collapsed) collapse(place.object);
  put(cell(place.object, 0), out);
}

}  // namespace analyze
