#include "models.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/YAMLTraits.h"

namespace {

using namespace analyze;

struct ExternalEntry {
  std::vector<std::string> functions;
  ExternalModel model;
};

struct ReceiveEntry {
  std::vector<std::string> functions;
  ReceiveModel model;
};

struct OutputEntry {
  std::vector<std::string> functions;
  OutputKind output = OutputKind::Both;
};

struct File {
  std::vector<OutputEntry> outputs;
  std::vector<ReceiveEntry> receive;
  std::vector<std::string> waits, sleeps, dispatches;
  std::vector<ExternalEntry> externals;
};

}  // namespace

LLVM_YAML_IS_SEQUENCE_VECTOR(ExternalEntry)
LLVM_YAML_IS_SEQUENCE_VECTOR(ReceiveEntry)
LLVM_YAML_IS_SEQUENCE_VECTOR(OutputEntry)
LLVM_YAML_IS_SEQUENCE_VECTOR(analyze::StoreModel)
LLVM_YAML_IS_SEQUENCE_VECTOR(analyze::MoveModel)
LLVM_YAML_IS_SEQUENCE_VECTOR(analyze::CallModel)
LLVM_YAML_IS_FLOW_SEQUENCE_VECTOR(analyze::Operand)

namespace llvm::yaml {

template <>
struct ScalarTraits<Operand> {
  static void output(const Operand &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *, Operand &operand) {
    if (text == "return") return operand.kind = Operand::Return, StringRef();
    if (text == "new") return operand.kind = Operand::New, StringRef();
    if (text == "static") return operand.kind = Operand::Static, StringRef();
    if (text == "unknown") return operand.kind = Operand::Unknown, StringRef();
    const bool contents = text.consume_front("*");
    if (text.consume_front("static(") && text.consume_back(")")) {
      operand.kind = contents ? Operand::StaticContents : Operand::Static;
      operand.name = text.str();
      return StringRef();
    }
    operand.kind = contents ? Operand::Pointee : Operand::Argument;
    const auto [argument, offset] = text.split('+');
    const bool no_offset = argument.size() == text.size();
    StringRef number = argument;
    if (number.consume_front("arg") && !number.getAsInteger(10, operand.index) && operand.index < 64 &&
        (no_offset || !offset.getAsInteger(10, operand.offset)))
      return StringRef();
    return "expected argN (from arg0), argN+BYTES, *argN, *argN+BYTES, return, new, static, static(NAME), *static(NAME) or unknown";
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <>
struct ScalarEnumerationTraits<CallRole> {
  static void enumeration(IO &io, CallRole &role) {
    io.enumCase(role, "callback", CallRole::Callback);
    io.enumCase(role, "registered", CallRole::Registered);
    io.enumCase(role, "thread", CallRole::Thread);
    io.enumCase(role, "signal", CallRole::Signal);
    io.enumCase(role, "exit", CallRole::Exit);
  }
};

template <>
struct MappingTraits<StoreModel> {
  static void mapping(IO &io, StoreModel &model) {
    io.mapRequired("to", model.to);
    io.mapRequired("value", model.value);
  }
};

template <>
struct MappingTraits<MoveModel> {
  static void mapping(IO &io, MoveModel &model) {
    io.mapRequired("to", model.to);
    io.mapRequired("from", model.from);
    io.mapOptional("bytes", model.bytes);
  }
};

template <>
struct MappingTraits<CallModel> {
  static void mapping(IO &io, CallModel &model) {
    io.mapRequired("function", model.function);
    io.mapOptional("arguments", model.arguments);
    io.mapOptional("as", model.role);
  }
};

template <>
struct MappingTraits<ExternalEntry> {
  static void mapping(IO &io, ExternalEntry &entry) {
    io.mapRequired("functions", entry.functions);
    io.mapOptional("returns", entry.model.returns);
    io.mapOptional("writes", entry.model.writes);
    io.mapOptional("overwrites", entry.model.overwrites);
    io.mapOptional("writes-varargs", entry.model.writes_varargs);
    io.mapOptional("stores", entry.model.stores);
    io.mapOptional("moves", entry.model.moves);
    io.mapOptional("calls", entry.model.calls);
    io.mapOptional("unknown-code", entry.model.unknown_code);
  }
};

template <>
struct MappingTraits<ReceiveEntry> {
  static void mapping(IO &io, ReceiveEntry &entry) {
    io.mapRequired("functions", entry.functions);
    io.mapRequired("packet", entry.model.packet);
    io.mapOptional("peer", entry.model.peer);
    io.mapOptional("callback", entry.model.callback);
  }
};

template <>
struct ScalarEnumerationTraits<OutputKind> {
  static void enumeration(IO &io, OutputKind &output) {
    io.enumCase(output, "packet", OutputKind::Packet);
    io.enumCase(output, "log", OutputKind::Log);
    io.enumCase(output, "both", OutputKind::Both);
  }
};

template <>
struct MappingTraits<OutputEntry> {
  static void mapping(IO &io, OutputEntry &entry) {
    io.mapRequired("functions", entry.functions);
    io.mapRequired("output", entry.output);
  }
};

template <>
struct MappingTraits<File> {
  static void mapping(IO &io, File &file) {
    io.mapOptional("receive", file.receive);
    io.mapOptional("outputs", file.outputs);
    io.mapOptional("waits", file.waits);
    io.mapOptional("sleeps", file.sleeps);
    io.mapOptional("dispatches", file.dispatches);
    io.mapOptional("externals", file.externals);
  }
};

}  // namespace llvm::yaml

namespace analyze {

static void collect_diagnostic(const llvm::SMDiagnostic &diagnostic, void *context) {
  std::string &text = *static_cast<std::string *>(context);
  if (text.empty())  // the first one; others follow from it
    text = (llvm::Twine(diagnostic.getFilename()) + ":" + llvm::Twine(diagnostic.getLineNo()) + ": " +
            diagnostic.getMessage())
               .str();
}

llvm::Error Models::read(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) return llvm::createStringError(buffer.getError(), path + ": " + buffer.getError().message());
  std::string problem;
  llvm::yaml::Input input(**buffer, nullptr, collect_diagnostic, &problem);
  File file;
  input >> file;
  if (input.error()) return llvm::createStringError(input.error(), problem.empty() ? path + ": not YAML" : problem);
  const std::string source = llvm::sys::path::stem(path).str();
  for (ReceiveEntry &entry : file.receive)
    for (const std::string &name : entry.functions) {
      receive_[name] = entry.model;
      receive_[name].source = source;
    }
  for (const OutputEntry &entry : file.outputs)
    for (const std::string &name : entry.functions) outputs_[name] = entry.output;
  for (const std::string &name : file.waits) waits_.insert(name);
  for (const std::string &name : file.sleeps) sleeps_.insert(name);
  for (const std::string &name : file.dispatches) {
    waits_.insert(name);
    dispatches_.insert(name);
  }
  for (ExternalEntry &entry : file.externals)
    for (const std::string &name : entry.functions) externals_[name] = entry.model;
  return llvm::Error::success();
}

}  // namespace analyze
