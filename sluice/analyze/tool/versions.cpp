// The versions of atoms: memory SSA, as far as slices need it.
#include "graph.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

void Graph::find_writers() {
  for (const llvm::Function *function : accesses_.points_to().calls().entered())
    for (const llvm::Instruction &instruction : llvm::instructions(*function))
      for (const uint32_t footprint : accesses_.of(instruction).writes) {
        if (footprint >= writers_of_footprint_.size()) writers_of_footprint_.resize(footprint + 1);
        writers_of_footprint_[footprint].push_back(&instruction);
      }
  for (uint32_t footprint = 0; footprint < writers_of_footprint_.size(); ++footprint)
    if (!writers_of_footprint_[footprint].empty())
      for (const Atom atom : accesses_.atoms(footprint)) footprints_of_[atom].push_back(footprint);
}

GraphNode Graph::before(const llvm::Instruction *instruction, Atom atom) {
  if (order_ == Order::Any) return number({Node::Shared, nullptr, atom});
  if (accesses_.is_shared(atom)) {
    if (!shared_known_) {
      shared_known_ = true;
      for (const llvm::Function *function : accesses_.points_to().calls().entered())
        for (const llvm::Instruction &one : llvm::instructions(*function))
          for (const Atom written : accesses_.all(accesses_.of(one).writes))
            if (accesses_.is_shared(written)) shared_writers_[written].push_back(&one);
    }
    return number({Node::Shared, nullptr, atom});
  }
  const llvm::BasicBlock *block = instruction->getParent();
  const llvm::Function *function = block->getParent();
  if (!accesses_.may_write(function).test(atom) && !points_to_own(function, atom))
    return number({Node::Entered, function, atom});
  for (const llvm::Instruction *at = instruction->getPrevNode(); at; at = at->getPrevNode())
    if (may_write(*at, atom)) return written(at, atom);
  return at_begin(block, atom);
}

// Whether the atom belongs to a local variable of the function, which summaries of functions leave out.
bool Graph::points_to_own(const llvm::Function *function, Atom atom) const {
  const MemoryObject &object = accesses_.points_to().memory().object(accesses_.object_of(atom));
  const auto *variable = llvm::dyn_cast_or_null<llvm::AllocaInst>(object.site);
  return variable && variable->getFunction() == function;
}

GraphNode Graph::at_end(const llvm::BasicBlock *block, Atom atom) {
  auto [found, fresh] = writers_.try_emplace(block);
  if (fresh) {
    std::vector<const llvm::Instruction *> writers;
    for (const llvm::Instruction &instruction : *block) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      if (!accesses_.of(instruction).writes.empty() || (site && !accesses_.runs(*site).empty()))
        writers.push_back(&instruction);
    }
    writers_[block] = std::move(writers);
  }
  for (const llvm::Instruction *writer : llvm::reverse(writers_[block]))
    if (may_write(*writer, atom)) return written(writer, atom);
  return at_begin(block, atom);
}

GraphNode Graph::at_begin(const llvm::BasicBlock *block, Atom atom) {
  for (;;) {  // where control flow does not join, the version is that of the block before
    if (block->isEntryBlock()) return number({Node::Entered, block->getParent(), atom});
    const llvm::BasicBlock *only = block->getSinglePredecessor();
    if (!only) {
      const GraphNode join = number({Node::Joined, block, atom});
      if (!known_[join]) {
        known_[join].emplace();  // a loop that returns here finds the version at its beginning
        llvm::SetVector<GraphNode> versions;
        for (const llvm::BasicBlock *before : llvm::predecessors(block)) versions.insert(at_end(before, atom));
        versions.remove(join);
        std::vector<Dependence> dependences;
        for (const GraphNode version : versions) dependences.push_back({Dependence::Local, version});
        if (versions.size() > 1 && follow_ == Follow::All)
          for (const llvm::BasicBlock *before : llvm::predecessors(block))
            dependences.push_back({Dependence::Local, runs(before)});
        known_[join] = std::move(dependences);
      }
      // where all paths bring the same version, nothing is joined
      return known_[join]->size() == 1 ? known_[join]->front().on : join;
    }
    const auto found = writers_.find(only);
    if (found == writers_.end()) return at_end(only, atom);
    const llvm::Instruction *last = nullptr;
    for (const llvm::Instruction *writer : llvm::reverse(found->second))
      if (may_write(*writer, atom)) {
        last = writer;
        break;
      }
    if (last) return written(last, atom);
    block = only;
  }
}

