// Nodes of values: registers, constants, globals with their initialisers.
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "pointsto.h"

namespace analyze {

// Integers of a pointer's width may be pointers that were cast; smaller ones cannot.
bool PointsTo::carries_pointers(const llvm::Type *type) const {
  if (type->isPointerTy()) return true;
  if (auto *integer = llvm::dyn_cast<llvm::IntegerType>(type)) return integer->getBitWidth() >= 64;
  if (auto *vector = llvm::dyn_cast<llvm::VectorType>(type)) return carries_pointers(vector->getElementType());
  if (auto *array = llvm::dyn_cast<llvm::ArrayType>(type)) return carries_pointers(array->getElementType());
  if (auto *record = llvm::dyn_cast<llvm::StructType>(type)) {
    for (const llvm::Type *element : record->elements())
      if (carries_pointers(element)) return true;
  }
  return false;
}

NodeId PointsTo::value(const llvm::Value *value) {
  const auto found = values_.find(value);
  if (found != values_.end()) return found->second;
  const NodeId node = constraints_.node();
  values_[value] = node;
  if (auto *constant = llvm::dyn_cast<llvm::Constant>(value)) add_constant(node, constant);
  return node;
}

// The first cell of the object of a global, function, alloca or call.
NodeId PointsTo::cell_of(const llvm::Value *site, ObjectKind kind, llvm::Type *type) {
  const auto found = cells_.find(site);
  if (found != cells_.end()) return found->second;
  const ObjectId object = constraints_.memory().add(kind, site, type, layout_);
  const NodeId cell = *constraints_.memory().cell(object, 0);
  const auto *global = llvm::dyn_cast<llvm::GlobalVariable>(site);
  if (global && global->isConstant()) constraints_.memory().set_constant(object);
  cells_[site] = cell;
  objects_[site] = object;
  return cell;
}

// Memory of the library by name. Its contents may point to itself, as the library's structures do.
NodeId PointsTo::static_cell(llvm::StringRef name) {
  const auto found = statics_.find(name);
  if (found != statics_.end()) return found->second;
  Memory &memory = constraints_.memory();
  const ObjectId object = memory.add(ObjectKind::Library, nullptr, nullptr, layout_);
  memory.collapse(object);
  const NodeId cell = *memory.cell(object, 0);
  statics_[name] = cell;
  library_names_[object] = name.str();
  constraints_.address(cell, cell);
  return cell;
}

NodeId PointsTo::shifted(NodeId pointer, uint64_t bytes) {
  if (bytes == 0) return pointer;
  const NodeId address = constraints_.node();
  constraints_.derive(address, pointer, {{PointerOp::Shift, 0, static_cast<int64_t>(bytes)}});
  return address;
}

NodeId PointsTo::dereference(NodeId pointer, uint64_t offset) {
  const NodeId contents = constraints_.node();
  constraints_.load(contents, shifted(pointer, offset));
  return contents;
}

void PointsTo::add_constant(NodeId node, const llvm::Constant *constant) {
  if (auto *function = llvm::dyn_cast<llvm::Function>(constant)) {
    constraints_.address(node, cell_of(function, ObjectKind::Function, nullptr));
  } else if (auto *alias = llvm::dyn_cast<llvm::GlobalAlias>(constant)) {
    constraints_.copy(node, value(alias->getAliasee()));
  } else if (auto *global = llvm::dyn_cast<llvm::GlobalVariable>(constant)) {
    constraints_.address(node, cell_of(global, ObjectKind::Global, global->getValueType()));
  } else if (auto *address = llvm::dyn_cast<llvm::GEPOperator>(constant)) {
    constraints_.derive(node, value(address->getPointerOperand()), operations_of(*address));
  } else if (auto *expression = llvm::dyn_cast<llvm::ConstantExpr>(constant)) {
    if (llvm::Instruction::isBinaryOp(expression->getOpcode())) return add_arithmetic(*llvm::cast<llvm::Operator>(expression));
    for (const llvm::Use &used : expression->operands())
      if (carries_pointers(used->getType())) constraints_.copy(node, value(used));
  } else if (auto *aggregate = llvm::dyn_cast<llvm::ConstantAggregate>(constant)) {
    for (const llvm::Use &used : aggregate->operands())
      if (carries_pointers(used->getType())) constraints_.copy(node, value(used));
  }
}

void PointsTo::add_global(const llvm::GlobalVariable &global) {
  const NodeId cell = cell_of(&global, ObjectKind::Global, global.getValueType());
  if (global.hasInitializer())
    initialise(cell, global.getInitializer(), 0);
  else  // a variable of a library, such as stdout or environ
    constraints_.address(cell, static_cell(global.getName()));
}

void PointsTo::initialise(NodeId cell, const llvm::Constant *constant, uint64_t offset) {
  llvm::Type *type = constant->getType();
  if (constant->isNullValue() || !carries_pointers(type) || llvm::isa<llvm::UndefValue>(constant)) return;
  if (auto *record = llvm::dyn_cast<llvm::ConstantStruct>(constant)) {
    const llvm::StructLayout *fields = layout_.getStructLayout(record->getType());
    for (unsigned i = 0; i < record->getNumOperands(); ++i)
      initialise(cell, record->getOperand(i), offset + fields->getElementOffset(i).getFixedValue());
  } else if (auto *array = llvm::dyn_cast<llvm::ConstantArray>(constant)) {
    const uint64_t size = layout_.getTypeAllocSize(array->getType()->getElementType()).getFixedValue();
    for (unsigned i = 0; i < array->getNumOperands(); ++i) initialise(cell, array->getOperand(i), offset + i * size);
  } else if (!llvm::isa<llvm::ConstantData>(constant)) {
    Memory &memory = constraints_.memory();
    if (const auto place = memory.cell(memory.object_of(cell), static_cast<int64_t>(offset)))
      constraints_.copy(*place, value(constant));
  }
}

// Whether an address is the pointer of a loop after one step: it walks through an array.
static bool advances(const llvm::GEPOperator &address) {
  const auto among = [&address](const llvm::PHINode *phi) { return llvm::is_contained(phi->incoming_values(), &address); };
  const auto *phi = llvm::dyn_cast<llvm::PHINode>(address.getPointerOperand());
  return phi && (among(phi) || llvm::any_of(phi->incoming_values(), [&](const llvm::Value *value) {
                   const auto *joined = llvm::dyn_cast<llvm::PHINode>(value);
                   return joined && among(joined);
                 }));
}

// Whether a value is the address of an array or of its element, and not of a structure that begins with an array.
static bool enters_array(const llvm::Value *value) {
  const auto *address = llvm::dyn_cast<llvm::GEPOperator>(value);
  if (!address || !(address->getSourceElementType()->isArrayTy() || address->getResultElementType()->isArrayTy()))
    return false;
  const llvm::Type *type = address->getResultElementType();
  while (type->isArrayTy()) type = type->getArrayElementType();
  return !type->isStructTy();
}

// Whether the pointer of a loop of which an address is a step begins in an array on each path into the loop. Otherwise,
// a pointer to bytes may walk through a whole object.
static bool starts_in_array(const llvm::GEPOperator &address) {
  llvm::SmallSetVector<const llvm::PHINode *, 4> joined;
  joined.insert(llvm::cast<llvm::PHINode>(address.getPointerOperand()));
  for (size_t i = 0; i < joined.size(); ++i)
    for (const llvm::Value *value : joined[i]->incoming_values()) {
      if (const auto *step = llvm::dyn_cast<llvm::GetElementPtrInst>(value); step && step->getNumIndices() == 1)
        if (llvm::isa<llvm::PHINode>(step->getPointerOperand())) value = step->getPointerOperand();
      if (const auto *phi = llvm::dyn_cast<llvm::PHINode>(value))
        joined.insert(phi);
      else if (!enters_array(value))
        return false;
    }
  return true;
}

// Whether a pointer is to a variable that is a structure: a byte at an unknown distance may be one of any member.
static bool is_structure(const llvm::Value *pointer) {
  const auto *global = llvm::dyn_cast<llvm::GlobalVariable>(pointer);
  const auto *local = llvm::dyn_cast<llvm::AllocaInst>(pointer);
  const llvm::Type *type = global ? global->getValueType() : local ? local->getAllocatedType() : nullptr;
  return type && type->isStructTy();
}

std::vector<PointerOp> PointsTo::operations_of(const llvm::GEPOperator &address) const {
  std::vector<PointerOp> operations;
  int64_t pending = 0;  // bytes of struct fields
  const auto flush = [&] {
    if (pending != 0) operations.push_back({PointerOp::Shift, 0, pending});
    pending = 0;
  };
  bool first = true;
  const llvm::Type *outer = nullptr;  // the type that the index selects from; nothing for the first index
  for (auto it = llvm::gep_type_begin(address), end = llvm::gep_type_end(address); it != end;
       outer = it.getIndexedType(), ++it, first = false) {
    const llvm::Value *index = it.getOperand();
    const auto *constant = llvm::dyn_cast<llvm::ConstantInt>(index);
    if (const llvm::StructType *record = it.getStructTypeOrNull()) {
      const auto field = static_cast<unsigned>(llvm::cast<llvm::ConstantInt>(index)->getZExtValue());
      const llvm::StructLayout *fields = layout_.getStructLayout(const_cast<llvm::StructType *>(record));
      pending += static_cast<int64_t>(fields->getElementOffset(field).getFixedValue());
      continue;
    }
    const uint64_t stride = it.getSequentialElementStride(layout_).getFixedValue();
    if (first) {
      if (constant && constant->isZero()) continue;
      flush();
      if (constant && advances(address) && (stride > 1 || starts_in_array(address)))
        operations.push_back({PointerOp::Walk, stride * static_cast<uint64_t>(std::abs(constant->getSExtValue())), 0});
      else if (constant)
        operations.push_back({PointerOp::Step, stride, constant->getSExtValue()});
      else if (stride == 1 && is_structure(address.getPointerOperand()))
        operations.push_back({PointerOp::Anywhere});
      else
        operations.push_back({PointerOp::Walk, stride, 0});
      continue;
    }
    flush();
    const auto *array = llvm::dyn_cast_or_null<llvm::ArrayType>(outer);
    uint64_t count = array ? array->getNumElements() : 0;
    if (count == 1 && !(constant && constant->isZero())) count = 0;  // an array of one element that ends a structure
    operations.push_back({PointerOp::Index, stride, static_cast<int64_t>(count)});
  }
  flush();
  return operations;
}

llvm::ArrayRef<NodeId> PointsTo::targets(const llvm::Value *value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? llvm::ArrayRef<NodeId>() : constraints_.targets(found->second);
}

const ObjectId *PointsTo::object_of(const llvm::Value *site) const {
  const auto found = objects_.find(site);
  return found == objects_.end() ? nullptr : &found->second;
}

}  // namespace analyze
