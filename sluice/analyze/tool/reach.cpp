#include "reach.h"

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
  for (const ReceiveCall &call : receives.calls()) {
    const llvm::Function *function = call.site->getFunction();
    received_in_.insert(function);
    start(call.model->callback.kind == Operand::None ? call.site->getNextNonDebugInstruction() : call.site);
  }
  for (const Spawn &spawn : points_to.calls().spawns())
    if (spawn.role == CallRole::Thread || spawn.role == CallRole::Signal) enter(spawn.function, spawn.site);
  for (const llvm::Function *function : points_to.calls().entered())
    if (const ObjectId *object = points_to.object_of(function))
      if (points_to.constraints().escaped(*object)) enter(function, nullptr);  // unknown code may call it at any time
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

void Reach::enter(const llvm::Function *function, const llvm::CallBase *reason) {
  if (function->isDeclaration()) return;
  reasons_.try_emplace(function, reason);
  start(&function->getEntryBlock().front());
}

void Reach::drain() {
  while (!pending_.empty()) {
    const llvm::Instruction *from = pending_.back();
    pending_.pop_back();
    scan(from);
  }
}

void Reach::scan(const llvm::Instruction *from) {
  const llvm::BasicBlock *block = from->getParent();
  const llvm::Instruction *&first = reached_[block];
  if (first && (first == from || first->comesBefore(from))) return;
  const llvm::Instruction *end = first;  // what follows was reached before
  first = from;
  const llvm::Function *function = block->getParent();
  functions_.insert(function);
  reasons_.try_emplace(function, nullptr);
  for (const llvm::Instruction *at = from; at != end && at; at = at->getNextNode()) {
    if (const auto *site = llvm::dyn_cast<llvm::CallBase>(at)) {
      for (const llvm::Function *callee : points_to_.calls().callees(site)) {
        enter(callee, site);
        if (!models_.dispatches(callee->getName())) continue;
        for (const Spawn &spawn : points_to_.calls().spawns())
          if (spawn.role == CallRole::Registered) enter(spawn.function, site);
      }
      for (const llvm::Function *callback : points_to_.calls().callbacks(site)) enter(callback, site);
      if (named(site, {"longjmp", "siglongjmp", "_longjmp", "__longjmp_chk"}))  // continues at any setjmp
        for (const llvm::Function *other : points_to_.calls().entered())
          for (const llvm::Instruction &instruction : llvm::instructions(other))
            if (const auto *target = llvm::dyn_cast<llvm::CallBase>(&instruction))
              if (named(target, {"setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp"})) {
                received_in_.insert(other);
                start(target->getNextNode());
              }
      if (!returns(site)) return;
    }
    if (llvm::isa<llvm::ReturnInst>(at) && received_in_.contains(function)) leave(function);
  }
  if (end) return;
  for (const llvm::BasicBlock *next : llvm::successors(block)) start(&next->front());
}

// A function in which a packet was received returns.
void Reach::leave(const llvm::Function *function) {
  if (!left_.insert(function).second) return;
  const auto continue_after = [&](const llvm::CallBase *site, bool library_calls_again) {
    received_in_.insert(site->getFunction());
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
