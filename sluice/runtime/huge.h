/* Huge pages for large memory: the processor remembers where more of it lies, and the kernel gives it in fewer steps.
 * Small memory would be made larger by one. Where there are none, small pages do. */
#ifndef SL_HUGE_H
#define SL_HUGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum { SL_HUGE_FROM = 1 << 20 };   /* bytes in use from which on the rest may lie in huge pages */

/* The first SL_HUGE_FROM bytes of a mapping are in use: more will be. */
static inline void sl_huge_rest(void *memory, size_t bytes) {
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t begin = ((uintptr_t)memory + SL_HUGE_FROM + page - 1) & ~(page - 1), end = (uintptr_t)memory + bytes;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

#endif
