/* How gcc compiles what packets pass, whoever calls it (clang 14 takes 0.98 to 1.03 of the time as it is).
 *
 * Neighbouring fields are written and read one by one, as the code says: a wide store that narrow loads wait for, or the
 * other way round, costs more than it saves (2% of a packet's time). And what several ways calculate is not calculated
 * before they part, late in the compiler, where registers are given out by then: it is kept in memory and comes back from
 * there (1 to 2% with warm packets, and a twentieth of the compiler's own time). */
#ifndef SL_TUNING_H
#define SL_TUNING_H

#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("no-tree-slp-vectorize", "no-gcse")
#endif

#endif
