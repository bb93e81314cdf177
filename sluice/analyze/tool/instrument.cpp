#include "instrument.h"

#include "allocated.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "module.h"
#include "pruning.h"

namespace analyze {

std::vector<size_t> numbered_at_run_time(const Classes &classes, const Updates &updates) {
  std::vector<size_t> found;
  for (size_t number = 0; number < classes.persistent().size(); ++number)
    if (updates.has(number)) found.push_back(number);
  return found;
}

namespace {

class StateInstrumenter {
 public:
  StateInstrumenter(llvm::Module &module, llvm::ValueToValueMapTy &map, const Classes &classes,
                    const std::vector<size_t> &numbered, const InstrumentOptions &options)
      : module_(module), map_(map), classes_(classes), numbered_(numbered), options_(options),
        context_(module.getContext()), builder_(context_) {
    auto *type = llvm::ArrayType::get(byte(), llvm::alignTo(numbered.size() + 1, 8));  // whole words
    changed_ = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::ExternalLinkage,
                                        llvm::ConstantAggregateZero::get(type), "sluice_state_changed");
    changed_->setAlignment(llvm::Align(8));
  }

  // The row of each variable: its name, memory (nothing for one without a fixed address), and size.
  void add_variables() {
    auto *row = llvm::StructType::get(context_, {pointer(), pointer(), word()});
    std::vector<llvm::Constant *> rows;
    for (const size_t number : numbered_) {
      const Variable &variable = *classes_.persistent()[number].variable;
      llvm::GlobalVariable *global = variable.global ? module_.getNamedGlobal(variable.global->getName()) : nullptr;
      const uint64_t bytes = variable.global ? size_of(variable.global->getValueType()) : 0;
      const bool fixed = global && !global->isThreadLocal();
      rows.push_back(llvm::ConstantStruct::get(
          row, {text(name(variable)), fixed ? static_cast<llvm::Constant *>(global) : llvm::ConstantPointerNull::get(pointer()),
                llvm::ConstantInt::get(word(), bytes)}));
    }
    add_table("sluice_state_variables", row, rows, false);
  }

  // Targets of pointers into the program: its variables, and functions whose address it takes (of size 0).
  void add_image() {
    auto *row = llvm::StructType::get(context_, {pointer(), word()});
    std::vector<llvm::Constant *> rows;
    for (llvm::GlobalVariable &global : module_.globals()) {
      if (global.isDeclaration() || global.isThreadLocal() || global.getName().starts_with("llvm.")) continue;
      if (global.getName().starts_with("sluice_state_") || global.getName().empty()) continue;
      rows.push_back(llvm::ConstantStruct::get(row, {&global, llvm::ConstantInt::get(word(), size_of(global.getValueType()))}));
    }
    for (llvm::Function &function : module_)
      if (!function.isDeclaration() && function.hasAddressTaken())
        rows.push_back(llvm::ConstantStruct::get(row, {&function, llvm::ConstantInt::get(word(), 0)}));
    add_table("sluice_state_image", row, rows, true);
  }

  // Sets a variable's byte after an instruction of the analysed module; before it, if nothing follows.
  bool set_after(const llvm::Instruction *analysed, llvm::ArrayRef<unsigned> numbers) {
    auto *instruction = llvm::cast_or_null<llvm::Instruction>(map_.lookup(analysed));
    if (!instruction) return false;
    llvm::Instruction *next = instruction->getNextNode();
    set_before(next && !llvm::isa<llvm::UnreachableInst>(next) ? next : instruction, numbers);
    return true;
  }

