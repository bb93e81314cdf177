#include "overwritten.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

Overwritten::Overwritten(const Accesses &accesses, const Receives &receives, const Classes &classes,
                         const Updates &updates)
    : accesses_(accesses), receives_(receives), found_(classes.persistent().size(), false) {
  const PointsTo &points_to = accesses.points_to();
  std::vector<std::pair<size_t, ObjectId>> variables;
  for (size_t number = 0; number < classes.persistent().size(); ++number) {
    const std::optional<ObjectId> object = updates.memory(number);
    if (!object || !classes.persistent()[number].top_level() || !accesses.is_single(*object)) continue;
    const auto [first, last] = accesses.range(*object);
    bool shared = false;
    for (Atom atom = first; atom < last; ++atom) shared = shared || accesses.is_shared(atom);
    if (shared || first == last) continue;
    variables.emplace_back(number, *object);
    for (Atom atom = first; atom < last; ++atom) candidates_.try_emplace(atom, candidates_.size());
  }
  for (const llvm::Function *function : points_to.calls().entered()) prepare(*function);
  find_kills();
  find_exposed();
  find_live();

  Bits carried(candidates_.size());
  for (const llvm::Function *function : points_to.calls().entered()) {
    const Blocks live = solve(*function, at_return_[function]);
    for (const llvm::BasicBlock &block : *function) {
      Bits now = live_after(block, live, at_return_[function]);
      for (const Step &step : llvm::reverse(steps_[&block])) {
        apply(step, now);
        const bool receives_here = llvm::any_of(receives.calls(), [&](const ReceiveCall &call) {
          return call.site == step.instruction && call.model->callback.kind == Operand::None;
        });
        if (receives_here) carried |= now;
      }
    }
    if (receives.callbacks().contains(function)) carried |= live.find(&function->getEntryBlock())->second;
    for (const Loop *loop : classes.loops())
      if (loop->function == function && !receives.may_receive(function)) carried |= live.find(loop->header)->second;
  }
  for (const Spawn &spawn : points_to.calls().spawns())
    if (spawn.role == CallRole::Exit && !spawn.function->isDeclaration())
      for (const auto &[atom, index] : candidates_)
        if (accesses.may_read(spawn.function).test(atom)) carried.set(index);
  for (const auto &[number, object] : variables) {
    const auto [first, last] = accesses.range(object);
    found_[number] = true;
    const bool leads = llvm::any_of(updates.memory_of(number), [&, own = object](ObjectId other) {
      return other != own && updates.may_write(other);  // a pointer that stays is how later packets find it
    });
    const auto writes = updates.writes(object);
    for (Atom atom = first; atom < last; ++atom) {
      // memory that packet processing never changes is the same for each packet, whether it is read or not
      const bool updated = leads || llvm::any_of(writes, [&, number = number](const llvm::Instruction *write) {
        return accesses.writes(*write, atom) && !updates.initialises(number, *write);
      });
      if (updated && carried.test(candidates_.find(atom)->second)) found_[number] = false;
    }
  }
}

void Overwritten::prepare(const llvm::Function &function) {
  const auto among = [&](const std::vector<uint32_t> &footprints) {
    std::vector<unsigned> found;
    for (const uint32_t footprint : footprints)
      for (const Atom atom : accesses_.atoms(footprint))
        if (const auto candidate = candidates_.find(atom); candidate != candidates_.end())
          found.push_back(candidate->second);
    return found;
  };
  for (const llvm::BasicBlock &block : function) {
    std::vector<Step> &steps = steps_[&block];
    for (const llvm::Instruction &instruction : block) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      const Effects &effects = accesses_.of(instruction);
      const auto runs = site ? accesses_.runs(*site) : llvm::ArrayRef<const llvm::Function *>();
      std::vector<unsigned> reads = among(effects.reads), kills = among(effects.overwrites);
      const bool receives = site && receives_.may_receive(site);
      if (reads.empty() && kills.empty() && runs.empty() && !receives) continue;
      const bool outside = site && llvm::any_of(accesses_.points_to().calls().callees(site),
                                                [](const llvm::Function *one) { return one->isDeclaration(); });
      steps.push_back({&instruction, std::move(reads), std::move(kills), runs,
                       site && accesses_.repeats(*site), outside});
    }
  }
}

// Sets the bits of what a step certainly overwrites to a value; of a call, that is what all functions overwrite that it
// may call.
void Overwritten::kill(const Step &step, Bits &live, bool value) const {
  for (const unsigned candidate : step.kills) live[candidate] = value;
  if (step.runs.empty() || step.repeats || step.outside) return;
  Bits all = kills_.find(step.runs.front())->second;
  for (const llvm::Function *function : llvm::drop_begin(step.runs)) all &= kills_.find(function)->second;
  if (value)
    live |= all;
  else
    live.reset(all);
}

