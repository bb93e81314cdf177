#include "dependents.h"

#include "llvm/IR/InstIterator.h"

namespace analyze {

Dependents::Dependents(Graph &graph, size_t most) : graph_(graph) {
  for (const llvm::Function *function : graph.accesses().points_to().calls().entered())
    for (const llvm::Instruction &instruction : llvm::instructions(*function)) graph.value(&instruction);
  size_t edges = 0;
  for (GraphNode node = 0; node < graph.nodes(); ++node) {  // dependences may add nodes
    const llvm::ArrayRef<Dependence> dependences = graph.dependences(node);
    edges += dependences.size();
    if (edges > most) {
      complete_ = false;
      return;
    }
    to_.resize(graph.nodes());
    for (const Dependence &dependence : dependences) {
      Dependence::Kind kind = dependence.kind;
      if (kind == Dependence::Up)
        kind = Dependence::Down;
      else if (kind == Dependence::Down)
        kind = Dependence::Up;
      to_[dependence.on].push_back({kind, node, dependence.site});
    }
  }
}

}  // namespace analyze
