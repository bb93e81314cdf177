#include "extract.h"

#include <set>

#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Bitstream/BitstreamReader.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "module.h"

namespace analyze {

namespace {

// Symbols that the compiler's start files and the linker add to every program.
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

// To which the wrapper renames clang's .llvmbc: plug-ins of GNU ar and ld would treat objects with that as LTO's.
constexpr llvm::StringLiteral kSection(".sluice.bitcode");

constexpr llvm::StringLiteral kMagic("BC\xC0\xDE");

// The length of the first of several consecutive modules. A module is a sequence of blocks after the
// magic number, none of which begins like it.
llvm::Expected<size_t> module_length(llvm::StringRef bytes) {
  llvm::BitstreamCursor cursor(bytes);
  if (auto magic = cursor.Read(32); !magic) return magic.takeError();
  while (!cursor.AtEndOfStream()) {
    const size_t at = cursor.getCurrentByteNo();
    if (bytes.substr(at).starts_with(kMagic)) return at;
    auto code = cursor.ReadCode();
    if (!code) return code.takeError();
    if (*code != llvm::bitc::ENTER_SUBBLOCK) return problem("no block where one must be");
    if (auto block = cursor.ReadSubBlockID(); !block) return block.takeError();
    if (llvm::Error error = cursor.SkipBlock()) return error;
  }
  return bytes.size();
}

// Clang emits static variables and functions without uses only if the source declares them `used`, as those of a section
// that the program walks. Bitcode that it embeds does not say so, and linking would drop them.
void keep_used(llvm::Module &module) {
  std::vector<llvm::GlobalValue *> used;
  for (llvm::GlobalObject &object : module.global_objects())
    if (!object.isDeclaration() && object.hasLocalLinkage() && object.use_empty()) used.push_back(&object);
  llvm::appendToCompilerUsed(module, used);
}

llvm::Error link_section(llvm::StringRef bytes, const std::string &path, llvm::Linker &linker,
                         llvm::LLVMContext &context, size_t &modules) {
  while (bytes.starts_with(kMagic)) {
    auto length = module_length(bytes);
    if (!length) return length.takeError();
    const auto one = llvm::MemoryBuffer::getMemBufferCopy(bytes.take_front(*length), path);  // aligned, unlike the section
    bytes = bytes.drop_front(*length);
    auto module = llvm::parseBitcodeFile(*one, context);
    if (!module) return module.takeError();
    keep_used(**module);
    const std::string source = (*module)->getSourceFileName();
    if (linker.linkInModule(std::move(*module))) return problem("the module of " + source + " does not link");
    ++modules;
  }
  return bytes.empty() ? llvm::Error::success() : problem("no module where one must be");
}

llvm::Error link_file(const std::string &path, llvm::Linker &linker, llvm::LLVMContext &context, Symbols &symbols,
                      size_t &modules) {
  auto binary = llvm::object::ObjectFile::createObjectFile(path);
  if (!binary) return problem(path + ": " + llvm::toString(binary.takeError()));
  const llvm::object::ObjectFile &file = *binary->getBinary();
  if (llvm::Error error = read_symbols(file, symbols)) return error;
  for (const llvm::object::SectionRef &section : file.sections()) {
    auto name = section.getName();
    if (!name || *name != kSection) {
      llvm::consumeError(name.takeError());
      continue;
    }
    auto contents = section.getContents();
    if (!contents) return contents.takeError();
    if (llvm::Error error = link_section(*contents, path, linker, context, modules))
      return problem(path + ": the bitcode in it cannot be used: " + llvm::toString(std::move(error)));
  }
  return llvm::Error::success();
}

// In the module, so that every report on it can list it.
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

  llvm::json::Array inline_functions;
  for (const llvm::Function &function : whole)
    if (function.hasAvailableExternallyLinkage()) inline_functions.push_back(function.getName().str());
  note_missing(whole, kMissingFunctions, functions);
  note_missing(whole, kMissingVariables, variables);
  std::error_code error;
  llvm::raw_fd_ostream stream(output, error, llvm::sys::fs::OF_None);
  if (error) return problem(output + ": " + error.message());
  llvm::WriteBitcodeToFile(whole, stream);
  stream.close();
  if (stream.has_error()) return problem(output + ": " + stream.error().message());
  return llvm::json::Object{
      {"modules", modules},
      {"inline_functions", std::move(inline_functions)},
      {"missing_functions", std::move(functions)},
      {"missing_variables", std::move(variables)}};
}

}  // namespace analyze
