/* Which copy of overlapping bytes wins, as intrusion detection tells operating systems apart by what they make of the
 * fragments of a datagram (Novak, "Target-Based Fragmentation Reassembly", 2005, after Shankar and Paxson, "Active
 * Mapping", 2003) and of the segments of a stream (Novak and Sturges, "Target-Based TCP Stream Reassembly", 2007). */
#ifndef SL_SEQUENCE_POLICY_H
#define SL_SEQUENCE_POLICY_H

#include "core/bytes.h"

enum sl_policy {
    SL_POLICY_FIRST,       /* what came first stays */
    SL_POLICY_LAST,        /* what comes last replaces it */
    SL_POLICY_BSD,         /* the new one wins over what starts after it */
    SL_POLICY_BSD_RIGHT,   /* the new one wins unless it starts before the old */
    SL_POLICY_LINUX,       /* as BSD; and with the same start, when it is longer */
    SL_POLICY_WINDOWS,     /* as BSD */
    SL_POLICY_SOLARIS,     /* the new one wins when it covers the old, or starts and ends after where that does */
    SL_POLICY_LINUX_FRAGMENTS,     /* the new one wins over what starts after it or at the same place */
    SL_POLICY_WINDOWS_FRAGMENTS,   /* the new one wins when it sticks out at both ends */
    SL_POLICY_SOLARIS_FRAGMENTS,   /* the new one wins when it starts before the old and covers it */
};

/* Does a new segment [start, end) win over the held piece [old_start, old_end) where both have bytes? All
 * four are distances from the same point; the piece is taken as it stands, the segment as far as it has
 * bytes in memory and is not delivered. */
static inline bool sl_policy_new_wins(uint8_t policy, uint64_t start, uint64_t end, uint64_t old_start,
                                      uint64_t old_end) {
    switch (policy) {
    case SL_POLICY_LAST: return true;
    case SL_POLICY_BSD:
    case SL_POLICY_WINDOWS: return start < old_start;
    case SL_POLICY_BSD_RIGHT: return start >= old_start;
    case SL_POLICY_LINUX: return start < old_start || (start == old_start && end > old_end);
    case SL_POLICY_SOLARIS: return start <= old_start ? end >= old_end : end > old_end;
    case SL_POLICY_LINUX_FRAGMENTS: return start <= old_start;
    case SL_POLICY_WINDOWS_FRAGMENTS: return start < old_start && end > old_end;
    case SL_POLICY_SOLARIS_FRAGMENTS: return start < old_start && end >= old_end;
    default: return false;
    }
}

#endif
