// Threads and signal handlers: how many of each may run at once, and which memory they share.
#include "access.h"
#include "llvm/IR/CFG.h"

namespace analyze {

// Whether there is a path from a block to another, without entering `avoided` (null: none).
static bool leads_to(const llvm::BasicBlock *from, const llvm::BasicBlock *to, const llvm::BasicBlock *avoided) {
  llvm::SmallPtrSet<const llvm::BasicBlock *, 16> seen;
  std::vector<const llvm::BasicBlock *> pending{from};
  while (!pending.empty()) {
    const llvm::BasicBlock *block = pending.back();
    pending.pop_back();
    for (const llvm::BasicBlock *next : llvm::successors(block)) {
      if (next == avoided) continue;
      if (next == to) return true;
      if (seen.insert(next).second) pending.push_back(next);
    }
  }
  return false;
}

// Whether a variable is read only, by loads of its elements.
static bool is_table(const llvm::GlobalVariable &variable) {
  return variable.hasLocalLinkage() && llvm::all_of(variable.users(), [](const llvm::User *user) {
           const auto *address = llvm::dyn_cast<llvm::GEPOperator>(user);
           return llvm::isa<llvm::LoadInst>(user) || (address && llvm::all_of(address->users(), [](const llvm::User *by) {
                                                        return llvm::isa<llvm::LoadInst>(by);
                                                      }));
         });
}

// Whether a value differs in each iteration of the loop in which a block lies, which is run through once: it counts in
// equal steps, and the block runs at most once for each.
static bool counts(const llvm::Value *value, const llvm::BasicBlock *block) {
  while (const auto *cast = llvm::dyn_cast<llvm::CastInst>(value)) value = cast->getOperand(0);
  const auto *counter = llvm::dyn_cast<llvm::PHINode>(value);
  if (!counter) return false;
  const llvm::BasicBlock *header = counter->getParent();
  if (leads_to(block, block, header)) return false;
  for (unsigned i = 0; i < counter->getNumIncomingValues(); ++i) {
    const llvm::BasicBlock *before = counter->getIncomingBlock(i);
    if (header != before && !leads_to(header, before, nullptr)) continue;  // the loop's beginning
    const auto *step = llvm::dyn_cast<llvm::BinaryOperator>(counter->getIncomingValue(i));
    const auto *by = step ? llvm::dyn_cast<llvm::ConstantInt>(step->getOperand(1)) : nullptr;
    if (!by || by->isZero() || step->getOpcode() != llvm::Instruction::Add || step->getOperand(0) != counter) return false;
  }
  return true;
}

// Whether a call that starts a thread reads the function from a table that has it once, and each entry once.
static bool starts_each_once(const llvm::CallBase &site, const llvm::Function *function) {
  for (const llvm::Use &argument : site.args()) {
    const auto *load = llvm::dyn_cast<llvm::LoadInst>(argument.get());
    const auto *address = load ? llvm::dyn_cast<llvm::GetElementPtrInst>(load->getPointerOperand()) : nullptr;
    const auto *table = address ? llvm::dyn_cast<llvm::GlobalVariable>(address->getPointerOperand()) : nullptr;
    if (!table || !table->hasInitializer() || !is_table(*table) || address->getNumIndices() != 2) continue;
    const auto *entries = llvm::dyn_cast<llvm::ConstantArray>(table->getInitializer());
    const auto *first = llvm::dyn_cast<llvm::ConstantInt>(address->getOperand(1));
    if (!entries || !first || !first->isZero()) continue;
    if (llvm::count_if(entries->operands(), [&](const llvm::Use &entry) { return entry.get() == function; }) == 1)
      return counts(address->getOperand(2), site.getParent());
  }
  return false;
}

// How often threads and handlers may be started: a call that runs once starts one.
void Accesses::find_started() {
  const CallGraph &calls = points_to_.calls();
  llvm::DenseSet<const llvm::Function *> pending;  // of the recursion, which a cycle of calls does not end
  const std::function<bool(const llvm::Function *)> runs_once = [&](const llvm::Function *function) {
    const ObjectId *object = points_to_.object_of(function);
    if (object && points_to_.constraints().escaped(*object)) return false;
    if (llvm::any_of(calls.spawns(), [&](const Spawn &spawn) { return spawn.function == function; })) return false;
    const auto sites = run_by(*function);
    if (sites.empty()) return true;  // main
    if (sites.size() > 1 || !pending.insert(function).second) return false;
    const llvm::BasicBlock *block = sites[0]->getParent();
    return !leads_to(block, block, nullptr) && runs_once(block->getParent());
  };
  for (const Spawn &spawn : calls.spawns()) {
    if (spawn.role != CallRole::Thread && spawn.role != CallRole::Signal) continue;
    unsigned &instances = started_[spawn.function];
    if (spawn.role == CallRole::Signal) {
      instances = std::max(instances, 1U);
      continue;
    }
    const llvm::BasicBlock *block = spawn.site->getParent();
    const bool is_one = llvm::any_of(calls.callees(spawn.site), [](const llvm::Function *callee) {
      return llvm::is_contained({"pthread_create", "thrd_create"}, callee->getName());  // timers start one each time
    });
    pending.clear();
    const bool once = is_one && (!leads_to(block, block, nullptr) || starts_each_once(*spawn.site, spawn.function)) &&
                      runs_once(block->getParent());
    instances += once ? 1 : 2;
  }
}

// A function that is started several times has its own local variables each time, if no other thread can have their
// address: it is in registers only, and no thread is started with it.
void Accesses::find_own_frames() {
  if (started_.empty()) return;
  const Memory &memory = points_to_.memory();
  llvm::DenseSet<ObjectId> known;  // elsewhere
  for (ObjectId object = 0; object < memory.objects(); ++object)
    for (const ObjectId target : points_to_.leads_to(object)) known.insert(target);
  for (const Spawn &spawn : points_to_.calls().spawns())
    for (const llvm::Argument &argument : spawn.function->args())
      for (const NodeId target : points_to_.targets(&argument)) known.insert(memory.object_of(target));
  for (ObjectId object = 0; object < memory.objects(); ++object)
    if (memory.object(object).kind == ObjectKind::Stack && !known.contains(object) &&
        !points_to_.constraints().escaped(object))
      own_frame_.insert(object);
}

// Whether a local variable may be several at a time that are not distinguished.
bool Accesses::has_instances(const llvm::Function *function, ObjectId local) const {
  return recursive_.contains(function) || (started_.count(function) && !own_frame_.contains(local));
}

llvm::MapVector<const llvm::Function *, unsigned> Accesses::roots() const {
  llvm::MapVector<const llvm::Function *, unsigned> found = started_;
  for (const llvm::Function *function : points_to_.calls().entered()) {
    const ObjectId *object = points_to_.object_of(function);
    if (object && points_to_.constraints().escaped(*object)) found[function] = 2;
    if (run_by(*function).empty()) found.insert({function, 1});  // main
  }
  return found;
}

// An atom is shared if two threads of control access it, and one of them writes it. A thread that may be started more
// than once shares with itself all that it writes, other than local variables.
void Accesses::find_shared() {
  shared_.resize(count());
  if (points_to_.calls().entered().empty()) return;
  const llvm::Module &module = *points_to_.calls().entered().front()->getParent();
  for (const llvm::Function &function : module)
    if (llvm::is_contained({"longjmp", "siglongjmp", "_longjmp", "__longjmp_chk"}, function.getName()) &&
        !points_to_.calls().callers(&function).empty())
      shared_.set();  // its effect on the order of reads and writes is not followed
  llvm::BitVector own(count());
  for (const ObjectId object : own_frame_)
    for (Atom atom = first_[object]; atom < first_[object + 1]; ++atom) own.set(atom);
  llvm::BitVector read_before(count()), written_before(count());
  for (const auto &[root, instances] : roots()) {
    if (!cycle_of_.count(root)) continue;
    for (unsigned instance = 0; instance < std::min(instances, 2U); ++instance) {
      llvm::BitVector reads = may_read(root), writes = may_write(root);
      reads.reset(own);
      writes.reset(own);
      llvm::BitVector both = reads;
      both |= writes;
      both &= written_before;
      shared_ |= both;
      both = writes;
      both &= read_before;
      shared_ |= both;
      read_before |= reads;
      written_before |= writes;
    }
  }
}

}  // namespace analyze
