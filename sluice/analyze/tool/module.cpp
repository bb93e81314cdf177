#include "module.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

namespace analyze {

llvm::Error problem(const llvm::Twine &text) { return llvm::createStringError(llvm::inconvertibleErrorCode(), text); }

static const llvm::Instruction *exception_handling(const llvm::Module &module) {
  for (const llvm::Function &function : module)
    for (const llvm::Instruction &instruction : llvm::instructions(function))
      if (llvm::isa<llvm::InvokeInst, llvm::LandingPadInst, llvm::ResumeInst>(instruction)) return &instruction;
  return nullptr;
}

llvm::Expected<std::unique_ptr<llvm::Module>> load_module(const std::string &path, llvm::LLVMContext &context) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) return problem(path + ": " + buffer.getError().message());
  const llvm::StringRef bytes = (*buffer)->getBuffer();
  if (bytes.starts_with("\x7f" "ELF"))
    return problem(path + ": is a compiled program, not bitcode; record its build with `sluice analyze build -- make`");
  auto module = llvm::parseBitcodeFile(**buffer, context);
  if (!module) {
    const std::string reason = llvm::toString(module.takeError());
    return problem(path + ": is not LLVM bitcode that version " LLVM_VERSION_STRING " reads (" + reason + ")");
  }
  std::string broken;
  llvm::raw_string_ostream broken_stream(broken);
  if (llvm::verifyModule(**module, &broken_stream))
    return problem(path + ": is not valid LLVM bitcode: " + llvm::StringRef(broken).split('\n').first);
  if (!(*module)->getNamedMetadata("llvm.dbg.cu"))
    return problem(path + ": has no debug info, without which variables have no names; compile with -g, or record the " +
                   "build with `sluice analyze build -- make`");
  if (const llvm::Instruction *found = exception_handling(**module))
    return problem(path + ": uses C++ exceptions (" + found->getFunction()->getName() + ", " + place_of(*found) +
                   "), the control flow of which is not followed; compile with -fno-exceptions, or leave the file out");
  (*module)->convertToNewDbgValues();
  return module;
}

std::vector<const llvm::Function *> without_debug_info(const llvm::Module &module) {
  std::vector<const llvm::Function *> found;
  for (const llvm::Function &function : module)
    if (!function.isDeclaration() && !function.getSubprogram()) found.push_back(&function);
  return found;
}

// Replaces calculations with constants by their results, as where the body of a helper replaces a call with constants. The
// instructions remain, as they have places in the source.
static void fold_constants(llvm::Function &function) {
  for (llvm::BasicBlock *block : llvm::ReversePostOrderTraversal<llvm::Function *>(&function))
    for (llvm::Instruction &instruction : *block)
      if (llvm::isa<llvm::CastInst, llvm::BinaryOperator>(instruction))
        if (llvm::Constant *result = llvm::ConstantFoldInstruction(&instruction, function.getDataLayout()))
          instruction.replaceAllUsesWith(result);
}

void promote_locals(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    llvm::DominatorTree tree(function);
    std::vector<llvm::AllocaInst *> promotable;
    for (llvm::Instruction &instruction : function.getEntryBlock())
      if (auto *variable = llvm::dyn_cast<llvm::AllocaInst>(&instruction))
        if (llvm::isAllocaPromotable(variable)) promotable.push_back(variable);
    if (!promotable.empty()) llvm::PromoteMemToReg(promotable, tree);
    fold_constants(function);
  }
}

const llvm::DILocation *location_near(const llvm::Instruction &instruction) {
  for (const llvm::Instruction *at = &instruction; at; at = at->getPrevNode())
    if (const llvm::DILocation *found = at->getDebugLoc().get(); found && found->getLine() != 0) return found;
  return instruction.getDebugLoc().get();
}

llvm::StringRef source_name(const llvm::Function &function) {
  const llvm::DISubprogram *info = function.getSubprogram();
  return info ? info->getName() : function.getName();
}

std::string place_of(const llvm::Instruction &instruction) {
  const llvm::DILocation *location = location_near(instruction);
  return location ? location->getFilename().str() + ":" + std::to_string(location->getLine()) : "";
}

}  // namespace analyze