void Overwritten::apply(const Step &step, Bits &live) const {
  kill(step, live, false);
  for (const unsigned candidate : step.reads) live.set(candidate);
  for (const llvm::Function *function : step.runs) live |= exposed_.find(function)->second;
}

// Greatest fixpoint: memory that is overwritten on all paths from the entry of a function to its return.
void Overwritten::find_kills() {
  const auto &entered = accesses_.points_to().calls().entered();
  for (const llvm::Function *function : entered) kills_[function] = Bits(candidates_.size(), true);
  llvm::SetVector<const llvm::Function *> pending(entered.begin(), entered.end());
  while (!pending.empty()) {
    const llvm::Function *function = pending.pop_back_val();
    Blocks in;
    for (const llvm::BasicBlock &block : *function) in[&block] = Bits(candidates_.size(), true);
    for (bool changed = true; changed;) {
      changed = false;
      for (const llvm::BasicBlock *block : llvm::post_order(function)) {
        Bits now(candidates_.size(), !llvm::isa<llvm::ReturnInst>(block->getTerminator()));
        for (const llvm::BasicBlock *next : llvm::successors(block)) now &= in[next];
        for (const Step &step : llvm::reverse(steps_[block])) kill(step, now, true);
        if (now == in[block]) continue;
        in[block] = now;
        changed = true;
      }
    }
    const Bits &found = in[&function->getEntryBlock()];
    if (found == kills_[function]) continue;
    kills_[function] = found;
    for (const llvm::CallBase *site : accesses_.run_by(*function))
      if (kills_.count(site->getFunction())) pending.insert(site->getFunction());
  }
}

Overwritten::Bits Overwritten::live_after(const llvm::BasicBlock &block, const Blocks &live,
                                          const Bits &at_return) const {
  Bits now(candidates_.size());
  if (llvm::isa<llvm::ReturnInst>(block.getTerminator())) now = at_return;
  for (const llvm::BasicBlock *next : llvm::successors(&block)) now |= live.find(next)->second;
  return now;
}

Overwritten::Blocks Overwritten::solve(const llvm::Function &function, const Bits &at_return) const {
  Blocks in;
  for (const llvm::BasicBlock &block : function) in[&block] = Bits(candidates_.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (const llvm::BasicBlock *block : llvm::post_order(&function)) {
      Bits now = live_after(*block, in, at_return);
      for (const Step &step : llvm::reverse(steps_.find(block)->second)) apply(step, now);
      if (now == in[block]) continue;
      in[block] = now;
      changed = true;
    }
  }
  return in;
}

// Memory that a function may read before it overwrites it.
void Overwritten::find_exposed() {
  const auto &entered = accesses_.points_to().calls().entered();
  const Bits none(candidates_.size());
  for (const llvm::Function *function : entered) exposed_[function] = none;
  llvm::SetVector<const llvm::Function *> pending(entered.begin(), entered.end());
  while (!pending.empty()) {
    const llvm::Function *function = pending.pop_back_val();
    const Bits found = solve(*function, none)[&function->getEntryBlock()];
    if (found == exposed_[function]) continue;
    exposed_[function] = found;
    for (const llvm::CallBase *site : accesses_.run_by(*function))
      if (exposed_.count(site->getFunction())) pending.insert(site->getFunction());
  }
}

// Memory that may be read after a function has returned, by any of its callers.
void Overwritten::find_live() {
  const auto &entered = accesses_.points_to().calls().entered();
  for (const llvm::Function *function : entered) at_return_[function] = Bits(candidates_.size());
  llvm::SetVector<const llvm::Function *> pending(entered.begin(), entered.end());
  while (!pending.empty()) {
    const llvm::Function *function = pending.pop_back_val();
    const Blocks live = solve(*function, at_return_[function]);
    for (const llvm::BasicBlock &block : *function) {
      Bits now = live_after(block, live, at_return_[function]);
      for (const Step &step : llvm::reverse(steps_[&block])) {
        Bits after = now;
        if (step.repeats)
          for (const llvm::Function *callee : step.runs) after |= exposed_[callee];
        for (const llvm::Function *callee : step.runs) {
          if (!after.test(at_return_[callee])) continue;
          at_return_[callee] |= after;
          pending.insert(callee);
        }
        apply(step, now);
      }
    }
  }
}

}  // namespace analyze
