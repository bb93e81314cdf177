#include "flowspace.h"

#include <algorithm>

#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

Flowspace::Flowspace(const Accesses &accesses, const Receives &receives, const Reach &reach,
                     const Lifetimes &lifetimes, const Classes &classes, const Updates &updates, const Fields &fields)
    : accesses_(accesses),
      receives_(receives),
      reach_(reach),
      lifetimes_(lifetimes),
      classes_(classes),
      updates_(updates),
      fields_(fields),
      graph_(accesses, Follow::Values),
      origins_(graph_, [this](const Node &node) { return ends_origins(node); }),
      keys_(classes.persistent().size()),
      loads_(classes.persistent().size()),
      complete_(classes.persistent().size(), true) {
  find_packets();
  find_searches();
  find_indices();
  for (size_t number = 0; number < keys_.size(); ++number)
    if (classes.persistent()[number].top_level()) assign(number);
}

// Memory that contains packets: the results and buffers of receive calls, and copies of whole packets.
void Flowspace::find_packets() {
  const PointsTo &points_to = accesses_.points_to();
  const Memory &memory = points_to.memory();
  const auto add = [&](llvm::ArrayRef<NodeId> cells) {
    for (const NodeId cell : cells)
      if (memory.object(memory.object_of(cell)).kind != ObjectKind::Function) packets_.insert(memory.object_of(cell));
  };
  for (const ReceiveCall &call : receives_.calls()) {
    const Operand &packet = call.model->packet;
    if (call.model->callback.kind != Operand::None) {
      for (const llvm::Function *callback : points_to.calls().callbacks(call.site))
        if (packet.index < callback->arg_size()) add(points_to.targets(callback->getArg(packet.index)));
    } else if (call.model->peer.kind == Operand::Argument && call.model->peer.index < call.site->arg_size()) {
      add(points_to.targets(call.site->getArgOperand(call.model->peer.index)));
    }
    if (call.model->callback.kind != Operand::None) continue;
    if (packet.kind == Operand::Return) {
      add(points_to.targets(call.site));
    } else if (packet.index < call.site->arg_size()) {
      for (const NodeId cell : points_to.targets(call.site->getArgOperand(packet.index))) {
        if (packet.kind == Operand::Argument)
          add({cell});
        else
          add(points_to.constraints().targets(cell));
      }
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const llvm::Function *function : reach_.functions())
      for (const llvm::Instruction &instruction : llvm::instructions(*function)) {
        const auto *transfer = llvm::dyn_cast<llvm::MemTransferInst>(&instruction);
        if (!transfer || !is_packet(transfer->getRawSource()) || fields_.is_member(transfer->getRawSource())) continue;
        if (fields_.is_member(transfer->getRawDest())) continue;
        for (const NodeId cell : points_to.targets(transfer->getRawDest()))
          changed = packets_.insert(memory.object_of(cell)).second || changed;
      }
  }
}

bool Flowspace::is_packet(const llvm::Value *pointer) const {
  const Memory &memory = accesses_.points_to().memory();
  const llvm::Value *base = pointer->stripInBoundsConstantOffsets();
  if (const ObjectId *object = llvm::isa<llvm::GlobalVariable, llvm::AllocaInst>(base)
                                   ? accesses_.points_to().object_of(base)
                                   : nullptr)
    return packets_.contains(*object);
  return llvm::any_of(accesses_.points_to().targets(pointer),
                      [&](NodeId cell) { return packets_.contains(memory.object_of(cell)); });
}

// The ends of the search for the origin of a pointer.
bool Flowspace::ends_origins(const Node &node) const {
  if (node.kind < Node::Written) return node.kind == Node::Runs;
  const MemoryObject &object = accesses_.points_to().memory().object(accesses_.object_of(node.atom));
  return object.kind != ObjectKind::Stack || classes_.numbered(object.site);
}

