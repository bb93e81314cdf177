#include "graph.h"

#include "llvm/Analysis/PostDominators.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

Graph::Graph(const Accesses &accesses, Follow follow, Order order)
    : accesses_(accesses), follow_(follow), order_(order) {
  if (order == Order::Any) find_writers();
}

GraphNode Graph::number(const Node &node) {
  const auto key = std::make_pair(node.what, uint64_t{node.atom} << 4 | node.kind);
  const auto [found, fresh] = numbers_.try_emplace(key, static_cast<GraphNode>(nodes_.size()));
  if (fresh) {
    nodes_.push_back(node);
    known_.emplace_back();
  }
  return found->second;
}

const llvm::Instruction *Graph::instruction(const Node &node) {
  if (node.kind == Node::Value)
    return llvm::dyn_cast<llvm::Instruction>(static_cast<const llvm::Value *>(node.what));
  const bool is_instruction = node.kind == Node::Written || node.kind == Node::Reads;
  return is_instruction ? static_cast<const llvm::Instruction *>(node.what) : nullptr;
}

const llvm::Function *Graph::function(const Node &node) {
  switch (node.kind) {
    case Node::Value:
      if (const auto *argument = llvm::dyn_cast<llvm::Argument>(static_cast<const llvm::Value *>(node.what)))
        return argument->getParent();
      [[fallthrough]];
    case Node::Reads:
    case Node::Written: return instruction(node)->getFunction();
    case Node::Runs:
    case Node::Joined: return static_cast<const llvm::BasicBlock *>(node.what)->getParent();
    case Node::Result:
    case Node::Called:
    case Node::Entered:
    case Node::Left: return static_cast<const llvm::Function *>(node.what);
    case Node::Area:
    case Node::Writers:
    case Node::Shared: return nullptr;
  }
  return nullptr;
}

bool Graph::may_write(const llvm::Instruction &instruction, Atom atom) const {
  if (accesses_.writes(instruction, atom)) return true;
  const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
  return site && llvm::any_of(accesses_.runs(*site), [&](const llvm::Function *callee) {
           return accesses_.may_write(callee).test(atom);
         });
}

llvm::ArrayRef<Dependence> Graph::dependences(GraphNode number) {
  if (known_[number]) return *known_[number];
  const Node node = nodes_[number];
  out_.clear();
  switch (node.kind) {
    case Node::Value: of_value(static_cast<const llvm::Value *>(node.what)); break;
    case Node::Result:
      for (const llvm::BasicBlock &block : *static_cast<const llvm::Function *>(node.what))
        if (const auto *ret = llvm::dyn_cast<llvm::ReturnInst>(block.getTerminator()); ret && ret->getReturnValue()) {
          operand(ret->getReturnValue());
          if (follow_ == Follow::All || llvm::isa<llvm::Constant>(ret->getReturnValue())) local(runs(&block));
        }
      break;
    case Node::Runs: of_block(static_cast<const llvm::BasicBlock *>(node.what)); break;
    case Node::Called: of_called(static_cast<const llvm::Function *>(node.what)); break;
    case Node::Reads: read(*static_cast<const llvm::Instruction *>(node.what)); break;
    case Node::Area:
      for (const Atom atom : accesses_.atoms(node.atom)) local(this->number({Node::Shared, nullptr, atom}));
      break;
    case Node::Written: of_written(*static_cast<const llvm::Instruction *>(node.what), node.atom); break;
    case Node::Joined: break;  // at_begin() finds them
    case Node::Entered: of_entered(static_cast<const llvm::Function *>(node.what), node.atom); break;
    case Node::Left: of_left(static_cast<const llvm::Function *>(node.what), node.atom); break;
    case Node::Writers:
      for (const llvm::Instruction *writer : writers_of_footprint_[node.atom])
        out_.push_back({Dependence::Jump, written(writer, 0)});
      break;
    case Node::Shared:
      if (order_ == Order::Any) {
        if (const auto found = footprints_of_.find(node.atom); found != footprints_of_.end())
          for (const uint32_t footprint : found->second) local(this->number({Node::Writers, nullptr, footprint}));
        break;
      }
      for (const llvm::Instruction *writer : shared_writers_[node.atom])
        out_.push_back({Dependence::Jump, written(writer, node.atom)});
      break;
  }
  known_[number] = std::move(out_);
  out_.clear();
  return *known_[number];
}

void Graph::operand(const llvm::Value *value) {
  if (llvm::isa<llvm::Instruction, llvm::Argument>(value)) local(this->value(value));
}

void Graph::of_value(const llvm::Value *value) {
  if (const auto *argument = llvm::dyn_cast<llvm::Argument>(value))
    of_argument(*argument);
  else
    of_instruction(*llvm::cast<llvm::Instruction>(value));
}

