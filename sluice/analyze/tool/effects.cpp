// Reads, possible writes and certain overwrites of each kind of instruction.
#include <algorithm>

#include "access.h"
#include "bounds.h"
#include "components.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

void Accesses::collect(const llvm::Instruction &instruction) {
  using namespace llvm;
  if (!instruction.mayReadOrWriteMemory() || instruction.isLifetimeStartOrEnd()) return;
  Effects effects;
  const auto bytes_of = [&](const Type *type) {
    return layout_->getTypeStoreSize(const_cast<Type *>(type)).getFixedValue();
  };
  if (const auto *load = dyn_cast<LoadInst>(&instruction)) {
    effects.reads.push_back(footprint(load->getPointerOperand(), bytes_of(load->getType())));
  } else if (const auto *store = dyn_cast<StoreInst>(&instruction)) {
    const uint64_t bytes = bytes_of(store->getValueOperand()->getType());
    effects.writes.push_back(written(store->getPointerOperand(), bytes));
    add_overwrite(store->getPointerOperand(), bytes, effects);
  } else if (isa<AtomicRMWInst, AtomicCmpXchgInst>(instruction)) {
    effects.reads.push_back(footprint(instruction.getOperand(0), bytes_of(instruction.getOperand(1)->getType())));
    effects.writes.push_back(written(instruction.getOperand(0), bytes_of(instruction.getOperand(1)->getType())));
  } else if (const auto *call = dyn_cast<CallBase>(&instruction)) {
    collect_call(*call, effects);
  } else if (const auto *argument = dyn_cast<VAArgInst>(&instruction)) {
    effects.reads.push_back(footprint(argument->getPointerOperand(), kToEnd));
    effects.writes = effects.reads;
  } else {
    return;
  }
  effects_[&instruction] = std::move(effects);
}

void Accesses::collect_call(const llvm::CallBase &call, Effects &effects) {
  using namespace llvm;
  if (const auto *memory = dyn_cast<MemIntrinsic>(&call)) {
    const uint64_t bytes = most_bytes(memory->getLength());
    if (bytes == 0) return;
    effects.writes.push_back(written(memory->getRawDest(), bytes));
    if (isa<ConstantInt>(memory->getLength())) add_overwrite(memory->getRawDest(), bytes, effects);
    if (const auto *transfer = dyn_cast<MemTransferInst>(&call))
      effects.reads.push_back(footprint(transfer->getRawSource(), bytes));
    return;
  }
  if (isa<InlineAsm>(call.getCalledOperand())) {
    if (const std::optional<Assembly> known = read_assembly(call)) {
      for (const Assembly::Address &address : known->addresses) {
        const llvm::Value *pointer = call.getArgOperand(address.argument);
        const uint64_t bytes = address.bytes ? address.bytes : kToEnd;
        effects.reads.push_back(footprint(pointer, bytes));
        effects.writes.push_back(written(pointer, bytes));
      }
      return;
    }
    if (points_to_.options().assume_harmless.count("assembly")) return;
    collect_unknown(call, effects);
    return;
  }
  if (const auto *intrinsic = dyn_cast<IntrinsicInst>(&call)) {
    const bool copies = intrinsic->getIntrinsicID() == Intrinsic::vacopy;
    if (copies || intrinsic->getIntrinsicID() == Intrinsic::vastart)
      effects.writes.push_back(footprint(call.getArgOperand(0), kToEnd));
    if (copies) effects.reads.push_back(footprint(call.getArgOperand(1), kToEnd));
    return;
  }
  for (const Function *callee : points_to_.calls().callees(&call))
    if (callee->isDeclaration()) collect_external(call, *callee, effects);
}

void Accesses::collect_external(const llvm::CallBase &call, const llvm::Function &callee, Effects &effects) {
  const std::string name = callee.getName().str();
  const ExternalModel *model = models_.external(name);
  const std::map<std::string, std::string> &harmless = points_to_.options().assume_harmless;
  if (!model && !harmless.count(name) && !harmless.count("externals")) {
    collect_unknown(call, effects);
    return;
  }
  const auto names = [](const std::vector<Operand> &list, unsigned index) {
    return llvm::any_of(list, [&](const Operand &operand) {
      return operand.kind == Operand::Argument && operand.index == index;
    });
  };
  for (unsigned i = 0; i < call.arg_size(); ++i) {
    const llvm::Value *argument = call.getArgOperand(i);
    if (!argument->getType()->isPointerTy()) continue;
    const bool overwritten = model && names(model->overwrites, i);
    if (!overwritten) effects.reads.push_back(footprint(argument, kToEnd));
    if (!model) continue;
    const bool variable = i >= callee.arg_size();
    const bool is_written = variable        ? model->writes_varargs
                            : model->writes ? names(*model->writes, i)
                                            : !is_const(callee, i);
    if (!is_written && !overwritten) continue;
    const uint64_t bytes = variable ? 0 : pointee_bytes(callee, i);
    effects.writes.push_back(written(argument, kToEnd));
    if (overwritten) add_overwrite(argument, bytes, effects);
  }
  if (model && model->writes)
    for (const Operand &operand : *model->writes)
      if (operand.kind == Operand::Pointee && operand.index < call.arg_size())
        effects.writes.push_back(writable(pointee(call.getArgOperand(operand.index), operand.offset)));
  if (models_.output(name)) effects.reads.push_back(closure(call));
}

