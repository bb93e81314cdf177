#include "report.h"

#include <sys/resource.h>

#include <set>

#include "extract.h"
#include "llvm/IR/InstIterator.h"
#include "module.h"
#include "places.h"

namespace analyze {

using llvm::json::Array;
using llvm::json::Object;

static Array missing(const llvm::Module &module, llvm::StringRef kind) {
  Array names;
  if (const llvm::NamedMDNode *list = module.getNamedMetadata(kind))
    for (const llvm::MDNode *entry : list->operands())
      names.push_back(llvm::cast<llvm::MDString>(entry->getOperand(0))->getString());
  return names;
}

static int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * int64_t{1024};
}

template <typename List, typename Describe>
static Array each(const List &list, Describe describe) {
  Array found;
  for (const auto &item : list) found.push_back(describe(item));
  return found;
}

static const char *kind_name(VariableKind kind) {
  switch (kind) {
    case VariableKind::Global: return "global";
    case VariableKind::Static: return "static";
    case VariableKind::Local: return "local";
    case VariableKind::Parameter: return "parameter";
  }
  return "";
}

// An object in words: "&head", "main: context", "memory of malloc at flows.c:52".
static std::string describe(const PointsTo &points_to, ObjectId id) {
  const MemoryObject &object = points_to.memory().object(id);
  switch (object.kind) {
    case ObjectKind::Function: return source_name(*llvm::cast<llvm::Function>(object.site)).str();
    case ObjectKind::Global: return object.site->getName().str();
    case ObjectKind::Library: return "memory of " + points_to.library_name(id).str();
    case ObjectKind::Varargs: return "arguments of " + object.site->getName().str();
    case ObjectKind::Moved: return "";
    case ObjectKind::Stack:
    case ObjectKind::Heap: break;
  }
  if (const auto *argument = llvm::dyn_cast<llvm::Argument>(object.site))
    return source_name(*argument->getParent()).str() + ": " + argument->getName().str();
  const auto *instruction = llvm::cast<llvm::Instruction>(object.site);
  if (object.kind == ObjectKind::Stack)
    return source_name(*instruction->getFunction()).str() + ": " + instruction->getName().str();
  const llvm::Value *called = llvm::cast<llvm::CallBase>(instruction)->getCalledOperand();
  std::string found = (called->hasName() ? called->getName().str() : "allocation") + " at " + place_of(*instruction);
  const llvm::DILocation *location = instruction->getDebugLoc().get();
  for (location = location ? location->getInlinedAt() : nullptr; location; location = location->getInlinedAt())
    found += " for " + location->getFilename().str() + ":" + std::to_string(location->getLine());
  return found;
}

static const char *path_name(const Paths &paths, const llvm::Instruction *instruction) {
  switch (instruction ? paths.of(*instruction) : PathKind::Packet) {
    case PathKind::Packet: return "packet";
    case PathKind::Exit: return "exit";
    case PathKind::Reload: return "reload";
  }
  return "";
}

// How an output depends on a variable: the lines from the output back to it.
static Object impact(const Impact &impact) {
  Object found = site(impact.output);
  const llvm::Value *callee = impact.output->getCalledOperand();
  found["function"] = callee->hasName() ? callee->getName() : "";
  Array path;
  std::pair<const llvm::Function *, unsigned> last{nullptr, 0};
  for (const llvm::Instruction *instruction : impact.path) {
    const llvm::DILocation *location = location_near(*instruction);
    if (!location || last == std::make_pair(instruction->getFunction(), location->getLine())) continue;
    last = {instruction->getFunction(), location->getLine()};
    Object one = place(location);
    one["in"] = procedure_at(location, *instruction->getFunction());
    path.push_back(std::move(one));
  }
  found["path"] = std::move(path);
  return found;
}

static Array keys(const std::vector<KeyField> &fields) {
  return each(fields, [](const KeyField &field) {
    const llvm::DILocation *location = location_near(*field.load);
    Object found = place(location);
    found["in"] = procedure_at(location, *field.load->getFunction());
    found["field"] = field.name;
    found["access"] = place(location_near(*field.access));
    return found;
  });
}

static Object update(const Analysis &analysis, const Update &update) {
  Object found = place(update.place);
  found["path"] = path_name(analysis.paths, update.instruction);
  found["in"] = procedure_at(update.place, *update.function);
  return found;
}

// What the report describes once, and other parts refer to by a number: objects, and groups of writes.
class Described {
 public:
  int64_t number(uint32_t item) {
    const auto [found, is_new] = numbers_.try_emplace(item, static_cast<int64_t>(items_.size()));
    if (is_new) items_.push_back(item);
    return found->second;
  }
  const std::vector<uint32_t> &items() const { return items_; }

