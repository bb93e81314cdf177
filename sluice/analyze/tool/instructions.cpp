// Constraints of instructions, other than calls.
#include "pointsto.h"

namespace analyze {

PointsTo::PointsTo(const llvm::Module &module, const Models &models, PointsToOptions options)
    : module_(module),
      layout_(module.getDataLayout()),
      models_(models),
      options_(std::move(options)),
      constraints_(options_.field_sensitive) {}

void PointsTo::run() {
  constraints_.on_escaped_function([this](const llvm::Value *function) {
    call_escaped(*llvm::cast<llvm::Function>(function));
  });
  for (const llvm::GlobalVariable &global : module_.globals()) add_global(global);
  for (const llvm::GlobalVariable &global : module_.globals()) {  // the linker's names of a section: all that lies in it
    llvm::StringRef section = global.getName();
    section.consume_front("\1");  // of a name that the source gives to the assembler
    if (!global.isDeclaration() || !(section.consume_front("__start_") || section.consume_front("__stop_"))) continue;
    for (const llvm::GlobalVariable &part : module_.globals())
      if (part.hasSection() && part.getSection() == section)
        constraints_.address(value(&global), cell_of(&part, ObjectKind::Global, part.getValueType()));
  }
  const llvm::Function *main = module_.getFunction("main");
  for (const llvm::Function &function : module_) {
    if (function.isDeclaration()) continue;
    const bool root = main ? &function == main : !function.hasLocalLinkage();
    if (!root) continue;
    enter(&function);
    for (const llvm::Argument &argument : function.args())  // argv and envp
      if (carries_pointers(argument.getType())) constraints_.address(value(&argument), static_cell("arguments"));
  }
  for (const char *list : {"llvm.global_ctors", "llvm.global_dtors"})
    if (const llvm::GlobalVariable *global = module_.getGlobalVariable(list))
      if (const auto *entries = llvm::dyn_cast<llvm::ConstantArray>(global->getInitializer()))
        for (const llvm::Use &entry : entries->operands())
          if (const auto *function = llvm::dyn_cast<llvm::Function>(
                  llvm::cast<llvm::ConstantStruct>(entry)->getOperand(1)->stripPointerCasts()))
            enter(function);
  do {
    while (!pending_.empty()) {
      const llvm::Function *function = pending_.back();
      pending_.pop_back();
      add_body(*function);
    }
    constraints_.solve();
  } while (!pending_.empty() || revise_entries());
  find_leads();
}

void PointsTo::enter(const llvm::Function *function) {
  if (function->isDeclaration() || calls_.entered().contains(function)) return;
  calls_.enter(function);
  pending_.push_back(function);
}

void PointsTo::add_body(const llvm::Function &function) {
  for (const llvm::BasicBlock &block : function)
    for (const llvm::Instruction &instruction : block) add(instruction);
}

// A load or store of an aggregate is one of each of its members that may be a pointer.
void PointsTo::add_access(const llvm::Value *pointer, const llvm::Value *data, llvm::Type *type, bool is_store) {
  if (!carries_pointers(type)) return;
  const NodeId base = value(pointer);
  const NodeId contents = value(data);
  std::vector<std::pair<llvm::Type *, uint64_t>> parts{{type, 0}};
  while (!parts.empty()) {
    const auto [part, offset] = parts.back();
    parts.pop_back();
    if (!carries_pointers(part)) continue;
    if (auto *record = llvm::dyn_cast<llvm::StructType>(part)) {
      const llvm::StructLayout *fields = layout_.getStructLayout(record);
      for (unsigned i = 0; i < record->getNumElements(); ++i)
        parts.emplace_back(record->getElementType(i), offset + fields->getElementOffset(i).getFixedValue());
      continue;
    }
    if (auto *array = llvm::dyn_cast<llvm::ArrayType>(part)) {
      const uint64_t size = layout_.getTypeAllocSize(array->getElementType()).getFixedValue();
      for (uint64_t i = 0; i < array->getNumElements(); ++i) parts.emplace_back(array->getElementType(), offset + i * size);
      continue;
    }
    // vectors and wide integers hold a pointer in each of their words
    const uint64_t bytes = layout_.getTypeStoreSize(part).getFixedValue();
    for (uint64_t word = 0; word + 8 <= bytes; word += 8) {
      const NodeId address = shifted(base, offset + word);
      if (is_store)
        constraints_.store(address, contents);
      else
        constraints_.load(contents, address);
    }
  }
}

// Whether an address at a variable distance after a pointer is used to fill memory up to an unknown end only, as when an
// array has grown. It says nothing of the elements of the array: no pointer is read or written there.
static bool only_clears(const llvm::GetElementPtrInst &address) {
  if (address.getNumIndices() != 1 || !llvm::isa<llvm::ZExtInst>(address.getOperand(1)) || address.use_empty()) return false;
  return llvm::all_of(address.users(), [&](const llvm::User *user) {
    const auto *fill = llvm::dyn_cast<llvm::MemSetInst>(user);
    return fill && fill->getRawDest() == &address && !llvm::isa<llvm::Constant>(fill->getLength());
  });
}

void PointsTo::add(const llvm::Instruction &instruction) {
  using namespace llvm;
  if (auto *call = dyn_cast<CallBase>(&instruction)) {
    add_call(*call);
  } else if (auto *variable = dyn_cast<AllocaInst>(&instruction)) {
    constraints_.address(value(variable), cell_of(variable, ObjectKind::Stack, variable->getAllocatedType()));
  } else if (auto *load = dyn_cast<LoadInst>(&instruction)) {
    add_access(load->getPointerOperand(), load, load->getType(), false);
  } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
    const Value *data = store->getValueOperand();
    add_access(store->getPointerOperand(), data, data->getType(), true);
  } else if (auto *address = dyn_cast<GetElementPtrInst>(&instruction); address && only_clears(*address)) {
    constraints_.derive(value(address), value(address->getPointerOperand()), {{PointerOp::Walk, 0, 0}});
  } else if (address) {
    constraints_.derive(value(address), value(address->getPointerOperand()), operations_of(*cast<GEPOperator>(address)));
  } else if (auto *phi = dyn_cast<PHINode>(&instruction)) {
    if (!carries_pointers(phi->getType())) return;
    for (const Use &incoming : phi->incoming_values()) constraints_.copy(value(phi), value(incoming));
  } else if (auto *select = dyn_cast<SelectInst>(&instruction)) {
    if (!carries_pointers(select->getType())) return;
    constraints_.copy(value(select), value(select->getTrueValue()));
    constraints_.copy(value(select), value(select->getFalseValue()));
  } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
    const Value *data = exchange->getNewValOperand();
    if (!carries_pointers(data->getType())) return;
    constraints_.store(value(exchange->getPointerOperand()), value(data));
    constraints_.load(value(exchange), value(exchange->getPointerOperand()));
  } else if (auto *update = dyn_cast<AtomicRMWInst>(&instruction)) {
    if (!carries_pointers(update->getType())) return;
    constraints_.store(value(update->getPointerOperand()), value(update->getValOperand()));
    constraints_.load(value(update), value(update->getPointerOperand()));
  } else if (auto *ret = dyn_cast<ReturnInst>(&instruction)) {
    if (ret->getReturnValue() && carries_pointers(ret->getReturnValue()->getType()))
      constraints_.copy(result(*instruction.getFunction()), value(ret->getReturnValue()));
  } else if (auto *argument = dyn_cast<VAArgInst>(&instruction)) {
    constraints_.copy(value(argument), dereference(value(argument->getPointerOperand()), 0));
  } else if (instruction.isCast() || isa<FreezeInst, ExtractValueInst, InsertValueInst, ExtractElementInst,
                                         InsertElementInst, ShuffleVectorInst>(instruction)) {
    if (!carries_pointers(instruction.getType())) return;
    for (const Use &used : instruction.operands())
      if (carries_pointers(used->getType())) constraints_.copy(value(&instruction), value(used));
  } else if (instruction.isBinaryOp()) {
    add_arithmetic(*cast<Operator>(&instruction));
  }
}

