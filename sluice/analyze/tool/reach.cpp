#include "reach.h"

#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

static bool named(const llvm::CallBase *site, std::initializer_list<const char *> names) {
  const auto *callee = llvm::dyn_cast<llvm::Function>(site->getCalledOperand()->stripPointerCasts());
  return callee && llvm::any_of(names, [&](const char *name) { return callee->getName() == name; });
}

Reach::Reach(const PointsTo &points_to, const Models &models, const Receives &receives)
    : points_to_(points_to), models_(models), receives_(receives) {
  find_returning();
  if (receives.calls().empty()) return;
  for (const llvm::Function *function : points_to.calls().entered())
    for (const llvm::Instruction &instruction : llvm::instructions(function))
      if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction))
        if (named(site, {"setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp"})) jump_targets_.push_back(site);
  for (const ReceiveCall &call : receives.calls()) {
    receive_in(call.site->getFunction());
    start(call.model->callback.kind == Operand::None ? call.site->getNextNonDebugInstruction() : call.site);
  }
  for (const Spawn &spawn : points_to.calls().spawns())
    if (spawn.role == CallRole::Thread || spawn.role == CallRole::Signal) enter(spawn.function, spawn.site, false);
  for (const llvm::Function *function : points_to.calls().entered())
    if (const ObjectId *object = points_to.object_of(function))
      if (points_to.constraints().escaped(*object)) enter(function, nullptr, false);  // unknown code may call it at any time
  drain();
}

void Reach::find_returning() {
  bool changed = true;
  while (changed) {
    changed = false;
    for (const llvm::Function *function : points_to_.calls().entered()) {
      if (may_return_.contains(function)) continue;
      llvm::SmallPtrSet<const llvm::BasicBlock *, 16> seen{&function->getEntryBlock()};
      std::vector<const llvm::BasicBlock *> pending{&function->getEntryBlock()};
      while (!pending.empty() && !may_return_.contains(function)) {
        const llvm::BasicBlock *block = pending.back();
        pending.pop_back();
        const bool passes = llvm::all_of(*block, [&](const llvm::Instruction &instruction) {
          const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
          return !site || returns(site);
        });
        if (!passes) continue;
        if (llvm::isa<llvm::ReturnInst>(block->getTerminator())) {
          may_return_.insert(function);
          changed = true;
        }
        for (const llvm::BasicBlock *next : llvm::successors(block))
          if (seen.insert(next).second) pending.push_back(next);
      }
    }
  }
}

bool Reach::returns(const llvm::CallBase *site) const {
  const auto callees = points_to_.calls().callees(site);
  return callees.empty() || llvm::any_of(callees, [&](const llvm::Function *callee) {
           return callee->isDeclaration() ? !callee->doesNotReturn() : may_return_.contains(callee);
         });
}

void Reach::start(const llvm::Instruction *from) {
  if (from) pending_.push_back(from);
}

void Reach::enter(const llvm::Function *function, const llvm::CallBase *reason, bool passes) {
  if (function->isDeclaration()) return;
  reasons_.try_emplace(function, reason);
  for (const llvm::Argument &argument : function->args()) {
    const unsigned number = argument.getArgNo();
    const llvm::Value *passed = passes && number < reason->arg_size() ? reason->getArgOperand(number) : nullptr;
    // a call by a pointer, or without a prototype, may pass another type
    const bool same = passed && passed->getType() == argument.getType();
    set_argument(argument, same ? constant(passed) : nullptr);
  }
  start(&function->getEntryBlock().front());
}

void Reach::set_argument(const llvm::Argument &argument, const llvm::ConstantInt *value) {
  const auto [found, is_new] = arguments_.try_emplace(&argument, value);
  if (is_new || !found->second || found->second == value) return;
  found->second = nullptr;
  changed_.insert(argument.getParent());
}

// The function was called before the packet was received, by calls that need not be reached.
void Reach::receive_in(const llvm::Function *function) {
  if (!received_in_.insert(function).second) return;
  for (const llvm::Argument &argument : function->args()) set_argument(argument, nullptr);
}

// The value that a register has whenever the reached code uses it; nothing if that is not known.
const llvm::ConstantInt *Reach::constant(const llvm::Value *value, unsigned depth) const {
  using namespace llvm;
  if (const auto *known = dyn_cast<ConstantInt>(value)) return known;
  if (const auto *argument = dyn_cast<Argument>(value)) return arguments_.lookup(argument);
  if (depth > 8) return nullptr;
  Constant *folded = nullptr;
  const auto operand = [&](unsigned index) {
    return const_cast<ConstantInt *>(constant(cast<Instruction>(value)->getOperand(index), depth + 1));
  };
  if (const auto *cast = dyn_cast<CastInst>(value)) {
    ConstantInt *from = operand(0);
    const DataLayout &layout = cast->getDataLayout();
    folded = from ? ConstantFoldCastOperand(cast->getOpcode(), from, cast->getType(), layout) : nullptr;
  } else if (const auto *compare = dyn_cast<ICmpInst>(value)) {
    ConstantInt *left = operand(0), *right = left ? operand(1) : nullptr;
    if (right) folded = ConstantFoldCompareInstOperands(compare->getPredicate(), left, right, compare->getDataLayout());
  } else if (const auto *binary = dyn_cast<BinaryOperator>(value)) {
    ConstantInt *left = operand(0), *right = left ? operand(1) : nullptr;
    if (right) folded = ConstantFoldBinaryOpOperands(binary->getOpcode(), left, right, binary->getDataLayout());
  }
  return dyn_cast_or_null<ConstantInt>(folded);
}