 private:
  llvm::DenseMap<uint32_t, int64_t> numbers_;
  std::vector<uint32_t> items_;
};

static Object memory(const Analysis &analysis, ObjectId object, Described &writes) {
  return Object{{"name", describe(analysis.points_to, object)},
                {"writes", each(analysis.updates.writers_of(object), [&](uint32_t group) { return writes.number(group); })}};
}

static Array lines(const Analysis &analysis, const std::vector<Update> &updates) {
  return each(updates, [&](const Update &one) { return update(analysis, one); });
}

static Object used_at(const llvm::DILocation *location, const llvm::Function &function) {
  Object found = place(location);
  found["in"] = procedure_at(location, function);
  return found;
}

static Object variable(const Analysis &analysis, size_t number, Described &described, Described &users) {
  const PointsTo &points_to = analysis.points_to;
  const Persistent &persistent = analysis.classes.persistent()[number];
  const Variable &variable = *persistent.variable;
  Object found{{"name", variable.info->getName()},
               {"kind", kind_name(variable.kind)},
               {"type", type_name(variable.info->getType())},
               {"function", scope_name(variable.info)},
               {"declared", place(variable.info->getFile(), variable.info->getLine())},
               {"constant", variable.global && variable.global->isConstant()},
               {"top_level", persistent.top_level()},
               {"updates", lines(analysis, analysis.updates.own(number))},
               {"overwritten", analysis.updates.has(number) && analysis.overwritten.contains(number)},
               {"key", keys(analysis.flowspace.of(number))},
               {"key_complete", analysis.flowspace.is_complete(number)},
               {"uses", each(persistent.uses, [](const Use &use) { return used_at(use.place.get(), *use.function); })},
               {"users", each(persistent.users, [&](uint32_t group) { return users.number(group); })}};
  Array targets;
  if (const std::optional<ObjectId> memory = analysis.updates.memory(number)) {
    found["memory"] = describe(points_to, *memory);
    for (const ObjectId target : points_to.leads_to(*memory)) targets.push_back(described.number(target));
  }
  found["points_to"] = std::move(targets);
  Array reached;  // pairs: the object, and the one before it in the chain, or -1
  for (const Reached &one : analysis.updates.reached(number)) {
    reached.push_back(described.number(one.object));
    reached.push_back(one.from == one.object ? int64_t{-1} : described.number(one.from));
  }
  found["reached"] = std::move(reached);
  if (analysis.impacts.packet(number)) found["impacts_packet"] = impact(*analysis.impacts.packet(number));
  if (analysis.impacts.log(number)) found["impacts_log"] = impact(*analysis.impacts.log(number));
  if (persistent.loop)
    found["loop"] = place(*persistent.loop);
  else if (persistent.library_loop)
    found["loop"] = site(persistent.library_loop);
  return found;
}

// Why packets get to a function.
static const char *role(const Analysis &analysis, const llvm::Function *function) {
  for (const Spawn &spawn : analysis.points_to.calls().spawns()) {
    if (spawn.function != function) continue;
    if (spawn.role == CallRole::Thread) return "thread";
    if (spawn.role == CallRole::Signal) return "signal";
  }
  if (analysis.receives.callbacks().contains(function)) return "callback";
  return analysis.receives.may_receive(function) ? "receives" : "called";
}

static Array procedures(const Analysis &analysis) {
  llvm::DenseSet<const llvm::DISubprogram *> known;
  Array all = each(analysis.reach.functions(), [&](const llvm::Function *function) {
    Object found{{"name", source_name(*function)}, {"role", role(analysis, function)}};
    if (const llvm::DISubprogram *info = function->getSubprogram()) {
      known.insert(info);
      found["declared"] = place(info->getFile(), info->getLine());
    }
    if (const llvm::CallBase *reason = analysis.reach.reason(function)) found["called_at"] = site(reason);
    return found;
  });
  for (const llvm::Function *function : analysis.reach.functions())  // helpers whose bodies replaced calls
    for (const llvm::Instruction &instruction : llvm::instructions(*function)) {
      if (!analysis.reach.contains(&instruction)) continue;
      for (const llvm::DILocation *at = instruction.getDebugLoc().get(); at && at->getInlinedAt(); at = at->getInlinedAt()) {
        const llvm::DISubprogram *info = at->getScope()->getSubprogram();
        if (!known.insert(info).second) continue;
        Object found{{"name", info->getName()}, {"role", "called"}, {"declared", place(info->getFile(), info->getLine())}};
        found["called_at"] = place(at->getInlinedAt());
        (*found.getObject("called_at"))["in"] = procedure_at(at->getInlinedAt(), *function);
        all.push_back(std::move(found));
      }
    }
  return all;
}

