#include "lifetimes.h"

#include "llvm/ADT/GenericCycleImpl.h"
#include "llvm/Analysis/CycleAnalysis.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

namespace analyze {

namespace {

// An access of a local variable by name.
struct Access {
  const llvm::Instruction *instruction;
  bool reads;
  bool writes;
  bool whole;  // writes all of it
};

class Accesses {
 public:
  Accesses(const llvm::AllocaInst &variable, const llvm::DataLayout &layout)
      : layout_(layout), size_(layout.getTypeAllocSize(variable.getAllocatedType()).getFixedValue()) {
    collect(variable, true);
  }

  bool address_taken = false;
  std::vector<Access> all;
  std::vector<const llvm::LifetimeIntrinsic *> markers;  // where the lifetime begins and ends, if clang marks it

 private:
  // direct: the pointer is the variable's own address, not that of a member
  void collect(const llvm::Value &pointer, bool direct) {
    using namespace llvm;
    for (const Use &use : pointer.uses()) {
      const auto *user = cast<Instruction>(use.getUser());
      if (auto *load = dyn_cast<LoadInst>(user)) {
        all.push_back({load, true, false, false});
      } else if (auto *store = dyn_cast<StoreInst>(user); store && store->getPointerOperand() == &pointer) {
        const uint64_t bytes = layout_.getTypeStoreSize(store->getValueOperand()->getType()).getFixedValue();
        all.push_back({store, false, true, direct && bytes >= size_});
      } else if (auto *address = dyn_cast<GetElementPtrInst>(user); address && address->hasAllConstantIndices()) {
        collect(*address, direct && address->hasAllZeroIndices());
      } else if (auto *transfer = dyn_cast<MemIntrinsic>(user); transfer && !transfer->isVolatile()) {
        const auto *length = dyn_cast<ConstantInt>(transfer->getLength());
        const bool target = transfer->getRawDest() == &pointer;
        all.push_back({transfer, !target, target, target && direct && length && length->getZExtValue() >= size_});
      } else if (auto *marker = dyn_cast<LifetimeIntrinsic>(user)) {
        markers.push_back(marker);
      } else {
        address_taken = true;
      }
    }
  }