  // A local variable: its memory is known while its function runs; every store by name sets its byte.
  size_t add_local(unsigned number) {
    const Persistent &persistent = classes_.persistent()[numbered_[number]];
    llvm::AllocaInst *memory = alloca_of(*persistent.variable);
    if (!memory) return 0;
    builder_.SetInsertPoint(memory->getParent()->getFirstNonPHIOrDbgOrAlloca());
    builder_.CreateCall(run_time("sluice_state_local", {word(), pointer(), word()}),
                        {builder_.getInt64(number), memory, builder_.getInt64(size_of(memory->getAllocatedType()))});
    for (llvm::BasicBlock &block : *memory->getFunction()) {
      if (!llvm::isa<llvm::ReturnInst>(block.getTerminator())) continue;
      builder_.SetInsertPoint(block.getTerminator());
      builder_.CreateCall(run_time("sluice_state_local", {word(), pointer(), word()}),
                          {builder_.getInt64(number), llvm::ConstantPointerNull::get(pointer()), builder_.getInt64(0)});
    }
    if (!persistent.variable->local->promoted) return 0;  // its stores are known to the analysis
    std::vector<llvm::Instruction *> stores;
    for (llvm::User *user : memory->users())
      if (auto *store = llvm::dyn_cast<llvm::StoreInst>(user)) stores.push_back(store);
    for (llvm::Instruction *store : stores) set_before(store->getNextNode(), {number});
    return stores.size();
  }

