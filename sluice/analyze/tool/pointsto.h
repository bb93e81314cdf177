// The points-to analysis of a module: builds the constraints of every function that may run, solves them, and builds
// those of the functions that this shows to be called, until there are no more.
#pragma once

#include <map>
#include <set>
#include <string>

#include "assembly.h"
#include "callgraph.h"
#include "constraints.h"
#include "entries.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "models.h"

namespace analyze {

// Unknown parts for which the analysis assumed the worst. Reports list them.
struct Assumptions {
  std::map<std::string, std::vector<const llvm::CallBase *>> unknown_functions;  // without a description
  std::vector<const llvm::CallBase *> inline_assembly;
  std::vector<const llvm::CallBase *> unknown_code;  // dlopen and the like
};

struct PointsToOptions {
  bool field_sensitive = true;
  // Unknown functions, `externals`, `assembly` and `dlopen` that do nothing with pointers (--assume), and the user's reasons.
  std::map<std::string, std::string> assume_harmless = {};
};

class PointsTo {
 public:
  PointsTo(const llvm::Module &module, const Models &models, PointsToOptions options);

  void run();

  const PointsToOptions &options() const { return options_; }
  const CallGraph &calls() const { return calls_; }
  const Assumptions &assumptions() const { return assumptions_; }
  const Constraints &constraints() const { return constraints_; }
  const Memory &memory() const { return constraints_.memory(); }

  // Cells that a value may point to; nothing for values that the analysis has no node for.
  llvm::ArrayRef<NodeId> targets(const llvm::Value *value) const;
  // The name of memory of the library: of the function that returns it, as models have it.
  llvm::StringRef library_name(ObjectId object) const { return library_names_.find(object)->second; }
  // The object of a global, function, or local variable; of an allocation site, its first one.
  const ObjectId *object_of(const llvm::Value *site) const;
  // The objects to which the pointers in an object lead, each once, in the order of the pointers.
  llvm::ArrayRef<ObjectId> leads_to(ObjectId object) const { return leads_[lists_of_leads_[object]]; }
  // Objects with the same number lead to the same objects.
  uint32_t list_of_leads(ObjectId object) const { return lists_of_leads_[object]; }

 private:
  // values.cpp
  NodeId value(const llvm::Value *value);
  NodeId cell_of(const llvm::Value *site, ObjectKind kind, llvm::Type *type);
  NodeId static_cell(llvm::StringRef name);
  NodeId shifted(NodeId pointer, uint64_t bytes);
  NodeId dereference(NodeId pointer, uint64_t offset);
  void add_constant(NodeId node, const llvm::Constant *constant);
  void add_global(const llvm::GlobalVariable &global);
  void initialise(NodeId cell, const llvm::Constant *constant, uint64_t offset);
  std::vector<PointerOp> operations_of(const llvm::GEPOperator &address) const;
  bool carries_pointers(const llvm::Type *type) const;

  // instructions.cpp
  void enter(const llvm::Function *function);
  void add_body(const llvm::Function &function);
  void add(const llvm::Instruction &instruction);
  void add_arithmetic(const llvm::Operator &calculation);
  void add_access(const llvm::Value *pointer, const llvm::Value *data, llvm::Type *type, bool is_store);

  // calls.cpp
  void add_call(const llvm::CallBase &call);
  void add_assembly(const llvm::CallBase &call, const Assembly &assembly);
  void call_targets(const llvm::CallBase &call, NodeId function);
  void connect(const llvm::CallBase &call, const llvm::Function &callee);
  void pass(const llvm::CallBase &call, const llvm::Function &callee, llvm::ArrayRef<const llvm::Value *> arguments);
  void call_external(const llvm::CallBase &call, const llvm::Function &callee);
  void call_unknown(const llvm::CallBase &call);
  void call_escaped(const llvm::Function &function);
  bool add_intrinsic(const llvm::CallBase &call, const llvm::Function &callee);
  void apply(const llvm::CallBase &call, const llvm::Function &callee, const ExternalModel &model);
  void spawn(const llvm::CallBase &call, const llvm::Function &callee, const CallModel &model);
  NodeId operand(const llvm::CallBase &call, const llvm::Function &callee, const Operand &operand);
  NodeId result(const llvm::Function &function);
  NodeId varargs(const llvm::Function &function);
  NodeId heap(const llvm::CallBase &call);

  // entries.cpp
  void call_entries(const llvm::CallBase &call, const Entry &entry);
  bool call_constant(const llvm::CallBase &call, const Entry &entry, NodeId cell);
  bool revise_entries();

  // leads.cpp
  void find_leads();

  const llvm::Module &module_;
  const llvm::DataLayout &layout_;
  const Models &models_;
  PointsToOptions options_;
  Constraints constraints_;
  CallGraph calls_;
  Assumptions assumptions_;
  llvm::DenseMap<const llvm::Value *, NodeId> values_;
  llvm::DenseMap<const llvm::Value *, NodeId> cells_;
  llvm::DenseMap<const llvm::Value *, ObjectId> objects_;
  llvm::DenseMap<const llvm::Function *, NodeId> results_, varargs_;
  llvm::StringMap<NodeId> statics_;
  struct ConstantEntry {
    NodeId others, cell;  // the targets of its call that are no constants
    unsigned changes;     // of the object, when it was divided so
  };
  std::vector<ConstantEntry> constant_entries_;
  // calls of functions with arguments that constant structures have, and not with others so far
  llvm::DenseSet<std::pair<const llvm::CallBase *, const llvm::Function *>> by_entries_;
  llvm::DenseMap<ObjectId, std::string> library_names_;
  std::vector<const llvm::Function *> pending_;  // entered, and without constraints so far
  std::vector<std::vector<ObjectId>> leads_;
  std::vector<uint32_t> lists_of_leads_;         // of objects, in leads_
};

}  // namespace analyze
