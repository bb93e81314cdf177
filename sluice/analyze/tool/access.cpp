#include "access.h"

#include <algorithm>

#include "components.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

static constexpr size_t kMostAtoms = 256;  // per object; beyond, it is one atom

Accesses::Accesses(const PointsTo &points_to, const Models &models) : points_to_(points_to), models_(models) {
  for (const Spawn &spawn : points_to.calls().spawns())
    if (spawn.role == CallRole::Registered && !llvm::is_contained(registered_, spawn.function))
      registered_.push_back(spawn.function);
  for (const llvm::Function *function : points_to.calls().entered()) {
    layout_ = &function->getDataLayout();
    for (const llvm::Instruction &instruction : llvm::instructions(*function)) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      if (site && llvm::any_of(points_to.calls().callees(site), [&](const llvm::Function *callee) {
            return models.dispatches(callee->getName());
          }))
        dispatch_sites_.push_back(site);
    }
  }
  find_recursive();
  find_started();
  find_own_frames();
  find_groups();
  for (const llvm::Function *function : points_to.calls().entered())
    for (const llvm::Instruction &instruction : llvm::instructions(*function)) collect(instruction);
  divide();
  summarise();
  find_shared();
}

// Functions that may run while an earlier call of them has not returned have several instances of their locals: those in
// a cycle of the call graph.
void Accesses::find_recursive() {
  const auto &entered = points_to_.calls().entered();
  llvm::DenseMap<const llvm::Function *, uint32_t> numbers;
  for (const llvm::Function *function : entered) numbers.try_emplace(function, numbers.size());
  std::vector<std::vector<uint32_t>> callees(entered.size());
  for (const llvm::Function *function : entered)
    for (const llvm::Instruction &instruction : llvm::instructions(*function))
      if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
        for (const llvm::Function *callee : runs(*site)) {
          const auto number = numbers.find(callee);
          if (number != numbers.end()) callees[numbers[function]].push_back(number->second);
          if (callee == function) recursive_.insert(function);
        }
  const auto cycles = components(callees.size(), [&](uint32_t at) -> const auto & { return callees[at]; });
  for (size_t number = 0; number < cycles.size(); ++number) {
    cycle_of_[entered[number]] = cycles[number];
    if (cycles[number] >= cycles_.size()) cycles_.resize(cycles[number] + 1);
    cycles_[cycles[number]].push_back(entered[number]);
  }
  for (const auto &members : cycles_)
    if (members.size() > 1) recursive_.insert(members.begin(), members.end());
}

bool Accesses::is_single(ObjectId id) const {
  const MemoryObject &object = points_to_.memory().object(id);
  if (object.collapsed) return object.kind == ObjectKind::Global;
  if (object.kind == ObjectKind::Global) return true;
  const auto *variable = llvm::dyn_cast_or_null<llvm::AllocaInst>(object.site);
  return object.kind == ObjectKind::Stack && variable && variable->isStaticAlloca() &&
         !has_instances(variable->getFunction(), id);
}

llvm::ArrayRef<const llvm::Function *> Accesses::runs(const llvm::CallBase &site) const {
  const CallGraph &calls = points_to_.calls();
  const auto callees = calls.callees(&site), callbacks = calls.callbacks(&site);
  const auto is_own = [&](const llvm::Function *callee) {
    return !callee->isDeclaration() && !models_.dispatches(callee->getName());
  };
  if (callbacks.empty() && llvm::all_of(callees, is_own)) return callees;
  const auto [found, is_new] = runs_.try_emplace(&site);
  if (!is_new) return found->second;
  for (const llvm::Function *callee : callees) {
    if (!callee->isDeclaration()) found->second.push_back(callee);
    if (models_.dispatches(callee->getName()))
      found->second.insert(found->second.end(), registered_.begin(), registered_.end());
  }
  found->second.insert(found->second.end(), callbacks.begin(), callbacks.end());
  return found->second;
}

