// sluice-analyze: the analyses of one bitcode module, as JSON on standard output. `sluice analyze` runs it.
#include <chrono>

#include "allocated.h"
#include "criteria.h"
#include "extract.h"
#include "helpers.h"
#include "instrument.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "module.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Support/FileSystem.h"
#include "oracle.h"
#include "report.h"
#include "types.h"

namespace {

namespace cl = llvm::cl;

cl::SubCommand extract_command("extract", "link the bitcode that a program and its libraries contain into one module");
cl::SubCommand analyze_command("analyze", "analyse a module");

cl::list<std::string> objects(cl::Positional, cl::OneOrMore, cl::desc("PROGRAM [LIBRARY...]"), cl::sub(extract_command));
cl::opt<std::string> output("o", cl::Required, cl::desc("the module to write"), cl::sub(extract_command));

cl::opt<std::string> input(cl::Positional, cl::Required, cl::desc("PROGRAM.bc"), cl::sub(analyze_command));
cl::list<std::string> models("models", cl::desc("YAML file of external functions"), cl::sub(analyze_command));
cl::list<std::string> not_receive("not-receive", cl::desc("a function that receives no packets"),
                                  cl::sub(analyze_command));
cl::list<std::string> assume("assume", cl::desc("unknown function that is harmless; externals, assembly, dlopen; after = the reason"),
                             cl::sub(analyze_command));
cl::opt<bool> field_insensitive("field-insensitive", cl::desc("one cell for each object"), cl::sub(analyze_command));
cl::opt<bool> all_locals("all-locals", cl::desc("all locals of receiving functions persist"), cl::sub(analyze_command));

cl::opt<size_t> slice_steps("slice-steps", cl::init(analyze::Impacts::kMostMatched),
                            cl::desc("of a slice from output that matches calls and returns"), cl::sub(analyze_command));

cl::opt<std::string> oracle("oracle", cl::desc("write an instrumented module that checks the classes as it runs"),
                            cl::sub(analyze_command));
cl::list<std::string> without("without", cl::desc("a variable, or FILE:LINE of an allocation, to take as not updateable"),
                              cl::sub(analyze_command));
cl::opt<std::string> instrumented("instrument", cl::desc("write an instrumented module that reports what it updates"),
                                  cl::sub(analyze_command));
cl::opt<std::string> slice_from("slice-from", cl::desc("print a forward slice: from FILE:LINE, or receive"),
                                cl::sub(analyze_command));
cl::opt<std::string> slice_to("slice-to", cl::desc("print a backward slice: from FILE:LINE, packets or logs"),
                              cl::sub(analyze_command));
cl::opt<bool> with_types("types", cl::desc("print the types of variables"), cl::sub(analyze_command));
cl::opt<bool> no_pruning("no-pruning", cl::desc("of --instrument: set a variable's byte at each update"),
                         cl::sub(analyze_command));

int fail(const std::string &text) {
  llvm::errs() << text << "\n";
  return 1;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int write(const llvm::Module &module, const std::string &path) {
  std::error_code failed;
  llvm::raw_fd_ostream file(path, failed);
  if (failed) return fail(path + ": " + failed.message());
  llvm::WriteBitcodeToFile(module, file);
  return 0;
}

int analyze_module() {
  using namespace analyze;
  const auto begin = std::chrono::steady_clock::now();
  Models known;
  for (const std::string &path : models)
    if (llvm::Error error = known.read(path)) return fail(llvm::toString(std::move(error)));
  llvm::LLVMContext context;
  auto module = load_module(input, context);
  if (!module) return fail(llvm::toString(module.takeError()));
  inline_helpers(**module, known);
  const Lifetimes lifetimes(**module);
  const Variables variables(**module, lifetimes);
  llvm::ValueToValueMapTy originals;
  std::unique_ptr<llvm::Module> original;
  if (!instrumented.empty()) original = llvm::CloneModule(**module, originals);
  const bool slices = !slice_from.empty() || !slice_to.empty();
  const std::vector<Assignment> assigned = slices ? assignments(**module) : std::vector<Assignment>();
  promote_locals(**module);
  const double loaded = seconds_since(begin);

  PointsToOptions options;
  options.field_sensitive = !field_insensitive;
  for (const std::string &one : assume) {
    const auto [what, reason] = llvm::StringRef(one).split('=');
    options.assume_harmless[what.str()] = reason.str();
  }
  PointsTo points_to(**module, known, options);
  points_to.run();
  const double solved = seconds_since(begin);

  ReceiveOptions receive_options;
  receive_options.not_in = {not_receive.begin(), not_receive.end()};
  const Receives receives(points_to, known, receive_options);
  const Reach reach(points_to, known, receives);
  ClassifyOptions classify_options;
  classify_options.all_locals = all_locals;
  const Accesses accesses(points_to, known);
  if (slices) {
    const Criteria criteria{slice_from, slice_to, slice_steps.getNumOccurrences() ? slice_steps : Criteria::kMostSteps};
    auto found = slice_between(criteria, accesses, receives, reach, assigned);
    if (!found) return fail(llvm::toString(found.takeError()));
    llvm::outs() << llvm::json::Value(std::move(*found)) << "\n";
    return 0;
  }
  const Classes classes(accesses, known, receives, reach, lifetimes, variables, classify_options);

  const Updates updates(accesses, reach, classes);
  if (!oracle.empty()) {
    auto copy = load_module(input, context);
    if (!copy) return fail(llvm::toString(copy.takeError()));
    inline_helpers(**copy, known);
    analyze::OracleOptions oracle_options;
    oracle_options.without = {without.begin(), without.end()};
    instrument_for_oracle(**copy, points_to, receives, classes, updates, oracle_options);
    if (int failed = write(**copy, oracle)) return failed;
    llvm::outs() << llvm::json::Value(llvm::json::Object{{"receive_calls", receives.calls().size()}}) << "\n";
    return 0;
  }
  const Overwritten overwritten(accesses, receives, classes, updates);
  const Paths paths(accesses, receives, reach, classes);
  const double classified = seconds_since(begin);
  const Fields fields(**module);
  const Flowspace flowspace(accesses, receives, reach, lifetimes, classes, updates, fields);
  const Impacts impacts(accesses, reach, classes, updates, slice_steps);
  llvm::json::Object totals, types_found;
  if (original) {
    analyze::InstrumentOptions instrument_options{!no_pruning, {without.begin(), without.end()}};
    totals = instrument(*original, originals, accesses, receives, classes, updates, flowspace, fields,
                        instrument_options);
    if (int failed = write(*original, instrumented)) return failed;
  }
  if (with_types) {
    Types types;
    llvm::json::Array variables_types;
    for (const Persistent &persistent : classes.persistent())
      variables_types.push_back(types.number(persistent.variable->info->getType()));
    std::set<int64_t> allocated;
    for (const auto &[site, structure] : allocated_structures(points_to, fields)) allocated.insert(types.number(structure));
    types_found = llvm::json::Object{{"of", std::move(variables_types)},
                                     {"allocated", llvm::json::Array(allocated)},
                                     {"list", types.list()}};
  }
  const double sliced = seconds_since(begin);
  llvm::json::OStream out(llvm::outs());
  out.objectBegin();
  report({**module, points_to, receives, reach, variables, classes, updates, overwritten, paths, flowspace, impacts}, out);
  if (with_types) out.attribute("types", std::move(types_found));
  if (original) out.attribute("instrumented", std::move(totals));
  out.attribute("seconds", llvm::json::Object{{"load", loaded},
                                              {"points_to", solved - loaded},
                                              {"classes", classified - solved},
                                              {"slices", sliced - classified},
                                              {"report", seconds_since(begin) - sliced},
                                              {"total", seconds_since(begin)}});
  out.objectEnd();
  llvm::outs() << "\n";
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "finds the state in a program's bitcode\n");
  if (extract_command) {
    auto result = analyze::extract(objects, output);
    if (!result) return fail(llvm::toString(result.takeError()));
    llvm::outs() << llvm::json::Value(std::move(*result)) << "\n";
    return 0;
  }
  if (analyze_command) return analyze_module();
  return fail("usage: sluice-analyze extract|analyze ...");
}
