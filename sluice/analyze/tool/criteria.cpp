#include "criteria.h"

#include <map>
#include <set>

#include "impact.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"
#include "module.h"
#include "places.h"

namespace analyze {

namespace {

constexpr size_t kMostEdges = 10'000'000, kMostUnmatched = 20'000'000;
constexpr unsigned kMostRounds = 8;    // of a chop: each leaves a part of the one before
constexpr size_t kMostSuggested = 5;  // lines with code, in a message

using Nodes = llvm::DenseSet<GraphNode>;
using Instructions = llvm::DenseSet<const llvm::Instruction *>;

bool is_statement(const llvm::Instruction &instruction) {
  return !llvm::isa<llvm::PHINode, llvm::AllocaInst>(instruction) && !instruction.isLifetimeStartOrEnd();
}

// Of one criterion, in the program.
struct Start {
  llvm::SetVector<const llvm::Instruction *> instructions;
  llvm::SetVector<const llvm::Value *> values;
};

class Places {
 public:
  Places(const Accesses &accesses, llvm::ArrayRef<Assignment> assigned) : accesses_(accesses), assigned_(assigned) {}

  // The code of FILE:LINE.
  llvm::Expected<Start> find(llvm::StringRef text) {
    const auto [file, number] = text.rsplit(':');
    unsigned line = 0;
    if (file.empty() || number.getAsInteger(10, line) || line == 0)
      return problem(text + ": is no place in the source; write FILE:LINE");
    Start found;
    std::set<unsigned> lines;  // of the file, with code
    for (const llvm::Function *function : accesses_.points_to().calls().entered())
      for (const llvm::Instruction &instruction : llvm::instructions(*function))
        if (is_statement(instruction) && is_at(instruction.getDebugLoc(), file, line, lines))
          found.instructions.insert(&instruction);
    for (const Assignment &one : assigned_)
      if (accesses_.points_to().calls().entered().contains(one.function) && is_at(one.place, file, line, lines))
        if (const llvm::Value *value = one.value; value && llvm::isa<llvm::Instruction, llvm::Argument>(value))
          found.values.insert(value);
    if (found.instructions.empty() && found.values.empty()) return nothing_at(text, file, line, lines);
    return found;
  }

 private:
  // Of the code of helpers whose bodies replaced calls, the line of the call counts as well.
  bool is_at(const llvm::DebugLoc &location, llvm::StringRef file, unsigned line, std::set<unsigned> &lines) {
    bool found = false;
    for (const llvm::DILocation *at = location.get(); at; at = at->getInlinedAt()) {
      if (at->getLine() == 0 || !is_in(at->getFile(), file)) continue;
      lines.insert(at->getLine());
      found = found || at->getLine() == line;
    }
    return found;
  }

  bool is_in(const llvm::DIFile *path, llvm::StringRef file) {
    const auto [known, is_new] = matches_.try_emplace(path, false);
    if (is_new) {
      const std::string whole = path_of(path);
      llvm::StringRef name = whole;
      known->second = name == file || (name.consume_back(file) && name.ends_with("/"));
    }
    return known->second;
  }

  static llvm::Error nothing_at(llvm::StringRef text, llvm::StringRef file, unsigned line,
                                const std::set<unsigned> &lines) {
    if (lines.empty()) return problem(text + ": no code that may run is in a file " + file);
    std::vector<unsigned> near(lines.begin(), lines.end());
    const auto distance = [&](unsigned other) { return other > line ? other - line : line - other; };
    llvm::stable_sort(near, [&](unsigned a, unsigned b) { return distance(a) < distance(b); });
    near.resize(std::min(near.size(), kMostSuggested));
    llvm::sort(near);
    std::string known;
    for (const unsigned one : near) known += (known.empty() ? "" : ", ") + std::to_string(one);
    return problem(text + ": no code that may run is in this line; the nearest lines with code are " + known);
  }

