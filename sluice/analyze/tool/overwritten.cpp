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

// The candidates of footprints; nothing if there are none.
const Overwritten::Bits *Overwritten::candidates_of(const std::vector<uint32_t> &footprints) {
  const auto of_one = [this](uint32_t footprint) {
    const auto [known, is_new] = of_footprints_.try_emplace(footprint, nullptr);
    if (!is_new) return known->second;
    Bits found(candidates_.size());
    for (const Atom atom : accesses_.atoms(footprint))
      if (const auto candidate = candidates_.find(atom); candidate != candidates_.end()) found.set(candidate->second);
    if (found.any()) known->second = &bits_.emplace_back(std::move(found));
    return known->second;
  };
  if (footprints.empty()) return nullptr;
  if (footprints.size() == 1) return of_one(footprints.front());
  Bits found(candidates_.size());
  for (const uint32_t footprint : footprints)
    if (const Bits *one = of_one(footprint)) found |= *one;
  return found.any() ? &bits_.emplace_back(std::move(found)) : nullptr;
}

void Overwritten::prepare(const llvm::Function &function) {
  for (const llvm::BasicBlock &block : function) {
    std::vector<Step> &steps = steps_[&block];
    bool is_open = false;  // whether the last step is no call
    for (const llvm::Instruction &instruction : block) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      const Effects &effects = accesses_.of(instruction);
      const auto runs = site ? accesses_.runs(*site) : llvm::ArrayRef<const llvm::Function *>();
      const Bits *reads = candidates_of(effects.reads), *kills = candidates_of(effects.overwrites);
      const bool receives = site && receives_.may_receive(site);
      if (!reads && !kills && runs.empty() && !receives) continue;
      if (!runs.empty() || receives) {
        const bool outside = llvm::any_of(accesses_.points_to().calls().callees(site),
                                          [](const llvm::Function *one) { return one->isDeclaration(); });
        steps.push_back({&instruction, reads, kills, runs_of(runs), accesses_.repeats(*site), outside});
        is_open = false;
        continue;
      }
      if (!is_open) {
        steps.push_back({&instruction, reads, kills, std::nullopt, false, false});
        is_open = true;
        continue;
      }
      Step &step = steps.back();
      if (reads && step.kills) {  // what was overwritten before is not read
        Bits rest = *reads;
        rest.reset(*step.kills);
        reads = rest.any() ? &bits_.emplace_back(std::move(rest)) : nullptr;
      }
      const auto unite = [this](const Bits *one, const Bits *other) {
        if (!one || !other || one == other) return one ? one : other;
        Bits both = *one;
        both |= *other;
        return both == *one ? one : static_cast<const Bits *>(&bits_.emplace_back(std::move(both)));
      };
      step.reads = unite(step.reads, reads);
      step.kills = unite(step.kills, kills);
    }
  }
}

Overwritten::Pending Overwritten::all() const {
  Pending found;
  for (const llvm::Function *function : accesses_.points_to().calls().entered())
    found.insert({accesses_.order(function), function});
  return found;
}

void Overwritten::add_callers(const llvm::Function &function, Pending &pending) const {
  const auto &entered = accesses_.points_to().calls().entered();
  for (const llvm::CallBase *site : accesses_.run_by(function))
    if (const llvm::Function *caller = site->getFunction(); entered.contains(caller))
      pending.insert({accesses_.order(caller), caller});
}

std::optional<size_t> Overwritten::runs_of(llvm::ArrayRef<const llvm::Function *> functions) {
  if (functions.empty()) return std::nullopt;
  const auto [found, is_new] = runs_numbers_.try_emplace(functions.vec(), runs_.size());
  if (is_new) {
    for (const llvm::Function *function : functions) runs_with_[function].push_back(found->second);
    runs_.push_back({functions.vec(), {}, {}, Bits(candidates_.size())});
  }
  return found->second;
}