static Object assumptions(const Analysis &analysis) {
  const Assumptions &known = analysis.points_to.assumptions();
  Object functions;
  for (const auto &[name, calls] : known.unknown_functions)
    functions[name] = each(calls, [](const llvm::CallBase *call) { return site(call); });
  const auto sites = [](const std::vector<const llvm::CallBase *> &calls) {
    return each(calls, [](const llvm::CallBase *call) { return site(call); });
  };
  return Object{{"unknown_functions", std::move(functions)},
          {"inline_assembly", sites(known.inline_assembly)},
          {"unknown_code", sites(known.unknown_code)},
          {"harmless", each(analysis.points_to.options().assume_harmless, [](const auto &one) {
             return Object{{"what", one.first}, {"reason", one.second}};
           })},
          {"not_receive", each(analysis.receives.excluded(), [](const NotReceive &excluded) {
             Object found = site(excluded.site);
             found["reason"] = excluded.reason;
             return found;
           })}};
}

// Written part by part: the parts of a large program take much more memory as objects than as text.
void report(const Analysis &analysis, llvm::json::OStream &out) {
  const Classes &classes = analysis.classes;
  const Constraints &constraints = analysis.points_to.constraints();
  size_t functions = 0, instructions = 0;
  for (const llvm::Function &function : analysis.module) {
    if (function.isDeclaration()) continue;
    ++functions;
    instructions += function.getInstructionCount();
  }
  const auto top_level = static_cast<int64_t>(
      llvm::count_if(classes.persistent(), [](const Persistent &found) { return found.top_level(); }));
  Array found = procedures(analysis);
  out.attribute("version", 5);
  out.attribute("totals", Object{{"variables", analysis.variables.all().size()},
                                 {"persistent", classes.persistent().size()},
                                 {"top_level", top_level},
                                 {"updateable", analysis.updates.variables()},
                                 {"functions", functions},
                                 {"functions_entered", analysis.points_to.calls().entered().size()},
                                 {"packet_procedures", found.size()},
                                 {"instructions", instructions}});
  out.attribute("receive", each(analysis.receives.calls(), [](const ReceiveCall &call) {
                  Object found = site(call.site);
                  found["function"] = call.function->getName();
                  found["source"] = call.model->source;
                  return found;
                }));
  out.attribute("loops", each(classes.loops(), [](const Loop *loop) { return place(*loop); }));
  out.attribute("procedures", std::move(found));
  Described objects, writes, users;
  out.attributeArray("variables", [&] {
    for (size_t i = 0; i < classes.persistent().size(); ++i) out.value(variable(analysis, i, objects, users));
  });
  out.attributeArray("memory", [&] {
    for (const ObjectId object : objects.items()) out.value(memory(analysis, object, writes));
  });
  out.attributeArray("writes", [&] {
    for (const uint32_t group : writes.items()) out.value(lines(analysis, by_line(analysis.updates.writers(group))));
  });
  out.attributeArray("users", [&] {
    for (const uint32_t group : users.items())
      out.value(each(by_line(classes.users(group)), [](const Update &one) { return used_at(one.place, *one.function); }));
  });
  out.attribute("assumptions", assumptions(analysis));
  out.attribute("without_debug_info",
                Object{{"functions", each(without_debug_info(analysis.module),
                                          [](const auto *function) { return function->getName(); })},
                       {"variables", each(analysis.variables.nameless(),
                                          [](const auto *global) { return global->getName(); })}});
  out.attribute("missing", Object{{"functions", missing(analysis.module, kMissingFunctions)},
                                  {"variables", missing(analysis.module, kMissingVariables)}});
  out.attribute("outputs", Object{{"packet", analysis.impacts.has_outputs(OutputKind::Packet)},
                                  {"log", analysis.impacts.has_outputs(OutputKind::Log)},
                                  {"complete", analysis.impacts.is_complete()},
                                  {"matched", analysis.impacts.is_matched()}});
  out.attribute("dependences", Object{{"nodes", analysis.impacts.nodes()}});
  out.attribute("points_to", Object{{"nodes", constraints.nodes()},
                                    {"objects", constraints.memory().objects()},
                                    {"waves", constraints.waves()},
                                    {"cycles", constraints.collapsed_cycles()},
                                    {"call_edges", analysis.points_to.calls().edges()},
                                    {"distinct_sets", constraints.distinct_sets()},
                                    {"peak_bytes", peak_bytes()}});
}

}  // namespace analyze
