// Which structures the program allocates at each call of malloc and the like: what it uses the memory as.
#pragma once

#include <map>

#include "fields.h"
#include "pointsto.h"

namespace analyze {

// By allocation site. A site that allocates several structures (a wrapper of malloc) has none.
std::map<const llvm::CallBase *, const llvm::DICompositeType *> allocated_structures(const PointsTo &points_to,
                                                                                      const Fields &fields);

}  // namespace analyze
