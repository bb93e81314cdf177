#include "receive.h"

#include "llvm/IR/InstIterator.h"

namespace analyze {

// A descriptor that the same function opened for reading only is a file: no source of packets (a socket, a
// TUN device, a packet filter) is opened so. Returns the reason, or nothing.
static std::string reads_file(const llvm::CallBase &site) {
  if (site.arg_size() == 0 || site.getCalledOperand()->getName().find("read") == llvm::StringRef::npos) return "";
  const auto *opened = llvm::dyn_cast<llvm::CallBase>(site.getArgOperand(0));
  if (!opened || !opened->getCalledFunction() || opened->arg_size() < 2) return "";
  const llvm::StringRef name = opened->getCalledFunction()->getName();
  if (name != "open" && name != "open64" && name != "__open_2" && name != "__open64_2") return "";
  const auto *flags = llvm::dyn_cast<llvm::ConstantInt>(opened->getArgOperand(1));
  if (!flags || (flags->getZExtValue() & 3) != 0) return "";
  return "reads a file that the same function opens for reading only";
}

Receives::Receives(const PointsTo &points_to, const Models &models, const ReceiveOptions &options)
    : points_to_(points_to) {
  const CallGraph &calls = points_to.calls();
  std::vector<const llvm::Function *> pending;
  const auto receives = [&](const llvm::Function *function) {
    if (may_receive_.insert(function).second) pending.push_back(function);
  };
  for (const llvm::Function *function : calls.entered())
    for (const llvm::Instruction &instruction : llvm::instructions(function)) {
      const auto *site = llvm::dyn_cast<llvm::CallBase>(&instruction);
      if (!site) continue;
      for (const llvm::Function *callee : calls.callees(site)) {
        if (models.dispatches(callee->getName())) dispatch_sites_.push_back(site);
        const ReceiveModel *model = models.receive(callee->getName());
        if (!model) continue;
        std::string reason = reads_file(*site);
        if (options.not_in.count(function->getName().str())) reason = "is excluded by --not-receive";
        if (!reason.empty()) {
          excluded_.push_back({site, reason});
          continue;
        }
        calls_.push_back({site, callee, model});
        sites_.insert(site);
        if (model->callback.kind != Operand::None)
          for (const llvm::Function *callback : calls.callbacks(site)) callbacks_.insert(callback);
        receives(function);
      }
    }
  // A registered callback that receives does so for every caller of a function that dispatches.
  bool dispatched = false;
  while (!pending.empty()) {
    const llvm::Function *function = pending.back();
    pending.pop_back();
    for (const llvm::CallBase *site : calls.callers(function)) receives(site->getFunction());
    if (dispatched) continue;
    for (const Spawn &spawn : calls.spawns())
      if (spawn.role == CallRole::Registered && spawn.function == function) dispatched = true;
    if (dispatched)
      for (const llvm::CallBase *site : dispatch_sites_) {
        sites_.insert(site);
        receives(site->getFunction());
      }
  }
}

bool Receives::may_receive(const llvm::CallBase *site) const {
  if (sites_.contains(site)) return true;
  for (const llvm::Function *callee : points_to_.calls().callees(site))
    if (may_receive_.contains(callee)) return true;
  for (const llvm::Function *callback : points_to_.calls().callbacks(site))
    if (may_receive_.contains(callback)) return true;
  return false;
}

}  // namespace analyze
