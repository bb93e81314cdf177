// The system dependence graph of a program (Horwitz, Reps, Binkley, 1990), made on demand: the nodes that a node depends
// on are computed when they are requested.
//
// Dependences through memory use memory SSA: one version of each atom for each instruction that may write it, for
// each place where control flow joins, and at the entry of each function. A write that overwrites all of an atom
// (strong update) ends the chain of versions; others depend on the version before. The versions of an atom are found by
// local value numbering (Braun et al., 2013), so that only those exist that a slice needs.
#pragma once

#include "access.h"

namespace analyze {

struct Node {
  enum Kind {
    Value,    // of a register, an argument, or a branch: llvm::Value
    Result,   // the return value of a function: llvm::Function
    Runs,     // whether a block runs: llvm::BasicBlock
    Called,   // whether a function is called: llvm::Function
    Reads,    // what a call of a function outside the program reads: llvm::CallBase
    Area,     // the atoms of a footprint, if the order of writes is not considered; its number is in `atom`
    Writers,  // ... instructions that may write them
    Written,  // version of an atom after an instruction that may write it: llvm::Instruction
    Joined,   // ... at the beginning of a block: llvm::BasicBlock
    Entered,  // ... at the entry of a function: llvm::Function
    Left,     // ... at the return of a function: llvm::Function
    Shared,   // an atom that threads share, or of which the order of writes is not considered
  } kind;
  const void *what;
  Atom atom = 0;
};

using GraphNode = uint32_t;

struct Dependence {
  enum Kind {
    Local,
    Down,  // on the result of a call's callee
    Up,    // on the arguments of the call: from the callee to the call
    Jump,  // into code whose caller does not matter: that of another thread
  } kind;
  GraphNode on;
  const llvm::CallBase *site = nullptr;  // Down, Up
};

// What a slice follows: a graph of dependences, or its reverse.
class Edges {
 public:
  virtual ~Edges() = default;
  virtual const Node &node(GraphNode number) const = 0;
  // Of a graph: what the node depends on. They stay where they are in memory when those of other nodes are found.
  virtual llvm::ArrayRef<Dependence> dependences(GraphNode node) = 0;
};

// Whether dependences through memory follow the order of writes and reads, by versions; or a read depends on all writes of
// the program that may write the same memory, which is less precise, and takes much less time and memory.
enum class Order { Versions, Any };

// Which dependences count.
enum class Follow {
  All,
  // Those of values only, without addresses, and of control only where it selects among constants (thin slices:
  // Sridharan et al., 2007).
  Values,
};

class Graph : public Edges {
 public:
  Graph(const Accesses &accesses, Follow follow, Order order = Order::Versions);

  const Accesses &accesses() const { return accesses_; }
  const Node &node(GraphNode number) const override { return nodes_[number]; }
  size_t nodes() const { return nodes_.size(); }

  GraphNode value(const llvm::Value *value) { return number({Node::Value, value}); }
  GraphNode runs(const llvm::BasicBlock *block) { return number({Node::Runs, block}); }
  // The version of an atom that an instruction reads.
  GraphNode before(const llvm::Instruction *instruction, Atom atom);
  GraphNode written(const llvm::Instruction *instruction, Atom atom) {
    return number({Node::Written, instruction, atom});
  }
  bool may_write(const llvm::Instruction &instruction, Atom atom) const;
  // The branches that decide whether a block runs.
  const std::vector<const llvm::Instruction *> &controls(const llvm::BasicBlock *block);

  llvm::ArrayRef<Dependence> dependences(GraphNode node) override;

  // The instruction that a node belongs to; nothing for those of functions and blocks.
  static const llvm::Instruction *instruction(const Node &node);
  static const llvm::Function *function(const Node &node);

 private:
  GraphNode number(const Node &node);
  void read(const llvm::Instruction &instruction);
  void local(GraphNode on) { out_.push_back({Dependence::Local, on}); }
  void operand(const llvm::Value *value);
  void of_value(const llvm::Value *value);
  void of_instruction(const llvm::Instruction &instruction);
  void of_call(const llvm::CallBase &call);
  void of_argument(const llvm::Argument &argument);
  void of_block(const llvm::BasicBlock *block);
  void of_called(const llvm::Function *function);
  void of_written(const llvm::Instruction &instruction, Atom atom);
  void of_transfer(const llvm::MemTransferInst &transfer, Atom atom);
  void of_entered(const llvm::Function *function, Atom atom);
  void of_left(const llvm::Function *function, Atom atom);
  bool points_to_own(const llvm::Function *function, Atom atom) const;
  GraphNode at_end(const llvm::BasicBlock *block, Atom atom);
  GraphNode at_begin(const llvm::BasicBlock *block, Atom atom);
  void find_writers();

  const Accesses &accesses_;
  Follow follow_;
  Order order_;
  std::vector<Node> nodes_;
  llvm::DenseMap<std::pair<const void *, uint64_t>, GraphNode> numbers_;
  std::vector<std::optional<std::vector<Dependence>>> known_;
  std::vector<Dependence> out_;
  llvm::DenseMap<const llvm::Function *, llvm::DenseMap<const llvm::BasicBlock *, std::vector<const llvm::Instruction *>>>
      controls_;
  llvm::DenseMap<const llvm::BasicBlock *, std::vector<const llvm::Instruction *>> writers_;  // in order
  std::map<Atom, std::vector<const llvm::Instruction *>> shared_writers_;
  bool shared_known_ = false;
  // for Order::Any
  std::vector<std::vector<const llvm::Instruction *>> writers_of_footprint_;
  llvm::DenseMap<Atom, std::vector<uint32_t>> footprints_of_;  // that writers have
};

}  // namespace analyze