void Graph::of_written(const llvm::Instruction &instruction, Atom atom) {
  using namespace llvm;
  const bool all = follow_ == Follow::All;
  if (all) local(runs(instruction.getParent()));
  if (order_ == Order::Versions && !accesses_.overwrites(instruction, atom)) {
    const auto *site = dyn_cast<CallBase>(&instruction);
    const auto runs = site ? accesses_.runs(*site) : ArrayRef<const Function *>();
    // memory that a callee does not write depends on its entry; here is memory that no callee writes
    const bool always = !runs.empty() && !accesses_.repeats(*site) && !accesses_.writes(instruction, atom) &&
                        llvm::all_of(runs, [&](const Function *one) { return accesses_.may_write(one).test(atom); });
    if (!always && !accesses_.is_shared(atom)) local(before(&instruction, atom));
  }
  if (const auto *store = dyn_cast<StoreInst>(&instruction)) {
    operand(store->getValueOperand());
    if (all) operand(store->getPointerOperand());
    if (!all && isa<Constant>(store->getValueOperand())) local(runs(instruction.getParent()));
    return;
  }
  const auto *call = dyn_cast<CallBase>(&instruction);
  if (!call) {
    local(value(&instruction));  // atomic instructions
    return;
  }
  for (const Function *callee : accesses_.runs(*call))
    if (order_ == Order::Versions && accesses_.may_write(callee).test(atom))
      out_.push_back({Dependence::Down, number({Node::Left, callee, atom}), call});
  if (order_ == Order::Versions && !accesses_.writes(instruction, atom)) return;
  if (const auto *transfer = dyn_cast<MemTransferInst>(call); transfer && order_ == Order::Versions) {
    of_transfer(*transfer, atom);
    return;
  }
  for (const Use &argument : call->args())
    if (all || !argument->getType()->isPointerTy()) operand(argument.get());
  local(number({Node::Reads, call}));
}

// A copy of memory: an atom depends on the bytes that are copied to it, if both places are known.
void Graph::of_transfer(const llvm::MemTransferInst &transfer, Atom atom) {
  if (follow_ == Follow::All)
    for (const llvm::Use &argument : transfer.args()) operand(argument.get());
  const std::vector<Atom> reads = accesses_.all(accesses_.of(transfer).reads);
  const std::vector<Atom> writes = accesses_.all(accesses_.of(transfer).writes);
  const bool one_target = accesses_.object_of(writes.front()) == accesses_.object_of(writes.back());
  const auto start_of = [&](const std::vector<Atom> &atoms) { return accesses_.bytes(atoms.front()).first; };
  const std::vector<Region> none;
  for (size_t i = 0; i < reads.size();) {  // object by object
    size_t end = i;
    const ObjectId object = accesses_.object_of(reads[i]);
    while (end < reads.size() && accesses_.object_of(reads[end]) == object) ++end;
    const std::vector<Atom> part(reads.begin() + static_cast<std::ptrdiff_t>(i),
                                 reads.begin() + static_cast<std::ptrdiff_t>(end));
    const bool plain = one_target && accesses_.points_to().memory().object(object).regions.empty() &&
                       accesses_.points_to().memory().object(accesses_.object_of(atom)).regions.empty() &&
                       llvm::isa<llvm::ConstantInt>(transfer.getLength());
    for (const Atom read : part) {
      const auto [from, to] = accesses_.bytes(read);
      const auto [first, last] = accesses_.bytes(atom);
      const uint64_t shift = start_of(writes) - start_of(part);  // modulo 2^64
      const bool meets = !plain || to == Accesses::kToEnd || last == Accesses::kToEnd ||
                         (from + shift < last && first < to + shift);
      if (meets) local(before(&transfer, read));
    }
    i = end;
  }
}

void Graph::of_entered(const llvm::Function *function, Atom atom) {
  for (const llvm::CallBase *site : accesses_.run_by(*function)) {
    out_.push_back({Dependence::Up, before(site, atom), site});
    if (!accesses_.repeats(*site)) continue;
    for (const llvm::Function *other : accesses_.runs(*site))  // an earlier call by the same library function
      if (accesses_.may_write(other).test(atom))
        out_.push_back({Dependence::Jump, number({Node::Left, other, atom})});
  }
  for (const Spawn &spawn : accesses_.points_to().calls().spawns())
    if (spawn.function == function && (spawn.role == CallRole::Thread || spawn.role == CallRole::Signal))
      out_.push_back({Dependence::Jump, before(spawn.site, atom)});
}

void Graph::of_left(const llvm::Function *function, Atom atom) {
  for (const llvm::BasicBlock &block : *function)
    if (llvm::isa<llvm::ReturnInst>(block.getTerminator())) local(at_end(&block, atom));
}

}  // namespace analyze