  const Accesses &accesses_;
  llvm::ArrayRef<Assignment> assigned_;
  llvm::DenseMap<const llvm::DIFile *, bool> matches_;
};

Start receive_calls(const Receives &receives) {
  Start found;
  for (const ReceiveCall &call : receives.calls())
    if (call.model->callback.kind == Operand::None) found.instructions.insert(call.site);
  for (const llvm::Function *callback : receives.callbacks())
    for (const llvm::Argument &argument : callback->args())
      if (argument.getType()->isPointerTy()) found.values.insert(&argument);
  return found;
}

Start outputs(const Accesses &accesses, const Reach &reach, OutputKind kind) {
  Start found;
  for (const llvm::CallBase *site : output_calls(accesses, reach, kind)) found.instructions.insert(site);
  return found;
}

class Slices {
 public:
  Slices(const Criteria &criteria, const Accesses &accesses, Order order)
      : criteria_(criteria), order_(order), graph_(accesses, Follow::All, order) {}

  // Returns false if a slice became too large.
  bool run(const Start *from, const Start *to) {
    if (from) {
      reverse_.emplace(graph_, kMostEdges);
      if (!reverse_->is_complete() || !forward(*from, nullptr, forward_)) return false;
    }
    if (!to) return true;
    if (!backward(*to, from ? &forward_ : nullptr, backward_)) return false;
    for (unsigned round = 0; from && round < kMostRounds && backward_.size() < forward_.size(); ++round) {
      if (!forward(*from, &backward_, forward_)) return false;
      if (forward_.size() == backward_.size()) break;
      if (!backward(*to, &forward_, backward_)) return false;
    }
    return true;
  }

  // Statements of the slice or chop.
  Instructions statements(const Start *from, const Start *to) const {
    Instructions found, before;
    for (const GraphNode number : from ? forward_ : backward_) {
      const Node &node = graph_.node(number);
      if (from && node.kind != Node::Value) continue;  // a write that leaves the memory as it was carries it only
      if (const llvm::Instruction *instruction = Graph::instruction(node)) found.insert(instruction);
    }
    for (const Start *start : {from, to})
      if (start) found.insert(start->instructions.begin(), start->instructions.end());
    if (!from || !to) return found;
    for (const GraphNode number : backward_)
      if (const llvm::Instruction *instruction = Graph::instruction(graph_.node(number))) before.insert(instruction);
    Instructions both;
    for (const llvm::Instruction *instruction : found)
      if (before.contains(instruction)) both.insert(instruction);
    return both;
  }

 private:
  bool follow(Slicer &slicer, const std::vector<GraphNode> &nodes, Nodes &found) const {
    const bool complete = order_ == Order::Any ? slicer.follow_unmatched(nodes) : slicer.follow(nodes);
    found = Nodes(slicer.nodes().begin(), slicer.nodes().end());
    return complete;
  }

  size_t most_steps() const { return order_ == Order::Any ? kMostUnmatched : criteria_.most_steps; }

  bool forward(const Start &from, const Nodes *within, Nodes &found) {
    Slicer slicer(*reverse_, nullptr, most_steps());
    if (within) slicer.limit_to(*within);
    std::vector<GraphNode> nodes;
    for (const llvm::Value *value : from.values) nodes.push_back(graph_.value(value));
    for (const llvm::Instruction *instruction : from.instructions) {
      nodes.push_back(graph_.value(instruction));
      if (order_ == Order::Any)
        nodes.push_back(graph_.written(instruction, 0));
      else
        for (const Atom atom : graph_.accesses().all(graph_.accesses().of(*instruction).writes))
          nodes.push_back(graph_.written(instruction, atom));
      const auto *site = llvm::dyn_cast<llvm::CallBase>(instruction);
      if (!site) continue;
      for (const llvm::Use &argument : site->args()) {  // what the call passes, there only
        if (!llvm::isa<llvm::Instruction, llvm::Argument>(argument.get())) continue;
        const GraphNode node = graph_.value(argument.get());
        for (const Dependence &dependence : reverse_->dependences(node)) {
          if (dependence.kind != Dependence::Down || dependence.site != site) continue;
          if (order_ == Order::Any)
            nodes.push_back(dependence.on);
          else
            slicer.follow_edges(dependence, node);
        }
      }
    }
    return follow(slicer, nodes, found);
  }

