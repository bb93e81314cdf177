// Persistent variables: globals and static variables, and the local variables and parameters that keep their value
// while a loop receives packets.
#include "classify.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

Classes::Classes(const Accesses &accesses, const Models &models, const Receives &receives, const Reach &reach,
                 const Lifetimes &lifetimes, const Variables &variables, const ClassifyOptions &options)
    : accesses_(accesses),
      points_to_(accesses.points_to()),
      models_(models),
      receives_(receives),
      reach_(reach),
      lifetimes_(lifetimes),
      variables_(variables),
      options_(options) {
  for (const Variable &variable : variables.all()) {
    by_info_[variable.info] = &variable;
    if (!variable.global) continue;
    by_memory_[variable.global] = persistent_.size();
    persist(&variable);
  }
  find_loops();
  find_thread_loops();
  find_uses();
}

Persistent &Classes::persist(const Variable *variable) {
  const auto [found, fresh] = index_.try_emplace(variable->info, persistent_.size());
  if (fresh) persistent_.push_back({variable});
  return persistent_[found->second];
}

void Classes::find_loops() {
  for (const llvm::Function *function : points_to_.calls().entered()) {
    if (!receives_.may_receive(function)) continue;
    for (const Loop &loop : lifetimes_.loops(function)) {
      const bool receives = llvm::any_of(loop.blocks, [&](const llvm::BasicBlock *block) {
        return llvm::any_of(*block, [&](const llvm::Instruction &instruction) {
          const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
          return site && receives_.may_receive(site);
        });
      });
      if (receives) add_loop(loop);
    }
  }
  // A library's loop calls callbacks; the loop persists over the variables that the callbacks have pointers to.
  for (const ReceiveCall &call : receives_.calls())
    if (call.model->callback.kind != Operand::None) add_library_loop(*call.site);
  for (const llvm::CallBase *site : receives_.dispatch_sites())
    if (receives_.may_receive(site)) add_library_loop(*site);
}

void Classes::add_loop(const Loop &loop) {
  if (llvm::is_contained(loops_, &loop)) return;
  loops_.push_back(&loop);
  const std::vector<Local> &locals = lifetimes_.locals(loop.function);
  const auto add = [&](const Local &local) -> Persistent * {
    const auto variable = by_info_.find(local.info);
    if (variable == by_info_.end()) return nullptr;
    Persistent &found = persist(variable->second);
    if (!local.promoted) by_memory_[local.memory] = index_[local.info];
    if (!found.loop) found.loop = &loop;
    return &found;
  };
  if (options_.all_locals)
    for (const Local &local : locals) add(local);
  for (const LoopLocal &survivor : loop.survivors) {
    const Local &local = locals[survivor.local];
    if (!survivor.read && !survivor.written && !local.address_taken) continue;  // used after the loop only
    Persistent *found = add(local);
    if (!found) continue;
    for (const auto &[place, writes] : survivor.places)
      add_use(index_[local.info], {nullptr, place, loop.function, writes});
  }
}

void Classes::add_library_loop(const llvm::CallBase &site) {
  for (const Local &local : lifetimes_.locals(site.getFunction())) {
    if (!local.address_taken && !options_.all_locals) continue;
    const auto variable = by_info_.find(local.info);
    if (variable == by_info_.end()) continue;
    Persistent &found = persist(variable->second);
    if (!local.promoted) by_memory_[local.memory] = index_[local.info];
    if (!found.loop && !found.library_loop) found.library_loop = &site;
  }
}

}  // namespace analyze
