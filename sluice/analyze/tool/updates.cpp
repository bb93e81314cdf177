#include "updates.h"

#include <algorithm>

#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/IntrinsicInst.h"
#include "module.h"

namespace analyze {

Updates::Updates(const Accesses &accesses, const Reach &reach, const Classes &classes)
    : points_to_(accesses.points_to()), accesses_(accesses), reach_(reach), classes_(classes) {
  find_writes();
  updates_.resize(classes.persistent().size());
  memory_.resize(classes.persistent().size());
  for (size_t number = 0; number < updates_.size(); ++number)
    if (classes.persistent()[number].top_level()) assign(number);
}

size_t Updates::variables() const {
  return static_cast<size_t>(llvm::count_if(updates_, [](const std::vector<Update> &found) { return !found.empty(); }));
}

void Updates::find_writes() {
  for (const llvm::Function *function : reach_.functions())
    for (const llvm::BasicBlock &block : *function)
      for (const llvm::Instruction &instruction : block) {
        if (!reach_.contains(&instruction)) continue;
        for (const uint32_t footprint : accesses_.of(instruction).writes)
          for (const Atom atom : accesses_.atoms(footprint)) writes_[accesses_.object_of(atom)].insert(&instruction);
      }
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

// Whether a chain of pointers from a variable ends before the object: functions, memory of libraries, and memory that is
// another variable's.
bool Updates::is_opaque(ObjectId id) const {
  const MemoryObject &object = points_to_.memory().object(id);
  return object.kind == ObjectKind::Function || object.kind == ObjectKind::Library || classes_.numbered(object.site);
}

// The objects at which a variable's pointers begin: its own memory, or the target of a variable in registers.
std::vector<ObjectId> Updates::leads_to(const Persistent &persistent) const {
  const Variable &variable = *persistent.variable;
  const llvm::Value *memory = variable.global;
  if (!memory && !variable.local->promoted) memory = variable.local->memory;
  if (memory) {
    const ObjectId *object = points_to_.object_of(memory);
    return object ? std::vector<ObjectId>{*object} : std::vector<ObjectId>{};
  }
  std::vector<ObjectId> found;
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
  std::vector<Update> &updates = updates_[number];
  for (const Use &use : persistent.uses)
    if (use.writes) updates.push_back({use.instruction, use.place.get(), use.function, {}});

  // Breadth first, so that each object is reached by its shortest chain.
  const Memory &memory = points_to_.memory();
  llvm::DenseMap<ObjectId, ObjectId> from;
  std::vector<ObjectId> &order = memory_[number];
  for (const ObjectId object : leads_to(persistent))
    if (from.try_emplace(object, object).second) order.push_back(object);
  for (size_t i = 0; i < order.size(); ++i)
    for (const auto &[offset, cell] : memory.cells(order[i]))
      for (const NodeId target : points_to_.constraints().targets(cell)) {
        const ObjectId next = memory.object_of(target);
        if (is_opaque(next)) continue;
        if (from.try_emplace(next, order[i]).second) order.push_back(next);
      }
  llvm::DenseSet<std::pair<const llvm::Function *, unsigned>> seen;  // one update for each line, by its shortest chain
  for (const ObjectId object : order) {
    const auto writes = writes_.find(object);
    if (writes == writes_.end()) continue;
    std::vector<ObjectId> chain{object};
    while (from[chain.back()] != chain.back()) chain.push_back(from[chain.back()]);
    std::reverse(chain.begin(), chain.end());
    for (const llvm::Instruction *write : writes->second) {
      if (object == order.front() && initialises(number, *write)) continue;
      const llvm::DILocation *place = location_near(*write);
      if (seen.insert({write->getFunction(), place ? place->getLine() : 0}).second)
        updates.push_back({write, place, write->getFunction(), chain});
    }
  }
}

}  // namespace analyze
