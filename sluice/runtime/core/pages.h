/* The pages of large memory: huge ones, and pages that are there before they are needed. */
#ifndef SL_PAGES_H
#define SL_PAGES_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SL_HUGE_PAGE = 2 << 20 };

/* Address space of so many bytes, read as 0, that the machine gives memory for when it is first touched; NULL when it
 * cannot be had. It lies so that a huge page begins at `from`, the bytes in use from which on the rest may lie in huge
 * pages: a small page costs a packet 1 to 2 us, which is a tenth of the time of what it is needed for, and up to 512 more of
 * them would come first. */
static inline void *sl_map(size_t bytes, size_t from) {
    const size_t page = SL_HUGE_PAGE, small = (size_t)sysconf(_SC_PAGESIZE);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t more = bytes > from ? page : 0;
    if (bytes > SIZE_MAX - page - small)
        return NULL;
    bytes = (bytes + small - 1) & ~(small - 1);
    uint8_t *at = mmap(NULL, bytes + more, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (more) {
        size_t before = (page - ((uintptr_t)at + from) % page) % page;
        if (before)
            munmap(at, before);
        at += before;
        munmap(at + bytes, page - before);
    }
    return at;
}

/* The first `from` bytes of a mapping are in use: more will be. Of huge pages the processor remembers where more
 * lies, and the kernel gives them in fewer steps; small memory would be made larger by one. Where there are none, small
 * pages do. */
static inline void sl_huge_rest(void *memory, size_t bytes, size_t from) {
    const uintptr_t page = SL_HUGE_PAGE;
    uintptr_t begin = ((uintptr_t)memory + from + page - 1) & ~(page - 1), end = (uintptr_t)memory + bytes;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

/* Has the kernel give all of a mapping now, so that it need not while packets wait: it clears what it gives, and where it
 * must make large pages first, that is most of what a packet costs. 0, or -1 when the kernel says that it has not so much;
 * one that promises more than it has ends the program instead. */
static inline int sl_prefault(void *memory, size_t bytes) {
    if (bytes == 0)
        return 0;
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno == ENOMEM)   /* else: a kernel before 5.14 does not know it, a sandbox does not allow it */
        return -1;
#endif
    for (size_t at = 0; at < bytes; at += 4096)
        ((volatile uint8_t *)memory)[at] = 0;
    return 0;
}

#endif
