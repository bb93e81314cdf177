#include "helpers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace analyze {

namespace {

constexpr unsigned kMostOfHelper = 40;      // instructions
constexpr unsigned kMostOfAllocator = 320;
constexpr unsigned kMostGrowth = 2;         // of the module: times its size

class Helpers {
 public:
  Helpers(llvm::Module &module, const Models &models) : module_(module), models_(models) {}

  unsigned run() {
    size_t budget = 0;
    for (llvm::Function &function : module_) {
      budget += size(function) * kMostGrowth;
      if (!function.isDeclaration() && is_suitable(function)) suitable_.insert(&function);
    }
    for (bool changed = true; changed;) {  // an allocator may call another one
      changed = false;
      for (llvm::Function *function : suitable_)
        if (!allocators_.contains(function) && size(*function) <= kMostOfAllocator && allocates(*function))
          changed = allocators_.insert(function).second;
    }
    unsigned replaced = 0;
    for (llvm::Function *function : suitable_)
      if (is_helper(*function)) replaced += replace_in(*function, budget);
    for (llvm::Function &function : module_)
      if (!function.isDeclaration() && !done_.contains(&function)) replaced += replace_in(function, budget);
    return replaced;
  }

 private:
  static size_t size(const llvm::Function &function) {
    size_t found = 0;
    for (const llvm::Instruction &instruction : llvm::instructions(function))
      found += !llvm::isa<llvm::AllocaInst>(instruction) && !instruction.isDebugOrPseudoInst();
    return found;
  }

  static llvm::Function *callee_of(const llvm::Instruction &instruction) {
    const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    llvm::Function *callee = call ? call->getCalledFunction() : nullptr;
    return callee && !callee->isIntrinsic() ? callee : nullptr;
  }

  // Functions that are reported as such (they receive, wait, start others) keep their calls.
  bool is_suitable(const llvm::Function &function) const {
    if (function.isVarArg() || function.isInterposable() || function.hasFnAttribute(llvm::Attribute::ReturnsTwice) || !function.getSubprogram() ||
        size(function) > kMostOfAllocator)
      return false;
    for (const llvm::Instruction &instruction : llvm::instructions(function)) {
      if (const auto *variable = llvm::dyn_cast<llvm::AllocaInst>(&instruction))
        if (!variable->isStaticAlloca()) return false;
      if (llvm::isa<llvm::IndirectBrInst>(instruction)) return false;
      const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
      if (!call || llvm::isa<llvm::IntrinsicInst>(call)) continue;
      const llvm::Function *callee = callee_of(instruction);
      if (!callee || callee == &function || callee->hasFnAttribute(llvm::Attribute::ReturnsTwice)) return false;
      const ExternalModel *model = models_.external(callee->getName());
      if (models_.receive(callee->getName()) || models_.dispatches(callee->getName()) ||
          models_.waits(callee->getName()) || (model && (!model->calls.empty() || model->unknown_code)))
        return false;
    }
    return true;
  }

  bool is_fresh(const llvm::Instruction &call) const {
    const llvm::Function *callee = callee_of(call);
    if (!callee) return false;
    if (allocators_.contains(callee)) return true;
    const ExternalModel *model = callee->isDeclaration() ? models_.external(callee->getName()) : nullptr;
    return model && llvm::any_of(model->returns, [](const Operand &value) { return value.kind == Operand::New; });
  }

  // Whether a function returns memory that it allocated, possibly through local variables.
  bool allocates(const llvm::Function &function) const {
    if (!function.getReturnType()->isPointerTy()) return false;
    llvm::SetVector<const llvm::Value *> fresh;
    for (const llvm::Instruction &instruction : llvm::instructions(function))
      if (is_fresh(instruction)) fresh.insert(&instruction);
    for (size_t i = 0; i < fresh.size(); ++i)
      for (const llvm::User *user : fresh[i]->users()) {
        if (llvm::isa<llvm::ReturnInst>(user)) return true;
        if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(user)) {
          if (llvm::isa<llvm::AllocaInst>(store->getPointerOperand())) fresh.insert(store->getPointerOperand());
        } else if (llvm::isa<llvm::LoadInst, llvm::CastInst, llvm::GetElementPtrInst, llvm::PHINode, llvm::SelectInst>(user)) {
          fresh.insert(user);
        }
      }
    return false;
  }

  bool is_helper(const llvm::Function &function) const {
    if (allocators_.contains(&function)) return true;
    if (!suitable_.contains(const_cast<llvm::Function *>(&function)) || size(function) > kMostOfHelper) return false;
    const bool takes_pointer =
        llvm::any_of(function.args(), [](const llvm::Argument &argument) { return argument.getType()->isPointerTy(); });
    return takes_pointer && llvm::all_of(llvm::instructions(function), [&](const llvm::Instruction &instruction) {
             const llvm::Function *callee = callee_of(instruction);
             return !callee || (callee->isDeclaration() && !models_.output(callee->getName()));
           });
  }

  // Callees first, so that a helper is complete when it replaces a call. Calls in a cycle remain.
  unsigned replace_in(llvm::Function &function, size_t &budget) {
    if (!done_.insert(&function).second) return 0;
    unsigned replaced = 0;
    std::vector<llvm::CallInst *> calls;
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (llvm::Function *callee = callee_of(instruction); callee && !callee->isDeclaration() && is_helper(*callee))
        calls.push_back(llvm::cast<llvm::CallInst>(&instruction));
    open_.insert(&function);
    for (llvm::CallInst *call : calls) {
      llvm::Function *callee = call->getCalledFunction();
      replaced += replace_in(*callee, budget);
      const size_t added = size(*callee);
      if (open_.contains(callee) || added > budget || call->getFunctionType() != callee->getFunctionType()) continue;
      llvm::InlineFunctionInfo info;
      if (!llvm::InlineFunction(*call, info).isSuccess()) continue;
      budget -= added;
      ++replaced;
    }
    open_.erase(&function);
    return replaced;
  }

  llvm::Module &module_;
  const Models &models_;
  llvm::SetVector<llvm::Function *> suitable_;
  llvm::DenseSet<const llvm::Function *> allocators_, done_, open_;
};

}  // namespace

unsigned inline_helpers(llvm::Module &module, const Models &models) { return Helpers(module, models).run(); }

}  // namespace analyze
