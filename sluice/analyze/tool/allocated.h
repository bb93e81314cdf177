// Which structures the program allocates at each call of malloc and the like: the types by which it uses the memory.
#pragma once

#include <map>

#include "fields.h"
#include "pointsto.h"

namespace analyze {

// By allocation site. A site that allocates several structures (a wrapper of malloc) has none.
std::map<const llvm::CallBase *, const llvm::DICompositeType *> allocated_structures(const PointsTo &points_to,
                                                                                      const Fields &fields);

}  // namespace analyze