// Unknown code reads and writes everything that it can reach.
void Accesses::collect_unknown(const llvm::CallBase &call, Effects &effects) {
  for (const llvm::Use &argument : call.args()) {
    effects.reads.push_back(footprint(argument.get(), kToEnd));
    effects.writes.push_back(written(argument.get(), kToEnd));
  }
  effects.reads.push_back(escaped());
  effects.writes.push_back(writable(escaped()));
}

uint32_t Accesses::escaped() {
  if (escaped_) return *escaped_;
  std::vector<Range> ranges;
  for (ObjectId object = 0; object < points_to_.memory().objects(); ++object)
    if (points_to_.constraints().escaped(object) &&
        points_to_.memory().object(object).kind != ObjectKind::Function)
      ranges.push_back({object, 0, kToEnd});
  escaped_ = footprint(std::move(ranges));
  return *escaped_;
}

// Functions, and memory of libraries, are the ends of what is reached.
void Accesses::find_groups() {
  const Memory &memory = points_to_.memory();
  const auto ends = [&](ObjectId object) {
    const ObjectKind kind = memory.object(object).kind;
    return kind == ObjectKind::Function || kind == ObjectKind::Library;
  };
  group_of_ = components(memory.objects(), [&](ObjectId object) {
    return ends(object) ? llvm::ArrayRef<ObjectId>() : points_to_.leads_to(object);
  });
  for (ObjectId object = 0; object < memory.objects(); ++object) {
    const uint32_t group = group_of_[object];
    if (group >= groups_.size()) groups_.resize(group + 1), leads_of_group_.resize(group + 1);
    if (ends(object)) continue;
    groups_[group].push_back(object);
    for (const ObjectId to : points_to_.leads_to(object))
      if (group_of_[to] != group && !ends(to)) leads_of_group_[group].push_back(group_of_[to]);
  }
  for (std::vector<uint32_t> &leads : leads_of_group_) {
    std::sort(leads.begin(), leads.end());
    leads.erase(std::unique(leads.begin(), leads.end()), leads.end());
  }
}

// All memory reached from the arguments, through any number of pointers; memory of libraries excluded.
uint32_t Accesses::closure(const llvm::CallBase &call) {
  llvm::SetVector<uint32_t> reached;
  for (const llvm::Use &argument : call.args())
    for (const NodeId cell : points_to_.targets(argument.get()))
      reached.insert(group_of_[points_to_.memory().object_of(cell)]);
  std::vector<Range> ranges;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const ObjectId object : groups_[reached[i]]) ranges.push_back({object, 0, kToEnd});
    const std::vector<uint32_t> &leads = leads_of_group_[reached[i]];
    reached.insert(leads.begin(), leads.end());
  }
  return footprint(std::move(ranges));
}

uint32_t Accesses::footprint(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  uint64_t hash = ranges.size();
  for (const Range &range : ranges) hash = llvm::hash_combine(hash, range.object, range.start, range.end);
  const uint32_t number = ranges_.number(std::move(ranges), hash);
  is_overwrite_.resize(ranges_.values().size());
  return number;
}

// All from where a pointer points that lies `offset` bytes after the targets of a pointer.
uint32_t Accesses::pointee(const llvm::Value *pointer, uint64_t offset) {
  const Memory &memory = points_to_.memory();
  std::vector<Range> ranges;
  for (const NodeId base : points_to_.targets(pointer)) {
    const auto &cells = memory.cells(memory.object_of(base));
    const auto found = cells.find(memory.folded(memory.object_of(base), memory.offset_of(base) + offset));
    if (found == cells.end()) continue;
    for (const NodeId cell : points_to_.constraints().targets(found->second)) add_range(cell, kToEnd, ranges);
  }
  return footprint(std::move(ranges));
}

// Of a footprint, what a write can change: no constants.
uint32_t Accesses::writable(uint32_t all) {
  const auto is_constant = [this](const Range &range) { return points_to_.memory().object(range.object).constant; };
  if (llvm::none_of(ranges_[all], is_constant)) return all;
  std::vector<Range> ranges = ranges_[all];
  llvm::erase_if(ranges, is_constant);
  return footprint(std::move(ranges));
}

