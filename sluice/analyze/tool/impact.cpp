#include "impact.h"

#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/InstIterator.h"

namespace analyze {

constexpr size_t kMostOfPath = 1000;  // instructions, of which reports show the first

Impacts::Impacts(const Accesses &accesses, const Reach &reach, const Classes &classes, const Updates &updates,
                 size_t most_steps)
    : classes_(classes),
      most_steps_(most_steps),
      graph_(accesses, Follow::All),
      packet_(classes.persistent().size()),
      log_(classes.persistent().size()) {
  packets_ = slice(reach, updates, OutputKind::Packet, packet_);
  logs_ = slice(reach, updates, OutputKind::Log, log_);
}

// Variables by their nodes in a slice: memory, or the values of those in registers.
static llvm::DenseMap<const llvm::Value *, std::vector<size_t>> in_registers(const Classes &classes) {
  llvm::DenseMap<const llvm::Value *, std::vector<size_t>> found;
  for (size_t number = 0; number < classes.persistent().size(); ++number) {
    const Variable &variable = *classes.persistent()[number].variable;
    if (variable.global || !variable.local->promoted) continue;
    for (const llvm::Instruction &instruction : llvm::instructions(*variable.function))
      for (llvm::DbgVariableRecord &record : llvm::filterDbgVars(instruction.getDbgRecordRange())) {
        if (record.getVariable() != variable.info) continue;
        for (const llvm::Value *value : record.location_ops())
          if (llvm::isa<llvm::Instruction, llvm::Argument>(value)) found[value].push_back(number);
      }
  }
  return found;
}

std::vector<const llvm::CallBase *> output_calls(const Accesses &accesses, const Reach &reach, OutputKind kind) {
  std::vector<const llvm::CallBase *> sites;
  for (const llvm::Function *function : reach.functions())
    for (const llvm::Instruction &instruction : llvm::instructions(*function)) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      if (!site || !reach.contains(site)) continue;
      const bool puts_out =
          llvm::any_of(accesses.points_to().calls().callees(site), [&](const llvm::Function *callee) {
            const auto output = accesses.models().output(callee->getName());
            return output && (static_cast<int>(*output) & static_cast<int>(kind));
          });
      if (puts_out) sites.push_back(site);
    }
  return sites;
}

bool Impacts::slice(const Reach &reach, const Updates &updates, OutputKind kind,
                    std::vector<std::optional<Impact>> &found) {
  const Accesses &accesses = graph_.accesses();
  const std::vector<const llvm::CallBase *> sites = output_calls(accesses, reach, kind);
  if (sites.empty()) return false;
  std::vector<GraphNode> outputs;
  for (const llvm::CallBase *site : sites) outputs.push_back(graph_.value(site));
  llvm::DenseMap<ObjectId, std::vector<size_t>> owners;
  for (size_t number = 0; number < found.size(); ++number)
    for (const ObjectId object : updates.memory_of(number)) owners[object].push_back(number);
  const auto registers = in_registers(classes_);

  Graph *graph = &graph_;
  std::optional<Slicer> slicer;
  slicer.emplace(*graph, nullptr, matched_ ? most_steps_ : most_steps_ / 4);  // the other slice was too large
  bool complete = slicer->follow(outputs);
  if (!complete) {
    matched_ = false;
    if (!unordered_) unordered_.emplace(accesses, Follow::All, Order::Any);
    graph = &*unordered_;
    outputs.clear();
    for (const llvm::CallBase *site : sites) outputs.push_back(graph->value(site));
    slicer.emplace(*graph, nullptr, kMostUnmatched);
    complete = slicer->follow_unmatched(outputs);
  }
  if (!complete) {
    complete_ = false;
    for (size_t number = 0; number < found.size(); ++number)
      if (classes_.persistent()[number].top_level()) found[number] = Impact{sites.front(), {}};
    return true;
  }
  const auto affects = [&](size_t number, GraphNode at) {
    if (found[number] || !classes_.persistent()[number].top_level()) return;
    Impact impact{nullptr, {}};
    for (const GraphNode node : slicer->path(at))
      if (const llvm::Instruction *instruction = Graph::instruction(graph->node(node))) {
        if (!impact.output) impact.output = llvm::dyn_cast<llvm::CallBase>(instruction);
        if (impact.path.size() < kMostOfPath) impact.path.push_back(instruction);
      }
    if (!impact.output) impact.output = sites.front();
    found[number] = std::move(impact);
  };
  llvm::DenseSet<ObjectId> seen;
  for (const GraphNode number : slicer->nodes()) {
    const Node node = graph->node(number);
    const bool is_memory = graph == &graph_ ? node.kind >= Node::Written : node.kind == Node::Shared;
    if (is_memory) {
      const ObjectId object = accesses.object_of(node.atom);
      const auto owner = owners.find(object);
      if (owner != owners.end() && seen.insert(object).second)
        for (const size_t variable : owner->second) affects(variable, number);
    } else if (node.kind == Node::Value) {
      const auto owner = registers.find(static_cast<const llvm::Value *>(node.what));
      if (owner != registers.end())
        for (const size_t variable : owner->second) affects(variable, number);
    }
  }
  return true;
}

}  // namespace analyze