  // Gives a function that searches a second version, which runs instead if there is no consumer: its loops do not test
  // for one at each comparison. No packet may end while it runs, as the next one may have a consumer.
  void add_version(llvm::Function &function) {
    for (const llvm::Instruction &instruction : llvm::instructions(function)) {
      const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
      const bool twice = call && call->hasFnAttr(llvm::Attribute::ReturnsTwice);
      if (twice || llvm::isa<llvm::IndirectBrInst>(instruction)) return;
    }
    if (function.isVarArg()) return;
    llvm::ValueToValueMapTy map;
    llvm::Function *plain = llvm::CloneFunction(&function, map);
    plain->setName(function.getName() + ".without_consumer");
    plain->setLinkage(llvm::GlobalValue::InternalLinkage);
    plain->setVisibility(llvm::GlobalValue::DefaultVisibility);
    plain->setComdat(nullptr);
    builder_.SetInsertPoint(function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    llvm::Instruction *at = &*builder_.GetInsertPoint();
    llvm::Value *watched = builder_.CreateLoad(byte(), module_.getOrInsertGlobal("sluice_state_watched", byte()));
    llvm::Instruction *end = llvm::SplitBlockAndInsertIfThen(builder_.CreateIsNull(watched), at->getIterator(), true);
    builder_.SetInsertPoint(end);
    llvm::SmallVector<llvm::Value *> arguments;
    for (llvm::Argument &argument : function.args()) arguments.push_back(&argument);
    llvm::CallInst *call = builder_.CreateCall(plain, arguments);
    call->setCallingConv(function.getCallingConv());
    for (const llvm::Argument &argument : function.args())  // how structures are passed
      for (const llvm::Attribute &attribute : function.getAttributes().getParamAttrs(argument.getArgNo()))
        call->addParamAttr(argument.getArgNo(), attribute);
    if (llvm::DISubprogram *info = function.getSubprogram())
      call->setDebugLoc(llvm::DILocation::get(context_, info->getLine(), 0, info));
    if (function.getReturnType()->isVoidTy())
      builder_.CreateRetVoid();
    else
      builder_.CreateRet(call);
    end->eraseFromParent();
  }

  // Keeps the value of a field of the packet that the program loads.
  void add_field(unsigned field, const llvm::Instruction *analysed) {
    auto *load = llvm::dyn_cast_or_null<llvm::LoadInst>(map_.lookup(analysed));
    if (load && load->getType()->isIntegerTy()) {
      if_watched(*load->getNextNode());
      keep("sluice_state_field", field, load, size_of(load->getType()));
    } else if (auto *transfer = llvm::dyn_cast_or_null<llvm::MemTransferInst>(map_.lookup(analysed))) {
      if_watched(*transfer);
      builder_.CreateCall(run_time("sluice_state_field_bytes", {word(), pointer(), word()}),
                          {builder_.getInt64(field), transfer->getRawSource(),
                           builder_.CreateZExtOrTrunc(transfer->getLength(), word())});
    }
  }

  // Keeps the value that entries of a variable are compared with.
  void add_comparison(unsigned comparison, const Comparison &found) {
    auto *at = llvm::dyn_cast_or_null<llvm::Instruction>(map_.lookup(found.at));
    llvm::Value *sought = nullptr;
    if (const auto *compare = llvm::dyn_cast<llvm::ICmpInst>(found.at); compare && at) {
      // promotion replaced loads of local variables by values, which the copy loads again
      for (const unsigned side : {0u, 1u}) {
        llvm::Value *value = compare->getOperand(side), *copied = at->getOperand(side);
        while (true) {
          if (value == found.sought) sought = copied;
          const auto *cast = llvm::dyn_cast<llvm::CastInst>(value);
          if (!cast || sought) break;
          auto *copied_cast = llvm::dyn_cast<llvm::CastInst>(copied);
          if (!copied_cast) break;
          value = cast->getOperand(0), copied = copied_cast->getOperand(0);
        }
      }
      if (!sought) return;
      if_watched(*at);
      keep("sluice_state_sought", comparison, sought, found.bytes);
    } else if (at) {
      const auto *call = llvm::cast<llvm::CallBase>(found.at);
      const unsigned side = call->getArgOperand(0) == found.sought ? 0 : 1;
      if_watched(*at);
      builder_.CreateCall(run_time("sluice_state_sought_bytes", {word(), pointer(), word()}),
                          {builder_.getInt64(comparison), llvm::cast<llvm::CallBase>(at)->getArgOperand(side),
                           builder_.getInt64(found.bytes)});
    }
  }

  // Memory that is one structure, or several of it.
  void add_allocation(const llvm::CallBase *analysed, llvm::StringRef structure) {
    auto *call = llvm::cast_or_null<llvm::Instruction>(map_.lookup(analysed));
    if (!call || !call->getType()->isPointerTy() || !call->getNextNode()) return;
    builder_.SetInsertPoint(call->getNextNode());
    builder_.CreateCall(run_time("sluice_state_allocated", {pointer(), pointer()}), {call, text(structure.str())});
  }

  void add_boundary(llvm::Instruction &before) {
    if_watched(before);
    builder_.CreateCall(run_time("sluice_state_packet", {}), {});
  }
  void add_boundary(const llvm::CallBase *analysed) {
    if (auto *call = llvm::cast_or_null<llvm::Instruction>(map_.lookup(analysed))) add_boundary(*call);
  }

  // A table of strings with two numbers each.
  void add_names(const char *name, const std::vector<std::tuple<std::string, uint64_t, uint64_t, uint64_t>> &found) {
    auto *row = llvm::StructType::get(context_, {pointer(), word(), word(), word()});
    std::vector<llvm::Constant *> rows;
    for (const auto &[key, first, second, third] : found)
      rows.push_back(llvm::ConstantStruct::get(row, {text(key), llvm::ConstantInt::get(word(), first),
                                                     llvm::ConstantInt::get(word(), second),
                                                     llvm::ConstantInt::get(word(), third)}));
    add_table(name, row, rows, true);
  }

  static std::string name(const Variable &variable) {
    const llvm::StringRef scope = scope_name(variable.info);
    return (scope.empty() ? "" : scope.str() + ": ") + variable.info->getName().str();
  }

 private:
  llvm::PointerType *pointer() { return llvm::PointerType::get(context_, 0); }
  llvm::IntegerType *byte() { return llvm::Type::getInt8Ty(context_); }
  llvm::IntegerType *word() { return llvm::Type::getInt64Ty(context_); }
  uint64_t size_of(llvm::Type *type) const { return module_.getDataLayout().getTypeAllocSize(type).getFixedValue(); }
  llvm::Constant *text(const std::string &value) {
    llvm::Constant *data = llvm::ConstantDataArray::getString(context_, value);
    return new llvm::GlobalVariable(module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
  }
  llvm::FunctionCallee run_time(const char *name, std::vector<llvm::Type *> arguments) {
    return module_.getOrInsertFunction(name, llvm::FunctionType::get(builder_.getVoidTy(), arguments, false));
  }
  void add_table(const std::string &name, llvm::StructType *row, const std::vector<llvm::Constant *> &rows, bool constant) {
    auto *type = llvm::ArrayType::get(row, rows.size());
    new llvm::GlobalVariable(module_, type, constant, llvm::GlobalValue::ExternalLinkage,
                             llvm::ConstantArray::get(type, rows), name);
    new llvm::GlobalVariable(module_, word(), true, llvm::GlobalValue::ExternalLinkage,
                             llvm::ConstantInt::get(word(), rows.size()), name + "_count");
  }

  // Inserts code that runs only if the effects of packets have a consumer, before an instruction.
  void if_watched(llvm::Instruction &before) {
    builder_.SetInsertPoint(&before);
    llvm::Value *watched = builder_.CreateLoad(byte(), module_.getOrInsertGlobal("sluice_state_watched", byte()));
    llvm::MDNode *rarely = llvm::MDBuilder(context_).createUnlikelyBranchWeights();
    builder_.SetInsertPoint(llvm::SplitBlockAndInsertIfThen(builder_.CreateIsNotNull(watched), before.getIterator(), false, rarely));
  }

  void keep(const std::string &what, unsigned number, llvm::Value *value, uint64_t bytes) {
    if (bytes > 8) return;
    builder_.CreateCall(run_time(what.c_str(), {word(), word(), word()}),
                        {builder_.getInt64(number), builder_.CreateZExtOrTrunc(value, word()), builder_.getInt64(bytes)});
  }

  void set_before(llvm::Instruction *at, llvm::ArrayRef<unsigned> numbers) {
    builder_.SetInsertPoint(at);
    for (const unsigned number : numbers) {
      const Variable &variable = *classes_.persistent()[numbered_[number]].variable;
      if (options_.without.count(name(variable)) || options_.without.count(variable.info->getName().str())) continue;
      builder_.CreateStore(builder_.getInt8(1),
                           builder_.CreateConstInBoundsGEP2_64(changed_->getValueType(), changed_, 0, number));
    }
  }

  llvm::AllocaInst *alloca_of(const Variable &variable) {
    llvm::Function *function = module_.getFunction(variable.function->getName());
    const auto *info = llvm::cast<llvm::DILocalVariable>(variable.info);
    llvm::AllocaInst *memory = nullptr;
    for (llvm::Instruction &instruction : llvm::instructions(*function))
      for (llvm::DbgVariableRecord &record : llvm::filterDbgVars(instruction.getDbgRecordRange()))
        if (record.getVariable()->getName() == info->getName() && record.getVariable()->getLine() == info->getLine() &&
            record.getVariable()->getArg() == info->getArg())
          if (auto *found = llvm::dyn_cast_or_null<llvm::AllocaInst>(record.getVariableLocationOp(0))) memory = found;
    return memory && memory->isStaticAlloca() ? memory : nullptr;
  }

  llvm::Module &module_;
  llvm::ValueToValueMapTy &map_;
  const Classes &classes_;
  const std::vector<size_t> &numbered_;
  const InstrumentOptions &options_;
  llvm::LLVMContext &context_;
  llvm::IRBuilder<> builder_;
  llvm::GlobalVariable *changed_;
};

}  // namespace

llvm::json::Object instrument(llvm::Module &module, llvm::ValueToValueMapTy &map, const Accesses &accesses,
                              const Receives &receives, const Classes &classes, const Updates &updates,
                              const Flowspace &flowspace, const Fields &packet_fields, const InstrumentOptions &options) {
  const std::vector<size_t> numbered = numbered_at_run_time(classes, updates);
  UpdatePoints points;
  size_t all = 0;
  for (unsigned number = 0; number < numbered.size(); ++number)
    for (const ObjectId object : updates.memory_of(numbered[number]))
      for (const llvm::Instruction *write : updates.writes(object)) all += points[write].insert(number);
  // a handler that receives nothing ends before the interrupted code continues, and no packet ends meanwhile
  const bool at_once = llvm::any_of(accesses.points_to().calls().spawns(), [&](const Spawn &spawn) {
    return spawn.role == CallRole::Thread || (spawn.role == CallRole::Signal && receives.may_receive(spawn.function));
  });
  const size_t pruned = options.prune && !at_once ? prune(points, numbered.size(), accesses, receives) : 0;

  StateInstrumenter instrumenter(module, map, classes, numbered, options);
  instrumenter.add_image();
  instrumenter.add_variables();
  // of calls, the end of the packet is inserted before code that sets bytes
  size_t boundaries = 0;
  for (const ReceiveCall &receive : receives.calls()) instrumenter.add_boundary(receive.site), ++boundaries;
  for (const llvm::Function *callback : receives.callbacks()) {
    llvm::Function *function = module.getFunction(callback->getName());
    if (!function) continue;
    std::vector<llvm::Instruction *> returns;  // first, as inserted code divides blocks
    for (llvm::BasicBlock &block : *function)
      if (llvm::isa<llvm::ReturnInst>(block.getTerminator())) returns.push_back(block.getTerminator());
    for (llvm::Instruction *at : returns) instrumenter.add_boundary(*at), ++boundaries;
  }
  for (const auto &[instruction, numbers] : points)
    if (!instrumenter.set_after(instruction, numbers.getArrayRef())) all -= numbers.size();
  for (const auto &[site, structure] : allocated_structures(accesses.points_to(), packet_fields))
    instrumenter.add_allocation(site, structure->getName());
  for (unsigned number = 0; number < numbered.size(); ++number)
    if (!classes.persistent()[numbered[number]].variable->global) all += instrumenter.add_local(number);

  // the following code runs for a consumer only
  llvm::SetVector<const llvm::Function *> searching;
  for (const Comparison &found : flowspace.comparisons()) searching.insert(found.at->getFunction());
  for (const llvm::Function *function : searching)
    if (!receives.may_receive(function)) instrumenter.add_version(*module.getFunction(function->getName()));
  std::vector<std::tuple<std::string, uint64_t, uint64_t, uint64_t>> fields, comparisons;
  std::map<std::pair<unsigned, std::string>, unsigned> known;
  std::set<std::pair<unsigned, const llvm::Instruction *>> seen;
  for (unsigned number = 0; number < numbered.size(); ++number) {
    if (!flowspace.is_complete(numbered[number])) continue;
    for (const KeyField &load : flowspace.loads_of(numbered[number])) {
      const auto [found, is_new] = known.try_emplace({number, load.name}, fields.size());
      if (is_new) fields.emplace_back(load.name, number, 0, 0);
      if (seen.insert({found->second, load.load}).second) instrumenter.add_field(found->second, load.load);
    }
  }
  for (const Comparison &found : flowspace.comparisons()) {
    const auto at = llvm::find(numbered, found.variable);
    if (at == numbered.end()) continue;
    instrumenter.add_comparison(static_cast<unsigned>(comparisons.size()), found);
    comparisons.emplace_back(found.entry, static_cast<uint64_t>(at - numbered.begin()), found.offset, found.bytes);
  }
  instrumenter.add_names("sluice_state_fields", fields);
  instrumenter.add_names("sluice_state_comparisons", comparisons);

  llvm::json::Array names;
  for (const size_t number : numbered) names.push_back(StateInstrumenter::name(*classes.persistent()[number].variable));
  return llvm::json::Object{{"variables", std::move(names)}, {"boundaries", boundaries}, {"updates", all},
                            {"pruned", pruned},              {"at_once", at_once},       {"fields", fields.size()},
                            {"comparisons", comparisons.size()}};
}

}  // namespace analyze
