#include "extract.h"

#include <set>

#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"

namespace analyze {

namespace {

llvm::Error problem(const llvm::Twine &text) { return llvm::createStringError(llvm::inconvertibleErrorCode(), text); }

// What the compiler's start files and the linker add to every program.
bool is_runtime(llvm::StringRef name) {
  static const llvm::StringSet<> known{
      "_start", "_init", "_fini", "__do_global_dtors_aux", "frame_dummy", "register_tm_clones",
      "deregister_tm_clones", "_dl_relocate_static_pie", "__libc_csu_init", "__libc_csu_fini", "atexit", "at_quick_exit",
      "stat", "fstat", "lstat", "fstatat", "mknod", "mknodat", "__stack_chk_fail_local", "data_start", "__data_start",
      "__dso_handle", "_IO_stdin_used", "completed.0", "__TMC_END__", "_edata", "_end", "__bss_start", "__FRAME_END__",
      "__do_global_dtors_aux_fini_array_entry", "__frame_dummy_init_array_entry", "_DYNAMIC", "_GLOBAL_OFFSET_TABLE_",
      "__GNU_EH_FRAME_HDR", "__abi_tag", "__init_array_start", "__init_array_end", "crtstuff.c"};
  return known.contains(name) || name.starts_with("__x86.get_pc_thunk");
}

struct Symbols {
  std::set<std::string> functions, variables;
};

// Defined by the program; copies of a library's variables are not.
llvm::Error read_symbols(const llvm::object::ObjectFile &file, Symbols &symbols) {
  for (const llvm::object::SymbolRef &symbol : file.symbols()) {
    auto flags = symbol.getFlags();
    auto type = symbol.getType();
    auto name = symbol.getName();
    if (!flags || !type || !name) {
      llvm::consumeError(flags.takeError());
      llvm::consumeError(type.takeError());
      llvm::consumeError(name.takeError());
      return problem(file.getFileName() + ": its symbol table is damaged");
    }
    if (*flags & llvm::object::SymbolRef::SF_Undefined || name->contains('@') || is_runtime(*name)) continue;
    if (*type == llvm::object::SymbolRef::ST_Function) symbols.functions.insert(name->str());
    if (*type == llvm::object::SymbolRef::ST_Data) symbols.variables.insert(name->str());
  }
  return llvm::Error::success();
}

llvm::Error link_file(const std::string &path, llvm::Linker &linker, llvm::LLVMContext &context, Symbols &symbols,
                      size_t &modules) {
  auto binary = llvm::object::ObjectFile::createObjectFile(path);
  if (!binary) return problem(path + ": " + llvm::toString(binary.takeError()));
  const llvm::object::ObjectFile &file = *binary->getBinary();
  if (llvm::Error error = read_symbols(file, symbols)) return error;
  for (const llvm::object::SectionRef &section : file.sections()) {
    auto name = section.getName();
    if (!name || *name != ".llvmbc") {
      llvm::consumeError(name.takeError());
      continue;
    }
    auto contents = section.getContents();
    if (!contents) return contents.takeError();
    auto embedded = llvm::getBitcodeModuleList(llvm::MemoryBufferRef(*contents, path));
    if (!embedded) return problem(path + ": the bitcode in it is damaged: " + llvm::toString(embedded.takeError()));
    for (llvm::BitcodeModule &one : *embedded) {
      auto module = one.parseModule(context);
      if (!module) return problem(path + ": the bitcode in it is damaged: " + llvm::toString(module.takeError()));
      const std::string source = (*module)->getSourceFileName();
      if (linker.linkInModule(std::move(*module))) return problem(path + ": the bitcode of " + source + " does not link");
      ++modules;
    }
  }
  return llvm::Error::success();
}

// In the module, so that every report on it can say so.
void note_missing(llvm::Module &module, llvm::StringRef kind, const llvm::json::Array &names) {
  if (names.empty()) return;
  llvm::NamedMDNode *list = module.getOrInsertNamedMetadata(kind);
  for (const llvm::json::Value &name : names)
    list->addOperand(
        llvm::MDNode::get(module.getContext(), llvm::MDString::get(module.getContext(), *name.getAsString())));
}

}  // namespace

llvm::Expected<llvm::json::Object> extract(const std::vector<std::string> &files, const std::string &output) {
  llvm::LLVMContext context;
  llvm::Module whole("program", context);
  llvm::Linker linker(whole);
  Symbols symbols;
  size_t modules = 0;
  for (const std::string &path : files)
    if (llvm::Error error = link_file(path, linker, context, symbols, modules)) return error;
  if (modules == 0) return problem(files.front() + ": contains no bitcode; it was not compiled by `sluice analyze build`");

  const auto defined = [&](const std::string &name) {
    const llvm::StringRef base = llvm::StringRef(name).split('.').first;  // the linker renames static duplicates
    const llvm::GlobalValue *value = whole.getNamedValue(name);
    if (!value) value = whole.getNamedValue(base);
    return value && !value->isDeclaration();
  };
  llvm::json::Array functions, variables;
  for (const std::string &name : symbols.functions)
    if (!defined(name)) functions.push_back(name);
  for (const std::string &name : symbols.variables)
    if (!defined(name)) variables.push_back(name);

  note_missing(whole, kMissingFunctions, functions);
  note_missing(whole, kMissingVariables, variables);
  std::error_code error;
  llvm::raw_fd_ostream stream(output, error, llvm::sys::fs::OF_None);
  if (error) return problem(output + ": " + error.message());
  llvm::WriteBitcodeToFile(whole, stream);
  stream.close();
  if (stream.has_error()) return problem(output + ": " + stream.error().message());
  return llvm::json::Object{
      {"modules", modules}, {"missing_functions", std::move(functions)}, {"missing_variables", std::move(variables)}};
}

}  // namespace analyze
