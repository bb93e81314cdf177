// What inline assembly does with memory, where its text shows that: instructions of x86 that access no memory but that
// of their operands, such as atomic ones and barriers.
#pragma once

#include <optional>
#include <vector>

#include "llvm/IR/InstrTypes.h"

namespace analyze {

struct Assembly {
  struct Address {
    unsigned argument;  // of the call, that points to the memory
    uint64_t bytes;     // 0: not known
    uint64_t distance = 0;  // of the memory from there, in bytes
  };
  std::vector<Address> addresses;
  std::vector<unsigned> values;  // arguments that are used as values
  bool calculates = false;       // with what it reads; else it only moves and compares it
};

// Nothing if it may do anything: for calls, implicit operands, symbols, and what is not x86.
std::optional<Assembly> read_assembly(const llvm::CallBase &call);

}  // namespace analyze