  bool backward(const Start &to, const Nodes *within, Nodes &found) {
    Slicer slicer(graph_, nullptr, most_steps());
    if (within) slicer.limit_to(*within);
    std::vector<GraphNode> nodes;
    for (const llvm::Value *value : to.values) nodes.push_back(graph_.value(value));
    for (const llvm::Instruction *instruction : to.instructions) {
      nodes.push_back(graph_.value(instruction));
      if (const auto *site = llvm::dyn_cast<llvm::CallBase>(instruction))
        for (const llvm::Use &argument : site->args())
          if (llvm::isa<llvm::Instruction, llvm::Argument>(argument.get())) nodes.push_back(graph_.value(argument.get()));
    }
    return follow(slicer, nodes, found);
  }

  const Criteria &criteria_;
  Order order_;
  Graph graph_;
  std::optional<Dependents> reverse_;
  Nodes forward_, backward_;
};

llvm::json::Array by_function(const Instructions &statements) {
  std::map<std::pair<std::string, std::string>, std::set<unsigned>> lines;
  for (const llvm::Instruction *statement : statements) {
    if (!is_statement(*statement)) continue;
    for (const llvm::DILocation *at = statement->getDebugLoc().get(); at; at = at->getInlinedAt())  // also calls of helpers
      if (at->getLine() != 0)
        lines[{path_of(at->getFile()), at->getScope()->getSubprogram()->getName().str()}].insert(at->getLine());
  }
  llvm::json::Array found;
  for (const auto &[function, numbers] : lines)
    found.push_back(llvm::json::Object{{"file", function.first}, {"in", function.second}, {"lines", llvm::json::Array(numbers)}});
  return found;
}

}  // namespace

std::vector<Assignment> assignments(const llvm::Module &module) {
  std::vector<Assignment> found;
  for (const llvm::Function &function : module)
    for (const llvm::Instruction &instruction : llvm::instructions(function)) {
      const auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
      const auto *variable = store ? llvm::dyn_cast<llvm::AllocaInst>(store->getPointerOperand()) : nullptr;
      if (variable && llvm::isAllocaPromotable(variable))
        found.push_back({&function, store->getDebugLoc(), const_cast<llvm::Value *>(store->getValueOperand())});
    }
  return found;
}

llvm::Expected<llvm::json::Object> slice_between(const Criteria &criteria, const Accesses &accesses,
                                                 const Receives &receives, const Reach &reach,
                                                 llvm::ArrayRef<Assignment> assigned) {
  Places places(accesses, assigned);
  Start from, to;
  const bool forward = !criteria.from.empty(), backward = !criteria.to.empty();
  if (criteria.from == "receive") {
    from = receive_calls(receives);
    if (from.instructions.empty() && from.values.empty()) return problem("the program has no receive call");
  } else if (forward) {
    auto found = places.find(criteria.from);
    if (!found) return found.takeError();
    from = std::move(*found);
  }
  if (criteria.to == "packets" || criteria.to == "logs") {
    to = outputs(accesses, reach, criteria.to == "packets" ? OutputKind::Packet : OutputKind::Log);
    if (to.instructions.empty()) return problem("packet processing calls no function that puts out " + criteria.to);
  } else if (backward) {
    auto found = places.find(criteria.to);
    if (!found) return found.takeError();
    to = std::move(*found);
  }
  for (const Order order : {Order::Versions, Order::Any}) {
    Slices slices(criteria, accesses, order);
    if (!slices.run(forward ? &from : nullptr, backward ? &to : nullptr)) continue;
    const Instructions statements = slices.statements(forward ? &from : nullptr, backward ? &to : nullptr);
    return llvm::json::Object{{"functions", by_function(statements)}, {"matched", order == Order::Versions}};
  }
  return problem("the slice is too large; begin it at another place");
}

}  // namespace analyze