uint32_t Accesses::footprint(const llvm::Value *pointer, uint64_t bytes) {
  llvm::APInt offset(64, 0);
  const llvm::Value *base = pointer->getType()->isPointerTy()
                                ? pointer->stripAndAccumulateConstantOffsets(*layout_, offset, true)
                                : pointer;
  if (llvm::isa<llvm::GlobalVariable, llvm::AllocaInst>(base))
    if (const ObjectId *object = points_to_.object_of(base)) {
      const auto at = static_cast<uint64_t>(std::max<int64_t>(offset.getSExtValue(), 0));
      return footprint({range_at(*object, points_to_.memory().folded(*object, at), bytes)});
    }
  const llvm::ArrayRef<NodeId> cells = points_to_.targets(pointer);
  const auto key = std::make_tuple(cells.data(), cells.size(), bytes);
  const auto found = by_set_.find(key);
  if (found != by_set_.end()) return found->second;
  std::vector<Range> ranges;
  for (const NodeId cell : cells) add_range(cell, bytes, ranges);
  return by_set_[key] = footprint(std::move(ranges));
}

void Accesses::add_range(NodeId cell, uint64_t bytes, std::vector<Range> &ranges) const {
  const ObjectId object = points_to_.memory().object_of(cell);
  if (points_to_.memory().object(object).kind == ObjectKind::Function) return;
  ranges.push_back(range_at(object, points_to_.memory().offset_of(cell), bytes));
}

// Of an access at a folded offset: if it leaves the element of an array in which it begins, all of the array and what
// follows.
Accesses::Range Accesses::range_at(ObjectId id, uint64_t offset, uint64_t bytes) const {
  const MemoryObject &object = points_to_.memory().object(id);
  if (object.collapsed) return {id, 0, kToEnd};
  for (const Region &region : object.regions) {
    if (!region.contains(offset)) continue;
    const uint64_t rest = region.start + region.element - offset;
    if (bytes == kToEnd || bytes > rest) return {id, region.start, kToEnd};
  }
  return {id, offset, bytes == kToEnd ? kToEnd : offset + bytes};
}

// The one place to which a pointer points whenever it is used, if that is known.
std::optional<Accesses::Exact> Accesses::exact(const llvm::Value *pointer, unsigned depth) const {
  if (depth > 4 || !pointer->getType()->isPointerTy()) return std::nullopt;
  llvm::APInt offset(64, 0);
  const llvm::Value *base = pointer->stripAndAccumulateConstantOffsets(*layout_, offset, true);
  if (offset.isNegative()) return std::nullopt;
  if (llvm::isa<llvm::GlobalVariable, llvm::AllocaInst>(base)) {
    const ObjectId *object = points_to_.object_of(base);
    if (!object || !is_single(*object)) return std::nullopt;
    return Exact{*object, offset.getZExtValue()};
  }
  if (const auto *argument = llvm::dyn_cast<llvm::Argument>(base)) {
    std::optional<Exact> same;
    const auto callers = run_by(*argument->getParent());
    for (const llvm::CallBase *site : callers) {
      if (repeats(*site) || argument->getArgNo() >= site->arg_size()) return std::nullopt;
      const auto at = exact(site->getArgOperand(argument->getArgNo()), depth + 1);
      if (!at || (same && (same->object != at->object || same->offset != at->offset))) return std::nullopt;
      same = at;
    }
    const llvm::Function &function = *argument->getParent();
    const ObjectId *own = points_to_.object_of(&function);
    const bool spawned = llvm::any_of(points_to_.calls().spawns(),
                                      [&](const Spawn &spawn) { return spawn.function == &function; });
    if (!same || spawned || (own && points_to_.constraints().escaped(*own))) return std::nullopt;
    return Exact{same->object, same->offset + offset.getZExtValue()};
  }
  const llvm::ArrayRef<NodeId> cells = points_to_.targets(pointer);
  if (cells.size() != 1) return std::nullopt;
  const ObjectId object = points_to_.memory().object_of(cells[0]);
  const uint64_t at = points_to_.memory().offset_of(cells[0]);
  const MemoryObject &whole = points_to_.memory().object(object);
  const bool in_array = llvm::any_of(whole.regions, [&](const Region &region) { return region.contains(at); });
  if (whole.collapsed || in_array || !is_single(object)) return std::nullopt;
  return Exact{object, at};
}

// bytes: 0 for text and data of which only written bytes are read later: to the end of its array.
void Accesses::add_overwrite(const llvm::Value *pointer, uint64_t bytes, Effects &effects) {
  const std::optional<Exact> at = exact(pointer);
  if (!at) return;
  const MemoryObject &object = points_to_.memory().object(at->object);
  uint64_t end = at->offset + bytes;
  if (bytes == 0) {
    end = object.size;
    for (const Region &region : object.regions)
      if (region.start == at->offset && region.count != Region::kUnbounded) end = std::min(end, region.end());
    if (object.collapsed && at->offset != 0) return;
  }
  if (object.collapsed && (at->offset != 0 || end < object.size)) return;
  if (object.size != 0 && end > object.size) end = object.size;
  // not shared with possible writes: an atom that is written in part is not overwritten
  effects.overwrites.push_back(ranges_.add({{at->object, at->offset, end}}));
  is_overwrite_.push_back(true);
}

}  // namespace analyze
