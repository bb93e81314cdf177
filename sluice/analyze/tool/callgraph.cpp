#include "callgraph.h"

#include <algorithm>

namespace analyze {

bool CallGraph::add(const llvm::CallBase *site, const llvm::Function *callee) {
  if (!edges_.insert({site, callee}).second) return false;
  callees_[site].push_back(callee);
  callers_[callee].push_back(site);
  return true;
}

bool CallGraph::add_spawn(const Spawn &spawn) {
  const bool known = std::any_of(spawns_.begin(), spawns_.end(), [&](const Spawn &other) {
    return other.site == spawn.site && other.function == spawn.function && other.role == spawn.role;
  });
  if (known) return false;
  spawns_.push_back(spawn);
  if (spawn.role == CallRole::Callback) {
    callbacks_[spawn.site].push_back(spawn.function);
    callers_[spawn.function].push_back(spawn.site);
  }
  return true;
}

template <typename Map>
static auto list(const Map &map, typename Map::key_type key) -> llvm::ArrayRef<typename Map::mapped_type::value_type> {
  const auto found = map.find(key);
  if (found == map.end()) return {};
  return found->second;
}

llvm::ArrayRef<const llvm::Function *> CallGraph::callees(const llvm::CallBase *site) const {
  return list(callees_, site);
}

llvm::ArrayRef<const llvm::Function *> CallGraph::callbacks(const llvm::CallBase *site) const {
  return list(callbacks_, site);
}

llvm::ArrayRef<const llvm::CallBase *> CallGraph::callers(const llvm::Function *function) const {
  return list(callers_, function);
}

}  // namespace analyze
