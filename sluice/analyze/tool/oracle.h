// Instruments a program so that each run checks the analysis: before each receive call, the run-time library
// (../oracle/run_time.c) compares the bytes of variables and of allocated memory with those at the call before. What
// changed and is not updateable was missed.
#pragma once

#include <set>
#include <string>

#include "receive.h"
#include "updates.h"

namespace analyze {

struct OracleOptions {
  std::set<std::string> without;  // variables treated as not updateable, to test that the check finds them
};

// module: a second copy of the analysed module, in which no local variable was promoted.
void instrument_for_oracle(llvm::Module &module, const PointsTo &points_to, const Receives &receives,
                           const Classes &classes, const Updates &updates, const OracleOptions &options);

}  // namespace analyze
