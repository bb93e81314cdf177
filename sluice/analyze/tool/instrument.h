// Makes updates visible at run time (thesis, 4.4): each updateable variable has a byte that is set where packet
// processing updates it, and the run-time library (../state) gets control after each packet.
//
// The byte is set after the update, so that it is reported with this packet or, if another thread ends a packet between
// the two, with the next. Where it is set on all paths since the packet was received, setting it again is pruned; not in
// programs with threads, or signal handlers that receive packets: there it may have been reported meanwhile.
#pragma once

#include "flowspace.h"
#include "llvm/Support/JSON.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace analyze {

struct InstrumentOptions {
  bool prune = true;
  std::set<std::string> without;  // variables whose bytes are not set, to test that a check of them finds it
};

// module: a copy of the analysed module from before local variables were promoted; map: from the instructions of the
// analysed one to those of the copy. Returns totals.
llvm::json::Object instrument(llvm::Module &module, llvm::ValueToValueMapTy &map, const Accesses &accesses,
                              const Receives &receives, const Classes &classes, const Updates &updates,
                              const Flowspace &flowspace, const Fields &fields, const InstrumentOptions &options);

// The updateable variables, by their numbers in Classes::persistent(); the position is the number at run time.
std::vector<size_t> numbered_at_run_time(const Classes &classes, const Updates &updates);

}  // namespace analyze