  const llvm::DataLayout &layout_;
  uint64_t size_;
};

// Blocks at whose beginning the value may still be read by name.
llvm::SmallPtrSet<const llvm::BasicBlock *, 16> live_blocks(const Accesses &accesses) {
  llvm::DenseMap<const llvm::BasicBlock *, const Access *> first;  // that decides: a read, or a write of all of it
  for (const Access &access : accesses.all) {
    if (!access.reads && !access.whole) continue;
    const Access *&earliest = first[access.instruction->getParent()];
    if (!earliest || access.instruction->comesBefore(earliest->instruction)) earliest = &access;
  }
  llvm::SmallPtrSet<const llvm::BasicBlock *, 16> live;
  std::vector<const llvm::BasicBlock *> pending;
  for (const auto &[block, access] : first)
    if (access->reads && live.insert(block).second) pending.push_back(block);
  while (!pending.empty()) {
    const llvm::BasicBlock *block = pending.back();
    pending.pop_back();
    for (const llvm::BasicBlock *before : llvm::predecessors(block))
      if (!first.count(before) && live.insert(before).second) pending.push_back(before);
  }
  return live;
}

// Whether an iteration may end within the variable's lifetime, by the markers of its beginning and end.
bool lives_on(const Accesses &accesses, const llvm::Cycle &cycle) {
  llvm::DenseMap<const llvm::BasicBlock *, const llvm::LifetimeIntrinsic *> last;
  for (const llvm::LifetimeIntrinsic *marker : accesses.markers) {
    const llvm::LifetimeIntrinsic *&latest = last[marker->getParent()];
    if (!latest || latest->comesBefore(marker)) latest = marker;
  }
  llvm::SmallPtrSet<const llvm::BasicBlock *, 16> alive;  // at their end
  std::vector<const llvm::BasicBlock *> pending;
  for (const auto &[block, marker] : last)
    if (marker->getIntrinsicID() == llvm::Intrinsic::lifetime_start && alive.insert(block).second)
      pending.push_back(block);
  while (!pending.empty()) {
    const llvm::BasicBlock *block = pending.back();
    pending.pop_back();
    for (const llvm::BasicBlock *next : llvm::successors(block)) {
      if (next == cycle.getHeader() && cycle.contains(block)) return true;
      if (!last.count(next) && alive.insert(next).second) pending.push_back(next);
    }
  }
  return false;
}

bool within(const llvm::DIScope *inner, const llvm::DIScope *outer) {
  for (const llvm::DIScope *scope = inner; scope; scope = scope->getScope()) {
    if (scope == outer) return true;
    if (llvm::isa<llvm::DISubprogram>(scope)) return false;
  }
  return false;
}

// Whether an iteration may end without leaving the block in which the variable is declared, by the debug info.
bool stays_in_scope(const llvm::DILocalVariable &variable, const llvm::Cycle &cycle) {
  for (const llvm::BasicBlock *latch : llvm::predecessors(cycle.getHeader())) {
    if (!cycle.contains(latch)) continue;
    const llvm::DILocation *end = latch->getTerminator()->getDebugLoc().get();
    if (!end || end->getInlinedAt() || within(end->getScope(), variable.getScope())) return true;
  }
  return false;
}

}  // namespace

Lifetimes::Lifetimes(const llvm::Module &module) {
  for (const llvm::Function &function : module)
    if (!function.isDeclaration()) add(function);
}

void Lifetimes::add(const llvm::Function &function) {
  llvm::CycleInfo info;
  info.compute(const_cast<llvm::Function &>(function));
  std::vector<Loop> &loops = loops_[&function];
  std::vector<const llvm::Cycle *> cycles;
  for (const llvm::Cycle *top : info.toplevel_cycles())
    for (const llvm::Cycle *cycle : llvm::depth_first(top)) {
      cycles.push_back(cycle);
      loops.push_back({&function, cycle->getHeader(), cycle == top, {}, {}});
      for (const llvm::BasicBlock *block : cycle->blocks()) loops.back().blocks.insert(block);
    }

  std::vector<Local> &locals = locals_[&function];
  for (const llvm::Instruction &instruction : llvm::instructions(function))
    for (llvm::DbgVariableRecord &record : llvm::filterDbgVars(instruction.getDbgRecordRange())) {
      const auto *memory = llvm::dyn_cast_or_null<llvm::AllocaInst>(record.getVariableLocationOp(0));
      if (!record.isDbgDeclare() || !memory || record.getDebugLoc()->getInlinedAt()) continue;
      const Accesses accesses(*memory, function.getDataLayout());
      locals.push_back({record.getVariable(), memory, accesses.address_taken, llvm::isAllocaPromotable(memory)});
      if (cycles.empty()) continue;
      const auto live = live_blocks(accesses);
      for (size_t i = 0; i < cycles.size(); ++i) {
        if (!accesses.address_taken && !live.contains(cycles[i]->getHeader())) continue;
        const bool survives = accesses.markers.empty() ? stays_in_scope(*record.getVariable(), *cycles[i])
                                                       : lives_on(accesses, *cycles[i]);
        if (!survives) continue;
        LoopLocal survivor{static_cast<unsigned>(locals.size() - 1), false, false, {}};
        for (const Access &access : accesses.all) {
          if (!cycles[i]->contains(access.instruction->getParent())) continue;
          survivor.read |= access.reads;
          survivor.written |= access.writes;
          survivor.places.emplace_back(access.instruction->getDebugLoc(), access.writes);
        }
        loops[i].survivors.push_back(survivor);
      }
    }
}

template <typename T>
static const std::vector<T> &list(const llvm::DenseMap<const llvm::Function *, std::vector<T>> &map,
                                  const llvm::Function *function) {
  static const std::vector<T> none;
  const auto found = map.find(function);
  return found == map.end() ? none : found->second;
}

const std::vector<Loop> &Lifetimes::loops(const llvm::Function *function) const { return list(loops_, function); }
const std::vector<Local> &Lifetimes::locals(const llvm::Function *function) const { return list(locals_, function); }

}  // namespace analyze