// Starts at the blocks to which control may go from the end of a block.
void Reach::follow(const llvm::Instruction *terminator) {
  const llvm::BasicBlock *only = nullptr;
  if (const auto *branch = llvm::dyn_cast<llvm::BranchInst>(terminator); branch && branch->isConditional()) {
    if (const llvm::ConstantInt *condition = constant(branch->getCondition()))
      only = branch->getSuccessor(condition->isZero() ? 1 : 0);
  } else if (const auto *choice = llvm::dyn_cast<llvm::SwitchInst>(terminator)) {
    if (const llvm::ConstantInt *condition = constant(choice->getCondition()))
      only = choice->findCaseValue(condition)->getCaseSuccessor();
  }
  for (const llvm::BasicBlock *next : llvm::successors(terminator->getParent()))
    if (!only || next == only) start(&next->front());
}

// Follows branches, and passes arguments of calls, of functions whose own arguments have more values than before.
void Reach::pass_on() {
  const llvm::Function *function = changed_.pop_back_val();
  for (const llvm::BasicBlock &block : *function) {
    if (!reached_.contains(&block)) continue;
    for (const llvm::Instruction &instruction : block)
      if (const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction); site && contains(site))
        for (const llvm::Function *callee : points_to_.calls().callees(site)) enter(callee, site, true);
    if (ends_.contains(&block)) follow(block.getTerminator());
  }
}

void Reach::drain() {
  while (!pending_.empty() || !changed_.empty()) {
    if (pending_.empty()) {
      pass_on();
      continue;
    }
    const llvm::Instruction *from = pending_.back();
    pending_.pop_back();
    scan(from);
  }
}

void Reach::scan(const llvm::Instruction *from) {
  const llvm::BasicBlock *block = from->getParent();
  const llvm::Instruction *&first = reached_[block];
  if (first && (first == from || first->comesBefore(from))) return;
  const llvm::Instruction *end = first;  // the following code was reached before
  first = from;
  const llvm::Function *function = block->getParent();
  functions_.insert(function);
  reasons_.try_emplace(function, nullptr);
  for (const llvm::Instruction *at = from; at != end && at; at = at->getNextNode()) {
    if (const auto *site = llvm::dyn_cast<llvm::CallBase>(at)) {
      for (const llvm::Function *callee : points_to_.calls().callees(site)) {
        enter(callee, site, true);
        if (!models_.dispatches(callee->getName())) continue;
        for (const Spawn &spawn : points_to_.calls().spawns())
          if (spawn.role == CallRole::Registered) enter(spawn.function, site, false);
      }
      for (const llvm::Function *callback : points_to_.calls().callbacks(site)) enter(callback, site, false);
      if (named(site, {"longjmp", "siglongjmp", "_longjmp", "__longjmp_chk"}))  // continues at any setjmp
        for (const llvm::CallBase *target : jump_targets_) {
          receive_in(target->getFunction());
          start(target->getNextNode());
        }
      if (!returns(site)) return;
    }
    if (llvm::isa<llvm::ReturnInst>(at) && received_in_.contains(function)) leave(function);
  }
  if (end) return;
  ends_.insert(block);
  follow(block->getTerminator());
}

// A function in which a packet was received returns.
void Reach::leave(const llvm::Function *function) {
  if (!left_.insert(function).second) return;
  const auto continue_after = [&](const llvm::CallBase *site, bool library_calls_again) {
    receive_in(site->getFunction());
    // Returns of the caller that were reached earlier count now.
    for (const llvm::BasicBlock &block : *site->getFunction())
      if (llvm::isa<llvm::ReturnInst>(block.getTerminator()) && contains(block.getTerminator()))
        leave(site->getFunction());
    start(library_calls_again ? static_cast<const llvm::Instruction *>(site) : site->getNextNode());
  };
  for (const llvm::CallBase *site : points_to_.calls().callers(function))
    continue_after(site, llvm::is_contained(points_to_.calls().callbacks(site), function));
  for (const Spawn &spawn : points_to_.calls().spawns())
    if (spawn.role == CallRole::Registered && spawn.function == function)
      for (const llvm::CallBase *site : receives_.dispatch_sites()) continue_after(site, true);
}

bool Reach::contains(const llvm::Instruction *instruction) const {
  const auto found = reached_.find(instruction->getParent());
  return found != reached_.end() && (found->second == instruction || found->second->comesBefore(instruction));
}

const llvm::CallBase *Reach::reason(const llvm::Function *function) const { return reasons_.lookup(function); }

}  // namespace analyze
