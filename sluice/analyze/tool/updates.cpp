#include "updates.h"

#include <algorithm>

#include "llvm/ADT/Sequence.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/IntrinsicInst.h"
#include "module.h"

namespace analyze {

std::vector<Update> by_line(llvm::ArrayRef<const llvm::Instruction *> writes) {
  llvm::DenseSet<std::pair<const llvm::Function *, unsigned>> seen;
  std::vector<Update> found;
  for (const llvm::Instruction *write : writes) {
    const llvm::DILocation *place = location_near(*write);
    if (seen.insert({write->getFunction(), place ? place->getLine() : 0}).second)
      found.push_back({write, place, write->getFunction()});
  }
  return found;
}

Updates::Updates(const Accesses &accesses, const Reach &reach, const Classes &classes)
    : points_to_(accesses.points_to()), accesses_(accesses), reach_(reach), classes_(classes) {
  find_writes();
  find_opaque();
  own_.resize(classes.persistent().size());
  reached_.resize(classes.persistent().size());
  memory_.resize(classes.persistent().size());
  for (size_t number = 0; number < own_.size(); ++number)
    if (classes.persistent()[number].top_level()) assign(number);
}

size_t Updates::variables() const {
  return static_cast<size_t>(llvm::count_if(llvm::seq(own_.size()), [&](size_t number) { return has(number); }));
}

void Updates::find_writes() {
  for (const llvm::Function *function : reach_.functions())
    for (const llvm::BasicBlock &block : *function)
      for (const llvm::Instruction &instruction : block) {
        if (!reach_.contains(&instruction)) continue;
        for (const uint32_t footprint : accesses_.of(instruction).writes) {
          if (footprint >= writers_.size()) writers_.resize(footprint + 1);
          writers_[footprint].push_back(&instruction);
          order_.try_emplace(&instruction, order_.size());
        }
      }
  for (uint32_t footprint = 0; footprint < writers_.size(); ++footprint) {
    if (writers_[footprint].empty()) continue;
    for (const Atom atom : accesses_.atoms(footprint)) {
      std::vector<uint32_t> &found = writers_of_[accesses_.object_of(atom)];
      if (found.empty() || found.back() != footprint) found.push_back(footprint);
    }
  }
}

std::vector<const llvm::Instruction *> Updates::writes(ObjectId object) const {
  std::vector<const llvm::Instruction *> found;
  for (const uint32_t group : writers_of(object)) found.insert(found.end(), writers_[group].begin(), writers_[group].end());
  const auto place = [&](const llvm::Instruction *instruction) { return order_.find(instruction)->second; };
  llvm::sort(found, [&](const auto *a, const auto *b) { return place(a) < place(b); });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool Updates::initialises(size_t number, const llvm::Instruction &write) const {
  const Persistent &persistent = classes_.persistent()[number];
  const Variable &variable = *persistent.variable;
  if (variable.global || variable.local->promoted || persistent.library_loop) return false;
  if (write.getFunction() != variable.function) return false;
  if (llvm::isa<llvm::CallBase>(write) && !llvm::isa<llvm::IntrinsicInst>(write)) return false;
  llvm::SmallPtrSet<const llvm::BasicBlock *, 32> seen;  // blocks from which a loop reaches the write
  std::vector<const llvm::BasicBlock *> pending{write.getParent()};
  while (!pending.empty()) {
    const llvm::BasicBlock *block = pending.back();
    pending.pop_back();
    if (!seen.insert(block).second) continue;
    for (const Loop *loop : classes_.loops())
      if (loop->function == variable.function && loop->blocks.contains(block)) return false;
    pending.insert(pending.end(), llvm::pred_begin(block), llvm::pred_end(block));
  }
  return true;
}

// Chains of pointers from a variable end before functions, memory of libraries, and memory that is another variable's.
void Updates::find_opaque() {
  const Memory &memory = points_to_.memory();
  opaque_.resize(memory.objects());
  for (ObjectId id = 0; id < memory.objects(); ++id) {
    const MemoryObject &object = memory.object(id);
    opaque_[id] = object.kind == ObjectKind::Function || object.kind == ObjectKind::Library || classes_.numbered(object.site);
  }
}

std::optional<ObjectId> Updates::memory(size_t number) const {
  const Variable &variable = *classes_.persistent()[number].variable;
  const llvm::Value *memory = variable.global;
  if (!memory && !variable.local->promoted) memory = variable.local->memory;
  const ObjectId *object = memory ? points_to_.object_of(memory) : nullptr;
  return object ? std::optional(*object) : std::nullopt;
}

// The targets of a variable in registers that have no name.
std::vector<ObjectId> Updates::targets(const Persistent &persistent) const {
  std::vector<ObjectId> found;
  const Variable &variable = *persistent.variable;
  if (variable.global || !variable.local->promoted) return found;
  for (const llvm::BasicBlock &block : *variable.function)
    for (const llvm::Instruction &instruction : block)
      for (llvm::DbgVariableRecord &record : llvm::filterDbgVars(instruction.getDbgRecordRange())) {
        if (record.getVariable() != variable.info) continue;
        for (const llvm::Value *value : record.location_ops())
          for (const NodeId cell : points_to_.targets(value)) {
            const ObjectId object = points_to_.memory().object_of(cell);
            if (!is_opaque(object)) found.push_back(object);
          }
      }
  return found;
}

void Updates::assign(size_t number) {
  const Persistent &persistent = classes_.persistent()[number];
  for (const Use &use : persistent.uses)
    if (use.writes) own_[number].push_back({use.instruction, use.place.get(), use.function});

  // Breadth first, so that each object is reached by its shortest chain.
  const std::optional<ObjectId> own = memory(number);
  llvm::DenseMap<ObjectId, ObjectId> from;
  std::vector<ObjectId> &order = memory_[number];
  for (const ObjectId object : own ? std::vector<ObjectId>{*own} : targets(persistent))
    if (from.try_emplace(object, object).second) order.push_back(object);
  llvm::DenseSet<uint32_t> lists;
  for (size_t i = 0; i < order.size(); ++i) {
    if (!lists.insert(points_to_.list_of_leads(order[i])).second) continue;
    for (const ObjectId next : points_to_.leads_to(order[i]))
      if (!is_opaque(next) && from.try_emplace(next, order[i]).second) order.push_back(next);
  }

  llvm::DenseSet<ObjectId> needed;  // for the chains
  for (const ObjectId object : order) {
    if (!may_write(object)) continue;
    if (object != own) {
      for (ObjectId at = object; needed.insert(at).second && from[at] != at;) at = from[at];
      continue;
    }
    std::vector<const llvm::Instruction *> changes = writes(object);
    llvm::erase_if(changes, [&](const llvm::Instruction *write) { return initialises(number, *write); });
    const std::vector<Update> updates = by_line(changes);
    own_[number].insert(own_[number].end(), updates.begin(), updates.end());
  }
  for (const ObjectId object : order)
    if (needed.contains(object)) reached_[number].push_back({object, from[object]});
}

}  // namespace analyze
