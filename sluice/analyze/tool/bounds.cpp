#include "bounds.h"

#include <algorithm>

#include "llvm/IR/Instructions.h"

namespace analyze {

constexpr unsigned kMostDepth = 4;               // of operands
constexpr uint64_t kMostLength = uint64_t{1} << 20;  // beyond, a bound says nothing of a structure

// ... by its type alone
static uint64_t most_of_type(const llvm::Type *type) {
  const unsigned bits = type->isIntegerTy() ? type->getIntegerBitWidth() : 64;
  return bits < 64 ? (uint64_t{1} << bits) - 1 : UINT64_MAX;
}

// The largest value that an integer may have, without its sign; UINT64_MAX if that is not known.
static uint64_t most_of(const llvm::Value *value, unsigned depth) {
  using namespace llvm;
  const uint64_t any = most_of_type(value->getType());
  if (const auto *constant = dyn_cast<ConstantInt>(value)) return constant->getValue().getLimitedValue();
  if (value->getType()->isIntegerTy() && value->getType()->getIntegerBitWidth() > 64) return any;  // no number here has it
  if (depth == kMostDepth) return any;
  const auto operand = [&](unsigned index) { return most_of(cast<Instruction>(value)->getOperand(index), depth + 1); };
  if (isa<ZExtInst>(value)) return operand(0);
  if (isa<SExtInst>(value)) {
    const uint64_t found = operand(0);  // of a negative number, nothing is known
    return found <= most_of_type(cast<Instruction>(value)->getOperand(0)->getType()) / 2 ? found : any;
  }
  if (isa<TruncInst>(value)) return std::min(operand(0), any);
  if (isa<SelectInst>(value)) return std::max(operand(1), operand(2));
  if (const auto *phi = dyn_cast<PHINode>(value)) {
    uint64_t found = 0;
    for (unsigned index = 0; index < phi->getNumIncomingValues() && found < any; ++index)
      found = std::max(found, operand(index));
    return found;
  }
  const auto *binary = dyn_cast<BinaryOperator>(value);
  if (!binary) return any;
  const auto *right = dyn_cast<ConstantInt>(binary->getOperand(1));
  const uint64_t number = right ? right->getValue().getLimitedValue() : 0;
  switch (binary->getOpcode()) {
    case Instruction::And: return std::min(operand(0), operand(1));
    case Instruction::URem: return number ? std::min(operand(0), number - 1) : operand(0);
    case Instruction::UDiv: return number ? operand(0) / number : operand(0);
    case Instruction::LShr: return number < 64 ? operand(0) >> number : 0;
    case Instruction::Add: {
      const uint64_t left = operand(0), other = operand(1);
      return left <= any - std::min(any, other) ? left + other : any;  // it may overflow
    }
    case Instruction::Mul: {
      const uint64_t left = operand(0), other = operand(1);
      return other == 0 || left <= any / other ? left * other : any;
    }
    default: return any;
  }
}

uint64_t most_bytes(const llvm::Value *length) {
  const uint64_t found = most_of(length, 0);
  return found <= kMostLength || llvm::isa<llvm::ConstantInt>(length) ? found : UINT64_MAX;
}

}  // namespace analyze