// Whether an integer is a pointer that was cast.
static bool is_address(const llvm::Value *value) { return llvm::isa<llvm::PtrToIntOperator>(value); }

// Arithmetic on pointers that were cast to integers. The difference of two pointers is no pointer.
void PointsTo::add_arithmetic(const llvm::Operator &calculation) {
  using namespace llvm;
  if (!calculation.getType()->isIntegerTy() || !carries_pointers(calculation.getType())) return;
  const Value *left = calculation.getOperand(0);
  const Value *right = calculation.getOperand(1);
  const unsigned opcode = calculation.getOpcode();
  if (opcode == Instruction::Sub && is_address(left) && is_address(right)) return;
  const bool adds = opcode == Instruction::Add || opcode == Instruction::Sub;
  const bool masks = opcode == Instruction::And || opcode == Instruction::Or || opcode == Instruction::Xor;
  if (!adds && !masks) return;  // of products, quotients and shifts, programs make hashes, not pointers
  if (adds && isa<ConstantInt>(right)) {
    const int64_t amount = cast<ConstantInt>(right)->getSExtValue();
    constraints_.derive(value(&calculation), value(left),
                        {{PointerOp::Shift, 0, opcode == Instruction::Sub ? -amount : amount}});
    return;
  }
  for (const Value *used : {left, right}) {
    if (isa<ConstantInt>(used) || (opcode == Instruction::Sub && used == right)) continue;
    constraints_.derive(value(&calculation), value(used), {{PointerOp::Anywhere}});
  }
}

}  // namespace analyze