const Overwritten::Runs &Overwritten::known(size_t number) {
  Runs &runs = runs_[number];
  if (runs.is_known) return runs;
  runs.is_known = true;
  runs.kills = kills_.find(runs.functions.front())->second;
  runs.exposed = Bits(candidates_.size());
  for (const llvm::Function *function : runs.functions) {
    runs.kills &= kills_.find(function)->second;
    runs.exposed |= exposed_.find(function)->second;
  }
  return runs;
}

// The function's kills or exposed memory changed.
void Overwritten::forget(const llvm::Function &function) {
  for (const size_t number : runs_with_[&function]) runs_[number].is_known = false;
}

// Sets the bits of what a step certainly overwrites to a value; of a call, that is what all functions overwrite that it
// may call.
void Overwritten::kill(const Step &step, Bits &live, bool value) {
  if (step.kills && value) live |= *step.kills;
  if (step.kills && !value) live.reset(*step.kills);
  if (!step.runs || step.repeats || step.outside) return;
  if (value)
    live |= known(*step.runs).kills;
  else
    live.reset(known(*step.runs).kills);
}

void Overwritten::apply(const Step &step, Bits &live) {
  kill(step, live, false);
  if (step.reads) live |= *step.reads;
  if (step.runs) live |= known(*step.runs).exposed;
}

// Greatest fixpoint: memory that is overwritten on all paths from the entry of a function to its return.
void Overwritten::find_kills() {
  const auto &entered = accesses_.points_to().calls().entered();
  for (const llvm::Function *function : entered) {
    kills_[function] = Bits(candidates_.size(), true);
    exposed_[function] = Bits(candidates_.size());
  }
  Pending pending = all();
  while (!pending.empty()) {  // callees first
    const llvm::Function *function = pending.extract(pending.begin()).value().second;
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
    forget(*function);
    add_callers(*function, pending);
  }
}

Overwritten::Bits Overwritten::live_after(const llvm::BasicBlock &block, const Blocks &live,
                                          const Bits &at_return) const {
  Bits now(candidates_.size());
  if (llvm::isa<llvm::ReturnInst>(block.getTerminator())) now = at_return;
  for (const llvm::BasicBlock *next : llvm::successors(&block)) now |= live.find(next)->second;
  return now;
}

Overwritten::Blocks Overwritten::solve(const llvm::Function &function, const Bits &at_return) {
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
  const Bits none(candidates_.size());
  Pending pending = all();
  while (!pending.empty()) {  // callees first
    const llvm::Function *function = pending.extract(pending.begin()).value().second;
    const Bits found = solve(*function, none)[&function->getEntryBlock()];
    if (found == exposed_[function]) continue;
    exposed_[function] = found;
    forget(*function);
    add_callers(*function, pending);
  }
}

// Memory that may be read after a function has returned, by any of its callers.
void Overwritten::find_live() {
  const auto &entered = accesses_.points_to().calls().entered();
  for (const llvm::Function *function : entered) at_return_[function] = Bits(candidates_.size());
  Pending pending = all();
  while (!pending.empty()) {  // callers first
    const llvm::Function *function = pending.extract(std::prev(pending.end())).value().second;
    const Blocks live = solve(*function, at_return_[function]);
    for (const llvm::BasicBlock &block : *function) {
      Bits now = live_after(block, live, at_return_[function]);
      for (const Step &step : llvm::reverse(steps_[&block])) {
        if (step.runs) {
          Bits after = now;
          if (step.repeats) after |= known(*step.runs).exposed;
          Runs &runs = runs_[*step.runs];
          if (after.test(runs.live)) {
            runs.live |= after;
            for (const llvm::Function *callee : runs.functions) {
              if (!after.test(at_return_[callee])) continue;
              at_return_[callee] |= after;
              pending.insert({accesses_.order(callee), callee});
            }
          }
        }
        apply(step, now);
      }
    }
  }
}

}  // namespace analyze
