// Which bytes of updated variables certainly are set before an instruction (thesis, figure 4.12b).
#pragma once

#include "access.h"
#include "llvm/ADT/MapVector.h"
#include "receive.h"

namespace analyze {

using UpdatePoints = llvm::MapVector<const llvm::Instruction *, llvm::SetVector<unsigned>>;

// Removes the numbers that are set on all paths from the last packet to each point, over calls and returns. Returns how many.
size_t prune(UpdatePoints &points, size_t variables, const Accesses &accesses, const Receives &receives);

}  // namespace analyze
