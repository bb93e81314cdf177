// Entries that are constants, such as tables of handlers, are told apart: each function gets the arguments of its own entry.
// Otherwise, each would get those of all, as the points-to analysis is insensitive to context.
#include "entries.h"

#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Instructions.h"
#include "pointsto.h"

namespace analyze {

constexpr uint64_t kMostEntries = 4096;  // of an array

// A load from a constant distance after a pointer.
static std::optional<std::pair<const llvm::Value *, int64_t>> member(const llvm::Value *value) {
  const auto *load = llvm::dyn_cast<llvm::LoadInst>(value);
  if (!load) return std::nullopt;
  llvm::APInt offset(64, 0);
  const llvm::Value *base =
      load->getPointerOperand()->stripAndAccumulateConstantOffsets(load->getDataLayout(), offset, true);
  if (!llvm::isa<llvm::Instruction, llvm::Argument>(base)) return std::nullopt;
  return std::pair(base, offset.getSExtValue());
}

// Whether two values are the same whenever both are used: one register, or loads of one variable without a write between.
static bool is_same(const llvm::Value *a, const llvm::Value *b) {
  if (a == b) return true;
  const auto *first = llvm::dyn_cast<llvm::LoadInst>(a), *second = llvm::dyn_cast<llvm::LoadInst>(b);
  if (!first || !second || first->getPointerOperand() != second->getPointerOperand()) return false;
  if (first->isVolatile() || second->isVolatile() || first->getParent() != second->getParent()) return false;
  if (second->comesBefore(first)) std::swap(first, second);
  for (const llvm::Instruction *at = first; at != second; at = at->getNextNode())
    if (at->mayWriteToMemory()) return false;
  return true;
}

std::optional<Entry> entry_of(const llvm::CallBase &call) {
  const auto function = member(call.getCalledOperand());
  if (!function) return std::nullopt;
  Entry found{function->first, function->second, {}};
  for (const llvm::Use &argument : call.args()) {
    const auto part = member(argument.get());
    const bool own = part && argument->getType()->isPointerTy() && is_same(part->first, function->first);
    found.arguments.push_back(own ? std::optional(part->second) : std::nullopt);
  }
  const bool any = llvm::any_of(found.arguments, [](const auto &argument) { return argument.has_value(); });
  return any ? std::optional(std::move(found)) : std::nullopt;
}

void PointsTo::call_entries(const llvm::CallBase &call, const Entry &entry) {
  const NodeId others = constraints_.node(), functions = constraints_.node(), place = constraints_.node();
  constraints_.derive(place, others, {{PointerOp::Shift, 0, entry.function}});
  constraints_.load(functions, place);
  call_targets(call, functions);
  constraints_.each_target(value(entry.base), [this, &call, entry, others](NodeId cell) {
    if (call_constant(call, entry, cell))
      constant_entries_.push_back({others, cell, memory().object(memory().object_of(cell)).changes});
    else
      constraints_.address(others, cell);
  });
}

// Takes entries for others whose cells stand for more since then. Returns whether there are any.
bool PointsTo::revise_entries() {
  const size_t before = constant_entries_.size();
  llvm::erase_if(constant_entries_, [this](const ConstantEntry &entry) {
    const bool changed = memory().object(memory().object_of(entry.cell)).changes != entry.changes;
    if (changed) constraints_.address(entry.others, entry.cell);
    return changed;
  });
  return constant_entries_.size() != before;
}

// Returns false if the entry is no constant, or is not known.
bool PointsTo::call_constant(const llvm::CallBase &call, const Entry &entry, NodeId cell) {
  const MemoryObject &object = memory().object(memory().object_of(cell));
  const auto *global = llvm::dyn_cast_or_null<llvm::GlobalVariable>(object.site);
  if (object.kind != ObjectKind::Global || object.collapsed || !global || !global->isConstant() ||
      !global->hasDefinitiveInitializer())
    return false;
  const uint64_t offset = memory().offset_of(cell);
  uint64_t element = 0, count = 1;  // the cell stands for all elements of an array
  for (const Region &region : object.regions)
    if (region.contains(offset)) {
      if (element != 0 || region.count == Region::kUnbounded) return false;
      element = region.element;
      count = region.count;
    }
  if (count > kMostEntries) return false;
  llvm::Type *pointer = llvm::PointerType::get(module_.getContext(), 0);
  const auto constant = [&](uint64_t index, int64_t bytes) {
    const llvm::APInt at(64, offset + index * element + static_cast<uint64_t>(bytes));
    llvm::Constant *initial = const_cast<llvm::Constant *>(global->getInitializer());
    return llvm::ConstantFoldLoadFromConst(initial, pointer, at, layout_);
  };
  std::vector<std::pair<const llvm::Function *, std::vector<const llvm::Value *>>> calls;
  for (uint64_t index = 0; index < count; ++index) {
    const llvm::Constant *function = constant(index, entry.function);
    if (!function) return false;
    const auto *callee = llvm::dyn_cast<llvm::Function>(function->stripPointerCasts());
    if (!callee && function->isNullValue()) continue;
    if (!callee || callee->isDeclaration()) return false;
    std::vector<const llvm::Value *> arguments(call.arg_begin(), call.arg_end());
    for (size_t i = 0; i < arguments.size(); ++i)
      if (entry.arguments[i] && !(arguments[i] = constant(index, *entry.arguments[i]))) return false;
    calls.emplace_back(callee, std::move(arguments));
  }
  for (const auto &[callee, arguments] : calls) {
    if (calls_.add(&call, callee)) by_entries_.insert({&call, callee});
    pass(call, *callee, arguments);
  }
  return true;
}

}  // namespace analyze
