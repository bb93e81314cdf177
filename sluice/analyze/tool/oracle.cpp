#include "oracle.h"

#include "module.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

namespace {

// Calls by function and number: promotion removes other instructions, and no calls of functions.
using CallKey = std::pair<std::string, unsigned>;

template <typename Function, typename Action>
void each_call(Function &function, Action action) {
  unsigned number = 0;
  for (auto &instruction : llvm::instructions(function))
    if (auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction); call && !llvm::isa<llvm::IntrinsicInst>(call))
      action(*call, CallKey{function.getName().str(), number++});
}

class Instrumenter {
 public:
  Instrumenter(llvm::Module &module, const OracleOptions &options)
      : module_(module), options_(options), context_(module.getContext()), builder_(context_) {}

  void add_globals(const Classes &classes, const Updates &updates) {
    std::vector<llvm::Constant *> rows;
    auto *row = llvm::StructType::get(context_, {pointer(), pointer(), number(), number()});
    for (size_t index = 0; index < classes.persistent().size(); ++index) {
      const Variable &variable = *classes.persistent()[index].variable;
      if (!variable.global || variable.global->isConstant() || variable.global->isDeclaration()) continue;
      llvm::GlobalVariable *global = module_.getNamedGlobal(variable.global->getName());
      if (!global || global->isThreadLocal()) continue;
      const uint64_t bytes = module_.getDataLayout().getTypeAllocSize(global->getValueType()).getFixedValue();
      rows.push_back(llvm::ConstantStruct::get(row, {text(name(variable)), global, llvm::ConstantInt::get(number(), bytes),
                                                     flag(variable, updates.has(index))}));
    }
    auto *type = llvm::ArrayType::get(row, rows.size());
    new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::ExternalLinkage,
                             llvm::ConstantArray::get(type, rows), "sluice_oracle_variables");
    new llvm::GlobalVariable(module_, number(), true, llvm::GlobalValue::ExternalLinkage,
                             llvm::ConstantInt::get(number(), rows.size()), "sluice_oracle_variable_count");
  }

  void add_local(const Variable &variable, bool is_updated) {
    llvm::Function *function = module_.getFunction(variable.function->getName());
    const auto *info = llvm::cast<llvm::DILocalVariable>(variable.info);
    if (!function) return;
    llvm::AllocaInst *memory = nullptr;
    for (llvm::Instruction &instruction : llvm::instructions(*function))
      for (llvm::DbgVariableRecord &record : llvm::filterDbgVars(instruction.getDbgRecordRange()))
        if (record.getVariable()->getName() == info->getName() && record.getVariable()->getLine() == info->getLine() &&
            record.getVariable()->getArg() == info->getArg())
          if (auto *found = llvm::dyn_cast_or_null<llvm::AllocaInst>(record.getVariableLocationOp(0))) memory = found;
    if (!memory || !memory->isStaticAlloca()) return;
    const uint64_t bytes = module_.getDataLayout().getTypeAllocSize(memory->getAllocatedType()).getFixedValue();
    builder_.SetInsertPoint(memory->getNextNode());
    builder_.CreateCall(run_time("sluice_oracle_local", {pointer(), pointer(), number(), number()}),
                        {text(name(variable)), memory, builder_.getInt64(bytes), flag(variable, is_updated)});
    for (llvm::BasicBlock &block : *function) {
      if (!llvm::isa<llvm::ReturnInst>(block.getTerminator())) continue;
      builder_.SetInsertPoint(block.getTerminator());
      builder_.CreateCall(run_time("sluice_oracle_forget", {pointer()}), {memory});
    }
  }

  void add_allocation(llvm::CallBase &call, const std::string &name, bool updateable) {
    if (!call.getType()->isPointerTy() || !call.getNextNode()) return;
    builder_.SetInsertPoint(call.getNextNode());
    builder_.CreateCall(run_time("sluice_oracle_allocated", {pointer(), pointer(), number()}),
                        {text(name), &call, builder_.getInt64(updateable)});
  }

  void add_boundary(llvm::Instruction &before) {
    builder_.SetInsertPoint(&before);
    builder_.CreateCall(run_time("sluice_oracle_packet", {}), {});
  }

 private:
  llvm::Type *pointer() { return llvm::PointerType::get(context_, 0); }
  llvm::IntegerType *number() { return llvm::Type::getInt64Ty(context_); }
  llvm::Constant *text(const std::string &value) {
    llvm::Constant *data = llvm::ConstantDataArray::getString(context_, value);
    return new llvm::GlobalVariable(module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
  }
  llvm::FunctionCallee run_time(const char *name, std::vector<llvm::Type *> arguments) {
    return module_.getOrInsertFunction(name, llvm::FunctionType::get(builder_.getVoidTy(), arguments, false));
  }
  static std::string name(const Variable &variable) {
    const llvm::StringRef scope = scope_name(variable.info);
    return (scope.empty() ? "" : scope.str() + ": ") + variable.info->getName().str();
  }
  llvm::Constant *flag(const Variable &variable, bool is_updated) {
    const bool removed = options_.without.count(name(variable)) || options_.without.count(variable.info->getName().str());
    return llvm::ConstantInt::get(number(), is_updated && !removed);
  }

  llvm::Module &module_;
  const OracleOptions &options_;
  llvm::LLVMContext &context_;
  llvm::IRBuilder<> builder_;
};

}  // namespace

void instrument_for_oracle(llvm::Module &module, const PointsTo &points_to, const Receives &receives,
                           const Classes &classes, const Updates &updates, const OracleOptions &options) {
  std::set<CallKey> boundaries;
  std::map<CallKey, std::pair<std::string, bool>> allocations;
  for (const llvm::Function *function : points_to.calls().entered())
    each_call(*function, [&](const llvm::CallBase &call, const CallKey &key) {
      for (const ReceiveCall &receive : receives.calls())
        if (receive.site == &call && receive.model->callback.kind == Operand::None) boundaries.insert(key);
      const ObjectId *object = points_to.object_of(&call);
      if (!object || points_to.memory().object(*object).kind != ObjectKind::Heap) return;
      const llvm::Value *callee = call.getCalledOperand();
      // whose size and end the run-time library tracks; libraries free what they allocate themselves
      const bool known = llvm::is_contained({"malloc", "calloc", "realloc", "strdup", "strndup"}, callee->getName());
      if (!known) return;
      const bool removed = options.without.count(place_of(call));
      allocations[key] = {callee->getName().str() + " at " + place_of(call),
                          updates.may_write(*object) && !removed};
    });

  Instrumenter instrumenter(module, options);
  for (llvm::Function &function : module) {
    std::vector<std::pair<llvm::CallBase *, CallKey>> calls;
    each_call(function, [&](llvm::CallBase &call, const CallKey &key) { calls.emplace_back(&call, key); });
    for (const auto &[call, key] : calls) {
      if (boundaries.count(key)) instrumenter.add_boundary(*call);
      const auto found = allocations.find(key);
      if (found != allocations.end()) instrumenter.add_allocation(*call, found->second.first, found->second.second);
    }
  }
  for (const llvm::Function *callback : receives.callbacks())
    if (llvm::Function *function = module.getFunction(callback->getName()); function && !function->isDeclaration())
      instrumenter.add_boundary(*function->getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
  instrumenter.add_globals(classes, updates);
  for (size_t index = 0; index < classes.persistent().size(); ++index)
    if (!classes.persistent()[index].variable->global)
      instrumenter.add_local(*classes.persistent()[index].variable, updates.has(index));
}

}  // namespace analyze
