#include "updates.h"

#include <algorithm>

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicInst.h"
#include "module.h"

namespace analyze {

Updates::Updates(const PointsTo &points_to, const Models &models, const Reach &reach, const Classes &classes)
    : points_to_(points_to), models_(models), reach_(reach), classes_(classes) {
  find_writes();
  updates_.resize(classes.persistent().size());
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
        if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
          add_write(store->getPointerOperand(), instruction);
        else if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(instruction))
          add_write(instruction.getOperand(0), instruction);
        else if (const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction))
          add_call(*call);
      }
}

void Updates::add_write(const llvm::Value *pointer, const llvm::Instruction &by) {
  // by name; constants that only numbers are stored to have no node
  const llvm::Value *base = pointer->stripInBoundsConstantOffsets();
  if (const ObjectId *object = llvm::isa<llvm::GlobalVariable>(base) ? points_to_.object_of(base) : nullptr) {
    writes_[*object].insert(&by);
    return;
  }
  for (const NodeId cell : points_to_.targets(pointer)) writes_[points_to_.memory().object_of(cell)].insert(&by);
}

// Whether a function's prototype says that it does not write what the argument points to.
static bool is_const(const llvm::Function &function, unsigned index) {
  const llvm::DISubprogram *info = function.getSubprogram();
  const llvm::DITypeRefArray types = info && info->getType() ? info->getType()->getTypeArray() : nullptr;
  if (!types || index + 1 >= types.size()) return true;  // a variable argument; or nothing is known, and a model is needed
  const llvm::DIType *type = types[index + 1];
  while (const auto *derived = llvm::dyn_cast_or_null<llvm::DIDerivedType>(type)) {
    if (derived->getTag() == llvm::dwarf::DW_TAG_pointer_type) {
      const llvm::DIType *pointee = derived->getBaseType();
      while (const auto *name = llvm::dyn_cast_or_null<llvm::DIDerivedType>(pointee)) {
        if (name->getTag() != llvm::dwarf::DW_TAG_typedef) break;
        pointee = name->getBaseType();
      }
      return pointee && pointee->getTag() == llvm::dwarf::DW_TAG_const_type;
    }
    type = derived->getBaseType();
  }
  return false;  // an integer or a union may carry the pointer
}

void Updates::add_call(const llvm::CallBase &call) {
  if (const auto *memory = llvm::dyn_cast<llvm::MemIntrinsic>(&call)) {
    add_write(memory->getRawDest(), call);
    return;
  }
  if (const auto *assembly = llvm::dyn_cast<llvm::InlineAsm>(call.getCalledOperand())) {
    if (!assembly->getAsmString().empty()) add_unknown(call);
    return;
  }
  for (const llvm::Function *callee : points_to_.calls().callees(&call)) {
    if (!callee->isDeclaration() || callee->isIntrinsic()) continue;
    const ExternalModel *model = models_.external(callee->getName());
    if (!model) {
      add_unknown(call);
      continue;
    }
    for (unsigned i = 0; i < call.arg_size(); ++i) {
      if (!call.getArgOperand(i)->getType()->isPointerTy()) continue;
      const bool variable = i >= callee->arg_size();
      const bool listed = model->writes && llvm::any_of(*model->writes, [&](const Operand &operand) {
                            return operand.kind == Operand::Argument && operand.index == i;
                          });
      if (variable ? model->writes_varargs : (model->writes ? listed : !is_const(*callee, i)))
        add_write(call.getArgOperand(i), call);
    }
  }
}

// Unknown code writes everything that it can reach.
void Updates::add_unknown(const llvm::CallBase &call) {
  for (const llvm::Use &argument : call.args()) add_write(argument.get(), call);
  for (ObjectId object = 0; object < points_to_.memory().objects(); ++object)
    if (points_to_.constraints().escaped(object)) writes_[object].insert(&call);
}

// Whether a chain of pointers from a variable ends before the object: functions, memory of libraries, and memory that is
// another variable's.
bool Updates::is_opaque(ObjectId id) const {
  const MemoryObject &object = points_to_.memory().object(id);
  return object.kind == ObjectKind::Function || object.kind == ObjectKind::Library || classes_.numbered(object.site);
}

// The objects at which a variable's pointers begin: its own memory, or what a variable in registers points to.
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
  std::vector<ObjectId> order;
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
      const llvm::DILocation *place = location_near(*write);
      if (seen.insert({write->getFunction(), place ? place->getLine() : 0}).second)
        updates.push_back({write, place, write->getFunction(), chain});
    }
  }
}

}  // namespace analyze
