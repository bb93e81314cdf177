// Constraints of calls: of functions of the program, of external ones by their models, of unknown ones.
#include "assembly.h"
#include "bounds.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicInst.h"
#include "pointsto.h"

namespace analyze {

NodeId PointsTo::result(const llvm::Function &function) {
  const auto found = results_.find(&function);
  if (found != results_.end()) return found->second;
  const NodeId node = constraints_.node();
  results_[&function] = node;
  return node;
}

NodeId PointsTo::varargs(const llvm::Function &function) {
  const auto found = varargs_.find(&function);
  if (found != varargs_.end()) return found->second;
  Memory &memory = constraints_.memory();
  const ObjectId object = memory.add(ObjectKind::Varargs, &function, nullptr, layout_);
  memory.collapse(object);
  const NodeId cell = *memory.cell(object, 0);
  varargs_[&function] = cell;
  return cell;
}

NodeId PointsTo::heap(const llvm::CallBase &call) { return cell_of(&call, ObjectKind::Heap, nullptr); }

void PointsTo::add_call(const llvm::CallBase &call) {
  const llvm::Value *callee = call.getCalledOperand()->stripPointerCastsAndAliases();
  if (llvm::isa<llvm::InlineAsm>(callee)) {
    if (const std::optional<Assembly> known = read_assembly(call)) {
      add_assembly(call, *known);
      return;
    }
    assumptions_.inline_assembly.push_back(&call);
    if (!options_.assume_harmless.count("assembly")) call_unknown(call);
  } else if (const auto *function = llvm::dyn_cast<llvm::Function>(callee)) {
    connect(call, *function);
  } else if (const std::optional<Entry> entry = entry_of(call)) {
    call_entries(call, *entry);
  } else {
    call_targets(call, value(callee));
  }
}

void PointsTo::call_targets(const llvm::CallBase &call, NodeId function) {
  constraints_.call(function, [this, &call](const llvm::Value *target) {
    connect(call, *llvm::cast<llvm::Function>(target));
  });
}

// Assembly that accesses no memory but that of its operands: each value may get into each of them, and into the results.
void PointsTo::add_assembly(const llvm::CallBase &call, const Assembly &assembly) {
  const NodeId values = constraints_.node();
  for (const unsigned argument : assembly.values)
    if (carries_pointers(call.getArgOperand(argument)->getType()))
      constraints_.copy(values, value(call.getArgOperand(argument)));
  NodeId results = values;
  if (assembly.calculates) {
    results = constraints_.node();
    constraints_.derive(results, values, {{PointerOp::Anywhere}});
    constraints_.copy(results, values);
  }
  for (const Assembly::Address &address : assembly.addresses) {
    const NodeId pointer = value(call.getArgOperand(address.argument));
    for (uint64_t word = 0; word == 0 || word + 8 <= address.bytes; word += 8) {
      const NodeId place = shifted(pointer, address.distance + word);
      constraints_.load(values, place);
      constraints_.store(place, results);
    }
  }
  if (carries_pointers(call.getType())) constraints_.copy(value(&call), results);
}

void PointsTo::connect(const llvm::CallBase &call, const llvm::Function &callee) {
  if (callee.isIntrinsic() && add_intrinsic(call, callee)) return;
  if (!calls_.add(&call, &callee) && !by_entries_.erase({&call, &callee})) return;
  if (callee.isDeclaration()) {
    call_external(call, callee);
    return;
  }
  std::vector<const llvm::Value *> arguments(call.arg_begin(), call.arg_end());
  pass(call, callee, arguments);
}

// arguments: those of the call, or others that it may have
void PointsTo::pass(const llvm::CallBase &call, const llvm::Function &callee,
                    llvm::ArrayRef<const llvm::Value *> arguments) {
  enter(&callee);
  for (unsigned i = 0; i < arguments.size(); ++i) {
    const llvm::Value *argument = arguments[i];
    if (!carries_pointers(argument->getType())) continue;
    if (i < callee.arg_size())
      if (const llvm::Type *passed = callee.getParamByValType(i)) {  // the callee has a copy of the structure
        const llvm::Argument *parameter = callee.getArg(i);
        constraints_.address(value(parameter),
                             cell_of(parameter, ObjectKind::Stack, const_cast<llvm::Type *>(passed)));
        constraints_.move(value(parameter), value(argument), Constraints::kAllBytes);
      } else {
        constraints_.copy(value(callee.getArg(i)), value(argument));
      }
    else
      constraints_.copy(varargs(callee), value(argument));
  }
  if (carries_pointers(call.getType()) && carries_pointers(callee.getReturnType()))
    constraints_.copy(value(&call), result(callee));
}

void PointsTo::call_external(const llvm::CallBase &call, const llvm::Function &callee) {
  const ExternalModel *model = models_.external(callee.getName());
  if (!model) {
    assumptions_.unknown_functions[callee.getName().str()].push_back(&call);
    if (!options_.assume_harmless.count(callee.getName().str()) && !options_.assume_harmless.count("externals"))
      call_unknown(call);
    return;
  }
  apply(call, callee, *model);
}

void PointsTo::call_unknown(const llvm::CallBase &call) {
  for (const llvm::Use &argument : call.args())
    if (carries_pointers(argument->getType())) constraints_.escape(value(argument));
  if (carries_pointers(call.getType())) constraints_.copy(value(&call), constraints_.unknown());
}

// Unknown code may call a function whose address it has, with anything that it has.
void PointsTo::call_escaped(const llvm::Function &function) {
  if (function.isDeclaration()) return;
  enter(&function);
  for (const llvm::Argument &argument : function.args())
    if (carries_pointers(argument.getType())) constraints_.copy(value(&argument), constraints_.unknown());
  if (carries_pointers(function.getReturnType())) constraints_.escape(result(function));
}

// Returns whether the call is dealt with.
bool PointsTo::add_intrinsic(const llvm::CallBase &call, const llvm::Function &callee) {
  using namespace llvm;
  if (const auto *transfer = dyn_cast<MemTransferInst>(&call)) {
    constraints_.move(value(transfer->getRawDest()), value(transfer->getRawSource()), most_bytes(transfer->getLength()));
    return true;
  }
  switch (callee.getIntrinsicID()) {
    case Intrinsic::vastart: {  // both areas that a va_list of x86-64 points to
      const NodeId list = value(call.getArgOperand(0));
      const NodeId address = constraints_.node();
      constraints_.address(address, varargs(*call.getFunction()));
      for (const int64_t offset : {0, 8, 16}) {
        const NodeId field = constraints_.node();
        constraints_.derive(field, list, {{PointerOp::Shift, 0, offset}});
        constraints_.store(field, address);
      }
      return true;
    }
    case Intrinsic::vacopy:
      constraints_.move(value(call.getArgOperand(0)), value(call.getArgOperand(1)), Constraints::kAllBytes);
      return true;
    default:
      // the others return one of their pointers at most (llvm.ptrmask, llvm.expect, llvm.launder...)
      if (carries_pointers(call.getType()))
        for (const Use &argument : call.args())
          if (carries_pointers(argument->getType())) constraints_.copy(value(&call), value(argument));
      return true;
  }
}

NodeId PointsTo::operand(const llvm::CallBase &call, const llvm::Function &callee, const Operand &operand) {
  const auto address_of = [this](NodeId cell) {
    const NodeId node = constraints_.node();
    constraints_.address(node, cell);
    return node;
  };
  switch (operand.kind) {
    case Operand::Argument:
      if (operand.index >= call.arg_size()) break;
      return shifted(value(call.getArgOperand(operand.index)), operand.offset);
    case Operand::Pointee:
      if (operand.index < call.arg_size())
        return dereference(value(call.getArgOperand(operand.index)), operand.offset);
      break;
    case Operand::Return: return value(&call);
    case Operand::New: return address_of(heap(call));
    case Operand::Static: return address_of(static_cell(operand.name.empty() ? callee.getName() : operand.name));
    case Operand::StaticContents: return dereference(address_of(static_cell(operand.name)), 0);
    case Operand::Unknown: return constraints_.unknown();
    case Operand::None: break;
  }
  return constraints_.node();
}

void PointsTo::apply(const llvm::CallBase &call, const llvm::Function &callee, const ExternalModel &model) {
  if (carries_pointers(call.getType()))
    for (const Operand &returned : model.returns) constraints_.copy(value(&call), operand(call, callee, returned));
  for (const StoreModel &store : model.stores)
    constraints_.store(operand(call, callee, store.to), operand(call, callee, store.value));
  for (const MoveModel &move : model.moves) {
    uint64_t bytes = Constraints::kAllBytes;
    if (move.bytes.kind == Operand::Argument && move.bytes.index < call.arg_size())
      bytes = most_bytes(call.getArgOperand(move.bytes.index));
    constraints_.move(operand(call, callee, move.to), operand(call, callee, move.from), bytes);
  }
  for (const CallModel &started : model.calls) spawn(call, callee, started);
  if (!model.unknown_code) return;
  assumptions_.unknown_code.push_back(&call);
  if (options_.assume_harmless.count("dlopen")) return;
  for (const llvm::Function &function : module_)  // a plug-in links with the program's exports
    if (!function.isDeclaration() && !function.hasLocalLinkage()) constraints_.escape(value(&function));
  for (const llvm::GlobalVariable &global : module_.globals())
    if (!global.hasLocalLinkage()) constraints_.escape(value(&global));
}

void PointsTo::spawn(const llvm::CallBase &call, const llvm::Function &callee, const CallModel &model) {
  std::vector<NodeId> arguments;
  for (const Operand &argument : model.arguments) arguments.push_back(operand(call, callee, argument));
  const CallRole role = model.role;
  constraints_.call(operand(call, callee, model.function), [this, &call, arguments, role](const llvm::Value *target) {
    const auto *function = llvm::cast<llvm::Function>(target);
    if (function->isDeclaration() || !calls_.add_spawn({&call, function, role})) return;
    enter(function);
    for (unsigned i = 0; i < arguments.size() && i < function->arg_size(); ++i)
      if (carries_pointers(function->getArg(i)->getType()))
        constraints_.copy(value(function->getArg(i)), arguments[i]);
    if (role == CallRole::Callback && carries_pointers(function->getReturnType()) && carries_pointers(call.getType()))
      constraints_.copy(value(&call), result(*function));
  });
}

}  // namespace analyze