void Graph::of_instruction(const llvm::Instruction &instruction) {
  using namespace llvm;
  if (follow_ == Follow::All) local(runs(instruction.getParent()));
  if (const auto *call = dyn_cast<CallBase>(&instruction)) {
    of_call(*call);
    return;
  }
  const bool loads = isa<LoadInst, AtomicRMWInst, AtomicCmpXchgInst>(instruction);
  for (const Use &used : instruction.operands()) {
    const bool address = loads && used->getType()->isPointerTy() && used.getOperandNo() == 0;
    if (!address || follow_ == Follow::All) operand(used.get());
  }
  if (const auto *phi = dyn_cast<PHINode>(&instruction)) {
    for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i)
      if (follow_ == Follow::All || isa<Constant>(phi->getIncomingValue(i))) local(runs(phi->getIncomingBlock(i)));
  }
  if (loads) read(instruction);
}

// Dependences on the memory that an instruction reads.
void Graph::read(const llvm::Instruction &instruction) {
  const std::vector<uint32_t> &footprints = accesses_.of(instruction).reads;
  if (order_ == Order::Any)
    for (const uint32_t footprint : footprints) local(number({Node::Area, nullptr, footprint}));
  else
    for (const Atom atom : accesses_.all(footprints)) local(before(&instruction, atom));
}

void Graph::of_call(const llvm::CallBase &call) {
  const auto callees = accesses_.points_to().calls().callees(&call);
  bool outside = callees.empty();
  for (const llvm::Function *callee : callees) {
    if (callee->isDeclaration())
      outside = true;
    else if (!callee->getReturnType()->isVoidTy())
      out_.push_back({Dependence::Down, number({Node::Result, callee}), &call});
  }
  if (follow_ == Follow::All) operand(call.getCalledOperand());
  if (!outside) return;
  for (const llvm::Use &argument : call.args())
    if (follow_ == Follow::All || !argument->getType()->isPointerTy()) operand(argument.get());
  for (const llvm::Function *callback : accesses_.points_to().calls().callbacks(&call))
    if (!callback->getReturnType()->isVoidTy())
      out_.push_back({Dependence::Down, number({Node::Result, callback}), &call});
  local(number({Node::Reads, &call}));
}

void Graph::of_argument(const llvm::Argument &argument) {
  const llvm::Function *function = argument.getParent();
  const CallGraph &calls = accesses_.points_to().calls();
  const bool pointer = argument.getType()->isPointerTy();
  for (const llvm::CallBase *site : accesses_.run_by(*function)) {
    const bool called = llvm::is_contained(calls.callees(site), function);
    const unsigned index = argument.getArgNo();
    for (const llvm::Use &given : site->args()) {
      // a library passes its arguments on, in an unknown order
      if (called ? given.getOperandNo() != index : !pointer) continue;
      if (llvm::isa<llvm::Instruction, llvm::Argument>(given.get()))
        out_.push_back({Dependence::Up, value(given.get()), site});
      else if (called && follow_ == Follow::Values)
        out_.push_back({Dependence::Up, runs(site->getParent()), site});  // selects among constants
    }
    if (called && argument.hasByValAttr() && index < site->arg_size()) continue;
  }
  for (const Spawn &spawn : calls.spawns())
    if (spawn.function == function && spawn.role != CallRole::Callback && spawn.site && pointer)
      for (const llvm::Use &given : spawn.site->args())
        if (llvm::isa<llvm::Instruction, llvm::Argument>(given.get()))
          out_.push_back({Dependence::Jump, value(given.get())});
}

void Graph::of_block(const llvm::BasicBlock *block) {
  const std::vector<const llvm::Instruction *> &branches = controls(block);
  for (const llvm::Instruction *branch : branches) local(value(branch));
  if (follow_ == Follow::All) local(number({Node::Called, block->getParent()}));
}

void Graph::of_called(const llvm::Function *function) {
  const CallGraph &calls = accesses_.points_to().calls();
  for (const llvm::CallBase *site : accesses_.run_by(*function)) {
    out_.push_back({Dependence::Up, runs(site->getParent()), site});
    const llvm::Value *callee = site->getCalledOperand();
    if (llvm::isa<llvm::Instruction, llvm::Argument>(callee)) out_.push_back({Dependence::Up, value(callee), site});
  }
  for (const Spawn &spawn : calls.spawns())
    if (spawn.function == function && spawn.role != CallRole::Callback)
      out_.push_back({Dependence::Jump, runs(spawn.site->getParent())});
}

// For each block, the branches that decide whether it runs (Ferrante, Ottenstein, Warren, 1987).
const std::vector<const llvm::Instruction *> &Graph::controls(const llvm::BasicBlock *block) {
  const llvm::Function *function = block->getParent();
  const auto [found, fresh] = controls_.try_emplace(function);
  auto &of = found->second;
  if (fresh) {
    llvm::PostDominatorTree tree(*const_cast<llvm::Function *>(function));
    for (const llvm::BasicBlock &from : *function) {
      if (from.getTerminator()->getNumSuccessors() < 2) continue;
      const llvm::DomTreeNode *end = tree.getNode(&from) ? tree.getNode(&from)->getIDom() : nullptr;
      for (const llvm::BasicBlock *to : llvm::successors(&from))
        for (const llvm::DomTreeNode *at = tree.getNode(to); at && at != end; at = at->getIDom())
          if (at->getBlock() && !llvm::is_contained(of[at->getBlock()], from.getTerminator()))
            of[at->getBlock()].push_back(from.getTerminator());
    }
  }
  return of[block];
}

}  // namespace analyze
