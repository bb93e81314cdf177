// The result of all analyses as JSON. ../report/model.py reads it; docs/analyze.md documents it.
#pragma once

#include "flowspace.h"
#include "impact.h"
#include "overwritten.h"
#include "paths.h"
#include "llvm/Support/JSON.h"

namespace analyze {

struct Analysis {
  const llvm::Module &module;
  const PointsTo &points_to;
  const Receives &receives;
  const Reach &reach;
  const Variables &variables;
  const Classes &classes;
  const Updates &updates;
  const Overwritten &overwritten;
  const Paths &paths;
  const Flowspace &flowspace;
  const Impacts &impacts;
};

// Writes the members of an object that is open.
void report(const Analysis &analysis, llvm::json::OStream &out);

}  // namespace analyze
