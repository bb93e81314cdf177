#include "assembly.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

namespace analyze {

namespace {

// Without the letter of the operands' size.
const llvm::StringSet<> &moving() {
  static const llvm::StringSet<> known{"mov", "xchg", "cmpxchg", "cmp", "test", "bt", "cmpxchg8b", "cmpxchg16b"};
  return known;
}

const llvm::StringSet<> &calculating() {
  static const llvm::StringSet<> known{"add", "sub", "and", "or",  "xor", "not", "neg", "inc",   "dec",    "xadd",  "bts",   "btr", "btc",
                                       "adc", "sbb", "shl", "shr", "sar", "rol", "ror", "bswap", "popcnt", "lzcnt", "tzcnt", "bsf", "bsr"};
  return known;
}

// They access no memory.
const llvm::StringSet<> &bare() {
  static const llvm::StringSet<> known{"nop", "pause", "mfence", "lfence", "sfence", "rdtsc", "rdtscp", "cpuid"};
  return known;
}

class Reader {
 public:
  explicit Reader(const llvm::CallBase &call) : call_(call), assembly_(*llvm::cast<llvm::InlineAsm>(call.getCalledOperand())) {}

  std::optional<Assembly> read() {
    if (assembly_.getDialect() != llvm::InlineAsm::AD_ATT || llvm::isa<llvm::CallBrInst>(call_)) return std::nullopt;
    if (!llvm::StringRef(call_.getModule()->getTargetTriple()).starts_with("x86_64") || !assign_operands()) return std::nullopt;
    llvm::SmallVector<llvm::StringRef> statements;
    llvm::SplitString(assembly_.getAsmString(), statements, "\n;");
    for (size_t i = 0; i < statements.size(); ++i) {
      const llvm::StringRef statement = statements[i].trim();
      const bool of_nop = statement == "rep" && i + 1 < statements.size() && statements[i + 1].trim() == "nop";
      if (statement != "lock" && !of_nop && !is_known(statement)) return std::nullopt;
    }
    return found_;
  }

 private:
  static constexpr int kResult = -1;  // an operand that is a result of the call

  // Of each operand, the argument of the call.
  bool assign_operands() {
    unsigned argument = 0;
    for (const llvm::InlineAsm::ConstraintInfo &constraint : assembly_.ParseConstraints()) {
      if (constraint.Type == llvm::InlineAsm::isClobber) continue;
      if (constraint.Type == llvm::InlineAsm::isLabel) return false;
      if (constraint.Type == llvm::InlineAsm::isOutput && !constraint.isIndirect) {
        operands_.push_back(kResult);
        continue;
      }
      if (constraint.isIndirect) {
        llvm::Type *type = call_.getParamElementType(argument);
        const uint64_t bytes = type ? call_.getDataLayout().getTypeStoreSize(type).getFixedValue() : 0;
        found_.addresses.push_back({argument, bytes});
      } else {
        found_.values.push_back(argument);
      }
      operands_.push_back(static_cast<int>(argument++));
    }
    return argument == call_.arg_size();
  }

  bool is_known(llvm::StringRef statement) {
    if (statement.contains('#')) return false;  // a comment may hide what follows
    while (!statement.empty() && llvm::isDigit(statement.front())) {  // local labels
      const auto [label, rest] = statement.split(':');
      if (label.size() == statement.size() || !llvm::all_of(label, llvm::isDigit)) return false;
      statement = rest.trim();
    }
    if (statement.empty()) return true;
    const bool locks = statement.consume_front("lock ") || statement.consume_front("lock\t");
    statement = statement.trim();
    const size_t end = statement.find_first_of(" \t");
    const llvm::StringRef name = statement.take_front(end), rest = statement.drop_front(name.size()).trim();
    if (bare().contains(name)) return rest.empty();
    llvm::StringRef base = name;
    const auto in = [&](const llvm::StringSet<> &set) {
      if (set.contains(name)) return true;
      base = name;
      return !name.empty() && llvm::StringRef("bwlq").contains(name.back()) && set.contains(base = name.drop_back());
    };
    const bool calculates = in(calculating());
    const bool sets = name.starts_with("set") || name.starts_with("cmov") || name.starts_with("movz");
    if (name.starts_with("j")) return is_local_label(rest);
    if (!calculates && !sets && !in(moving())) return false;
    llvm::SmallVector<llvm::StringRef> operands;
    split(rest, operands);
    // adding zero orders accesses of memory, and changes none
    if (locks && (base == "add" || base == "or") && !operands.empty() && operands.front() == "$$0") return true;
    found_.calculates = found_.calculates || calculates;
    const bool selects_bit = base.starts_with("bt") && operands.size() == 2 && !operands.front().starts_with("$$");
    const bool is_wide = name == "cmpxchg16b";
    return llvm::all_of(operands, [&](llvm::StringRef operand) { return is_operand(operand, selects_bit, is_wide); });
  }

  static bool is_local_label(llvm::StringRef text) {
    return text.size() >= 2 && llvm::all_of(text.drop_back(), llvm::isDigit) && (text.back() == 'f' || text.back() == 'b');
  }

  static void split(llvm::StringRef text, llvm::SmallVectorImpl<llvm::StringRef> &operands) {
    size_t begin = 0, depth = 0;
    for (size_t at = 0; at <= text.size(); ++at) {
      if (at < text.size() && text[at] == '(') ++depth;
      if (at < text.size() && text[at] == ')') --depth;
      if (at < text.size() && (text[at] != ',' || depth != 0)) continue;
      if (at > begin) operands.push_back(text.slice(begin, at).trim());
      begin = at + 1;
    }
  }

  // selects_bit: a register may hold the number of a bit after the operand. is_wide: memory of two words
  bool is_operand(llvm::StringRef text, bool selects_bit, bool is_wide) {
    if (text.consume_front("$$")) {
      int64_t number = 0;
      return !text.getAsInteger(0, number);
    }
    if (text.consume_front("%")) return llvm::all_of(text, llvm::isAlnum);
    if (const std::optional<int> argument = numbered(text)) {
      if (selects_bit)
        for (Assembly::Address &address : found_.addresses)
          if (static_cast<int>(address.argument) == *argument) address.bytes = 0;
      return true;
    }
    const auto [distance, rest] = text.split('(');  // memory to which an operand points
    llvm::StringRef base = rest;
    int64_t bytes = 0;
    if (!base.consume_back(")") || (!distance.trim().empty() && (distance.trim().getAsInteger(0, bytes) || bytes < 0)))
      return false;
    const std::optional<int> argument = numbered(base.trim());
    if (!argument || *argument == kResult) return false;
    const unsigned words = is_wide ? 2 : 1;
    for (unsigned word = 0; word < words; ++word)
      found_.addresses.push_back({static_cast<unsigned>(*argument), 0, static_cast<uint64_t>(bytes) + 8 * word});
    return true;
  }

  // The argument of `$1` or `${1:q}`.
  std::optional<int> numbered(llvm::StringRef text) const {
    if (!text.consume_front("$")) return std::nullopt;
    if (text.consume_front("{")) {
      if (!text.consume_back("}")) return std::nullopt;
      text = text.split(':').first;
    }
    unsigned number = 0;
    if (text.getAsInteger(10, number) || number >= operands_.size()) return std::nullopt;
    return operands_[number];
  }

  const llvm::CallBase &call_;
  const llvm::InlineAsm &assembly_;
  std::vector<int> operands_;
  Assembly found_;
};

}  // namespace

std::optional<Assembly> read_assembly(const llvm::CallBase &call) { return Reader(call).read(); }

}  // namespace analyze
