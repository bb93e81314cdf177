// Where the program receives packets, and which functions may do so.
#pragma once

#include <string>
#include <vector>

#include "pointsto.h"

namespace analyze {

struct ReceiveCall {
  const llvm::CallBase *site;
  const llvm::Function *function;  // that receives
  const ReceiveModel *model;
};

// A call of `read` that is taken not to receive packets, and why.
struct NotReceive {
  const llvm::CallBase *site;
  std::string reason;
};

struct ReceiveOptions {
  // Functions whose calls of receive functions do not receive packets, such as one that reads a configuration.
  std::set<std::string> not_in = {};
};

class Receives {
 public:
  Receives(const PointsTo &points_to, const Models &models, const ReceiveOptions &options);

  const std::vector<ReceiveCall> &calls() const { return calls_; }
  const std::vector<NotReceive> &excluded() const { return excluded_; }

  // Callbacks that a library calls with a packet.
  const llvm::SetVector<const llvm::Function *> &callbacks() const { return callbacks_; }
  // Whether a call of the function may receive a packet before it returns.
  bool may_receive(const llvm::Function *function) const { return may_receive_.contains(function); }
  // Whether the call may receive a packet: it is a receive call, or calls a function that may.
  bool may_receive(const llvm::CallBase *site) const;
  // Calls of functions that call registered callbacks (event_dispatch, ...).
  const std::vector<const llvm::CallBase *> &dispatch_sites() const { return dispatch_sites_; }

 private:
  const PointsTo &points_to_;
  std::vector<ReceiveCall> calls_;
  std::vector<NotReceive> excluded_;
  llvm::SetVector<const llvm::Function *> callbacks_;
  llvm::DenseSet<const llvm::CallBase *> sites_;
  llvm::DenseSet<const llvm::Function *> may_receive_;
  std::vector<const llvm::CallBase *> dispatch_sites_;
};

}  // namespace analyze