// The variables that a pointer is derived from: by registers, arguments and local variables of no duration, and not
// through unnamed memory, which may be reached from several variables.
llvm::DenseSet<ObjectId> Flowspace::find_origins(const llvm::Value *pointer) {
  llvm::DenseSet<ObjectId> found;
  const PointsTo &points_to = accesses_.points_to();
  const auto named = [&](ObjectId object) { return classes_.numbered(points_to.memory().object(object).site); };
  const auto add = [&](const llvm::Value *value) {  // the address of a variable
    const llvm::Value *base = value->stripInBoundsConstantOffsets();
    while (const auto *address = llvm::dyn_cast<llvm::GEPOperator>(base)) base = address->getPointerOperand();
    const ObjectId *object =
        llvm::isa<llvm::GlobalVariable, llvm::AllocaInst>(base) ? points_to.object_of(base) : nullptr;
    if (object && named(*object)) found.insert(*object);
  };
  add(pointer);
  if (!llvm::isa<llvm::Instruction, llvm::Argument>(pointer)) return found;
  Slicer &slice = origins_;
  slice.restart(std::min(kMostSteps / 10, left_for_origins_));
  const bool complete = slice.follow({graph_.value(pointer)});
  left_for_origins_ -= std::min(left_for_origins_, slice.work());
  if (!complete)  // then it may be derived from any of those that it may point into
    for (const NodeId cell : points_to.targets(pointer)) found.insert(points_to.memory().object_of(cell));
  for (const GraphNode number : slice.nodes()) {
    const Node &node = graph_.node(number);
    if (node.kind >= Node::Written && named(accesses_.object_of(node.atom))) {
      found.insert(accesses_.object_of(node.atom));
    } else if (const llvm::Instruction *instruction = Graph::instruction(node)) {
      const bool passes = llvm::isa<llvm::PHINode, llvm::SelectInst, llvm::GetElementPtrInst, llvm::StoreInst,
                                    llvm::CallBase, llvm::ReturnInst>(instruction);
      if (passes)
        for (const llvm::Use &used : instruction->operands())
          if (used->getType()->isPointerTy()) add(used.get());
    } else if (const auto *argument = node.kind == Node::Value
                                          ? llvm::dyn_cast<llvm::Argument>(static_cast<const llvm::Value *>(node.what))
                                          : nullptr) {
      for (const llvm::CallBase *site : accesses_.run_by(*argument->getParent()))
        if (argument->getArgNo() < site->arg_size()) add(site->getArgOperand(argument->getArgNo()));
    }
  }
  return found;
}

const llvm::DenseSet<ObjectId> &Flowspace::origins(const llvm::Value *pointer) {
  const auto [found, is_new] = known_origins_.try_emplace(pointer);
  if (is_new) found->second = find_origins(pointer);
  return found->second;
}

// Slices from a value. Returns whether the slice is complete.
bool Flowspace::slice(Slicer &slice, const llvm::Value *from) {
  slice.restart(std::min(kMostSteps, left_));
  const bool complete = slice.follow({graph_.value(from)});
  left_ -= std::min(left_, slice.work());
  return complete;
}

// Loops that follow pointers or count through memory, with the branches that decide when they end.
void Flowspace::find_searches() {
  for (const llvm::Function *function : reach_.functions())
    for (const Loop &loop : lifetimes_.loops(function)) {
      if (llvm::is_contained(classes_.loops(), &loop)) continue;  // the loop over packets
      Search search{&loop, {}, {}};
      for (const llvm::BasicBlock *block : loop.blocks)
        for (const llvm::Instruction &instruction : *block) {
          const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
          const auto *address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
          const bool follows = load && load->getType()->isPointerTy();
          const bool counts = address && !address->hasAllConstantIndices();
          if (!follows && !counts) continue;
          const llvm::Value *pointer = follows ? load->getPointerOperand() : address->getPointerOperand();
          for (const ObjectId object : origins(pointer)) search.through.insert(object);
        }
      if (search.through.empty()) continue;
      // branches that leave the loop, and those in it on which they depend
      llvm::SetVector<const llvm::Instruction *> branches;
      for (const llvm::BasicBlock *block : loop.blocks)
        if (llvm::any_of(llvm::successors(block),
                         [&](const llvm::BasicBlock *next) { return !loop.blocks.contains(next); }))
          branches.insert(block->getTerminator());
      for (size_t i = 0; i < branches.size(); ++i)
        for (const llvm::Instruction *branch : graph_.controls(branches[i]->getParent()))
          if (loop.blocks.contains(branch->getParent())) branches.insert(branch);
      search.branches.assign(branches.begin(), branches.end());
      searches_.push_back(std::move(search));
    }
}

