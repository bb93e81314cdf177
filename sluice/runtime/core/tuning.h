/* Options of gcc for the code that processes packets. They are set here so that they apply in every build. clang does
 * not need them.
 *
 * no-tree-slp-vectorize: neighbouring fields are written and read one by one, as in the source. Otherwise narrow loads
 * wait for a wide store, or a wide load for narrow stores, which costs more than vectorisation saves.
 *
 * no-gcse: hoisting common subexpressions across branches makes gcc spill them, because the registers have been
 * assigned by then. The pass also costs compile time. */
#ifndef SL_TUNING_H
#define SL_TUNING_H

#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("no-tree-slp-vectorize", "no-gcse")
#endif

#endif
