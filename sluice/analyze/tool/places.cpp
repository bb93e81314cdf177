#include "places.h"

#include "llvm/IR/CFG.h"
#include "llvm/Support/Path.h"
#include "module.h"

namespace analyze {

using llvm::json::Object;

std::string path_of(const llvm::DIFile *file) {
  if (!file) return "";
  if (llvm::sys::path::is_absolute(file->getFilename())) return file->getFilename().str();
  llvm::SmallString<256> path(file->getDirectory());
  llvm::sys::path::append(path, file->getFilename());
  llvm::sys::path::remove_dots(path, true);
  return path.str().str();
}

Object place(const llvm::DIFile *file, unsigned line) {
  return Object{{"file", path_of(file)}, {"line", line}};
}

Object place(const llvm::DILocation *location) {
  if (!location) return Object{{"file", ""}, {"line", 0}};
  return place(location->getFile(), location->getLine());
}

llvm::StringRef procedure_at(const llvm::DILocation *location, const llvm::Function &function) {
  if (location && location->getInlinedAt()) return location->getScope()->getSubprogram()->getName();
  return source_name(function);
}

Object site(const llvm::CallBase *call) {
  const llvm::DILocation *location = location_near(*call);
  Object found = place(location);
  found["in"] = procedure_at(location, *call->getFunction());
  return found;
}

// Clang attaches the beginning of a loop statement to the branch that closes it. A loop of gotos has its branch only.
Object place(const Loop &loop) {
  const llvm::Instruction *closing = nullptr;
  for (const llvm::BasicBlock *before : llvm::predecessors(loop.header))
    if (loop.blocks.contains(before)) closing = before->getTerminator();
  Object found = place(closing ? location_near(*closing) : nullptr);
  if (const llvm::MDNode *info = closing ? closing->getMetadata(llvm::LLVMContext::MD_loop) : nullptr)
    for (const llvm::MDOperand &operand : llvm::drop_begin(info->operands()))
      if (const auto *location = llvm::dyn_cast<llvm::DILocation>(operand)) {
        found = place(location->getFile(), location->getLine());
        break;
      }
  found["in"] = source_name(*loop.function);
  return found;
}

}  // namespace analyze