llvm::ArrayRef<const llvm::CallBase *> Accesses::run_by(const llvm::Function &function) const {
  const auto callers = points_to_.calls().callers(&function);
  if (!llvm::is_contained(registered_, &function)) return callers;
  const auto [found, is_new] = run_by_.try_emplace(&function, callers.begin(), callers.end());
  if (is_new) found->second.insert(found->second.end(), dispatch_sites_.begin(), dispatch_sites_.end());
  return found->second;
}

bool Accesses::repeats(const llvm::CallBase &site) const {
  return !points_to_.calls().callbacks(&site).empty() || llvm::is_contained(dispatch_sites_, &site);
}

const Effects &Accesses::of(const llvm::Instruction &instruction) const {
  static const Effects none;
  const auto found = effects_.find(&instruction);
  return found == effects_.end() ? none : found->second;
}

bool Accesses::covers(const std::vector<uint32_t> &footprints, Atom atom) const {
  return llvm::any_of(footprints, [&](uint32_t footprint) {
    return std::binary_search(footprints_[footprint].begin(), footprints_[footprint].end(), atom);
  });
}

std::vector<Atom> Accesses::all(const std::vector<uint32_t> &footprints) const {
  std::vector<Atom> found;
  for (const uint32_t footprint : footprints)
    found.insert(found.end(), footprints_[footprint].begin(), footprints_[footprint].end());
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Divides each object at the boundaries of its accesses and arrays, and expresses the footprints in atoms.
void Accesses::divide() {
  const Memory &memory = points_to_.memory();
  std::vector<std::vector<uint64_t>> cuts(memory.objects());
  for (const std::vector<Range> &ranges : ranges_.values())
    for (const Range &range : ranges) {
      cuts[range.object].push_back(range.start);
      if (range.end != kToEnd) cuts[range.object].push_back(range.end);
    }
  for (ObjectId object = 0; object < memory.objects(); ++object) {
    first_.push_back(static_cast<Atom>(objects_.size()));
    std::vector<uint64_t> &points = cuts[object];
    if (points.empty()) continue;
    points.push_back(0);
    for (const Region &region : memory.object(object).regions)
      for (const uint64_t point : {region.start, region.start + region.element, region.end()})
        if (point != kToEnd) points.push_back(point);
    std::sort(points.begin(), points.end());
    points.erase(std::unique(points.begin(), points.end()), points.end());
    if (points.size() > kMostAtoms || memory.object(object).collapsed) points.assign({0});
    for (size_t i = 0; i < points.size(); ++i) {
      objects_.push_back(object);
      bytes_.emplace_back(points[i], i + 1 < points.size() ? points[i + 1] : kToEnd);
    }
  }
  first_.push_back(static_cast<Atom>(objects_.size()));
  for (uint32_t number = 0; number < ranges_.values().size(); ++number) {
    std::vector<Atom> &atoms = footprints_.emplace_back();
    for (const Range &range : ranges_[number]) {
      const MemoryObject &object = memory.object(range.object);
      for (Atom atom = first_[range.object]; atom < first_[range.object + 1]; ++atom) {
        const auto [start, end] = bytes_[atom];
        if (!is_overwrite_[number]) {
          if (start < range.end && range.start < end) atoms.push_back(atom);
          continue;
        }
        const uint64_t last = object.size ? std::min(end, object.size) : end;
        // an atom of an array is overwritten if all elements are
        const bool whole = llvm::all_of(object.regions, [&](const Region &region) {
          return !region.contains(start) || (range.start <= region.start && region.end() <= range.end);
        });
        if (whole && range.start <= start && last <= range.end) atoms.push_back(atom);
      }
    }
    std::sort(atoms.begin(), atoms.end());
    atoms.erase(std::unique(atoms.begin(), atoms.end()), atoms.end());
  }
}

std::vector<Atom> Accesses::among(ObjectId object, uint64_t start, uint64_t end) const {
  std::vector<Atom> found;
  const auto [first, last] = range(object);
  for (const Region &region : points_to_.memory().object(object).regions)
    if (region.start < end && start < region.end()) {
      start = std::min(start, region.start);
      end = std::max(end, region.end());
    }
  for (Atom atom = first; atom < last; ++atom)
    if (bytes_[atom].first < end && start < bytes_[atom].second) found.push_back(atom);
  return found;
}

// Reads and writes of functions and those that they call.
void Accesses::summarise() {
  llvm::DenseMap<const llvm::Function *, std::vector<ObjectId>> own;  // their local variables
  may_read_.resize(cycles_.size());
  may_write_.resize(cycles_.size());
  for (uint32_t cycle = 0; cycle < cycles_.size(); ++cycle) {
    llvm::BitVector &reads = may_read_[cycle], &writes = may_write_[cycle];
    reads.resize(count());
    writes.resize(count());
    llvm::DenseSet<const llvm::Function *> added;
    const auto add = [&](const llvm::Function *callee, const std::vector<llvm::BitVector> &from, llvm::BitVector &to) {
      llvm::BitVector found = from[cycle_of_[callee]];
      for (const ObjectId object : own[callee]) found.reset(first_[object], first_[object + 1]);
      to |= found;
    };
    llvm::DenseSet<uint32_t> read, written;  // many instructions have the same footprint
    const auto set = [&](const std::vector<uint32_t> &footprints, llvm::DenseSet<uint32_t> &done, llvm::BitVector &atoms) {
      for (const uint32_t footprint : footprints)
        if (done.insert(footprint).second)
          for (const Atom atom : footprints_[footprint]) atoms.set(atom);
    };
    for (const llvm::Function *function : cycles_[cycle])
      for (const llvm::Instruction &instruction : llvm::instructions(*function)) {
        set(of(instruction).reads, read, reads);
        set(of(instruction).writes, written, writes);
        if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
          for (const llvm::Function *callee : runs(*site)) {
            if (cycle_of_[callee] == cycle || !added.insert(callee).second) continue;
            add(callee, may_read_, reads);
            add(callee, may_write_, writes);
          }
        const ObjectId *object = llvm::isa<llvm::AllocaInst>(instruction) ? points_to_.object_of(&instruction) : nullptr;
        if (object && first_[*object] != first_[*object + 1] && !has_instances(function, *object))
          own[function].push_back(*object);
      }
  }
}

uint64_t pointee_bytes(const llvm::Function &function, unsigned index) {
  const llvm::DISubprogram *info = function.getSubprogram();
  const llvm::DITypeRefArray types = info && info->getType() ? info->getType()->getTypeArray() : nullptr;
  if (!types || index + 1 >= types.size()) return 0;
  bool pointer = false;
  for (const llvm::DIType *type = types[index + 1]; type;) {
    const auto *derived = llvm::dyn_cast<llvm::DIDerivedType>(type);
    if (!derived) return pointer && type->getSizeInBits() > 8 ? type->getSizeInBits() / 8 : 0;
    if (derived->getTag() == llvm::dwarf::DW_TAG_pointer_type) {
      if (pointer) return derived->getSizeInBits() / 8;
      pointer = true;
    }
    type = derived->getBaseType();
  }
  return 0;
}

bool is_const(const llvm::Function &function, unsigned index) {
  const llvm::DISubprogram *info = function.getSubprogram();
  const llvm::DITypeRefArray types = info && info->getType() ? info->getType()->getTypeArray() : nullptr;
  if (!types || index + 1 >= types.size()) return true;  // a variable argument; or nothing is known, and a model is needed
  const llvm::DIType *type = types[index + 1];
  while (const auto *derived = llvm::dyn_cast_or_null<llvm::DIDerivedType>(type)) {
    if (derived->getTag() == llvm::dwarf::DW_TAG_pointer_type) {
      const llvm::DIType *pointee = derived->getBaseType();
      while (const auto *name = llvm::dyn_cast_or_null<llvm::DIDerivedType>(pointee)) {
        if (name->getTag() != llvm::dwarf::DW_TAG_typedef) break;
        pointee = name->getBaseType();
      }
      return pointee && pointee->getTag() == llvm::dwarf::DW_TAG_const_type;
    }
    type = derived->getBaseType();
  }
  return false;  // an integer or a union may carry the pointer
}

}  // namespace analyze