void Flowspace::find_indices() {
  for (const llvm::Function *function : reach_.functions())
    for (const llvm::Instruction &instruction : llvm::instructions(*function)) {
      const auto *address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
      if (!address || address->hasAllConstantIndices() || !reach_.contains(&instruction)) continue;
      const llvm::DenseSet<ObjectId> &objects = origins(address->getPointerOperand());
      for (const llvm::Use &index : address->indices())
        if (llvm::isa<llvm::Instruction, llvm::Argument>(index.get()))
          indices_.push_back({index.get(), address, objects});
    }
}

void Flowspace::assign(size_t number) {
  const std::vector<ObjectId> &memory = updates_.memory_of(number);
  const llvm::DenseSet<ObjectId> own(memory.begin(), memory.end());
  if (memory.empty()) return;
  const std::optional<ObjectId> object = updates_.memory(number);
  const auto meets = [&](const llvm::DenseSet<ObjectId> &origins) {
    return object && origins.contains(*object) && !packets_.contains(*object);
  };
  const auto in_variable = [&](const Node &node) {
    if (node.kind >= Node::Written) return own.contains(accesses_.object_of(node.atom));
    return false;
  };
  const auto stop = [&](const Node &node) {
    const auto *load = llvm::dyn_cast_or_null<llvm::LoadInst>(
        node.kind == Node::Value ? Graph::instruction(node) : nullptr);
    return in_variable(node) || (load && is_packet(load->getPointerOperand()));
  };
  std::vector<KeyField> keys;
  Slicer slice(graph_, stop);
  for (const Index &index : indices_) {
    if (!meets(index.of)) continue;
    complete_[number] = this->slice(slice, index.index) && complete_[number];
    add(slice, index.access, keys);
  }
  for (const Search &search : searches_) {
    if (!meets(search.through)) continue;
    for (const llvm::Instruction *branch : search.branches) {
      complete_[number] = this->slice(slice, branch) && complete_[number];
      const bool compares = llvm::any_of(slice.nodes(), [&](GraphNode node) { return in_variable(graph_.node(node)); });
      if (compares) add(slice, branch, keys);
    }
    add_comparisons(number, search);
  }
  std::stable_sort(keys.begin(), keys.end());
  loads_[number] = keys;
  keys.erase(std::unique(keys.begin(), keys.end(),
                         [](const KeyField &a, const KeyField &b) { return a.name == b.name; }),
             keys.end());
  keys_[number] = std::move(keys);
}

// The fields that a slice loads from packets.
void Flowspace::add(const Slicer &slice, const llvm::Instruction *access, std::vector<KeyField> &keys) const {
  for (const GraphNode number : slice.nodes()) {
    const Node &node = graph_.node(number);
    const llvm::Instruction *instruction = Graph::instruction(node);
    if (!instruction) continue;
    const llvm::Value *pointer = nullptr;
    uint64_t bytes = 0;
    if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(instruction); load && node.kind == Node::Value) {
      pointer = load->getPointerOperand();
      bytes = instruction->getDataLayout().getTypeStoreSize(load->getType()).getFixedValue();
    } else if (const auto *transfer = llvm::dyn_cast<llvm::MemTransferInst>(instruction)) {
      pointer = transfer->getRawSource();
      if (!fields_.is_member(pointer)) continue;  // a copy of a packet, whose own fields are loaded later
    }
    if (!pointer || !is_packet(pointer)) continue;
    const std::string name = fields_.name(pointer, bytes);
    keys.push_back({name.empty() ? "*" : name, instruction, access});
  }
}

}  // namespace analyze
