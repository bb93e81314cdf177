/* The pages of large memory: huge pages, and pages that are populated before they are needed. */
#ifndef SL_PAGES_H
#define SL_PAGES_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SL_HUGE_PAGE = 2 << 20 };

/* Reserves address space of so many bytes, which read as 0. The kernel provides memory when it is first touched.
 * Returns NULL on failure. The mapping is placed so that a huge page begins at offset `from`: when so many bytes are in
 * use, the rest may lie in huge pages (sl_huge_rest). Without this placement, up to 512 more small pages would precede
 * the first huge page, and a fault on each of them costs a significant part of the time of the packets that need it. */
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

/* Call when the first `from` bytes of a mapping are in use, so that more are likely to be: requests huge pages for the
 * rest. A huge page occupies one entry of the TLB, and the kernel provides it in fewer steps. It is not used from the
 * beginning because it would make a small memory larger. If the request fails, small pages are used. */
static inline void sl_huge_rest(void *memory, size_t bytes, size_t from) {
    const uintptr_t page = SL_HUGE_PAGE;
    uintptr_t begin = ((uintptr_t)memory + from + page - 1) & ~(page - 1), end = (uintptr_t)memory + bytes;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

/* Makes the kernel populate a whole mapping now, so that packets do not wait for it: the kernel clears each page, and
 * when it has to assemble huge pages first, this dominates the cost of a packet. Returns 0, or -1 if the kernel reports
 * that there is too little memory. A kernel that promises more memory than it has ends the program instead. */
static inline int sl_prefault(void *memory, size_t bytes) {
    if (bytes == 0)
        return 0;
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno == ENOMEM)   /* else: kernels before 5.14 do not know the advice, and a sandbox may forbid it */
        return -1;
#endif
    for (size_t at = 0; at < bytes; at += 4096)
        ((volatile uint8_t *)memory)[at] = 0;
    return 0;
}

/* Gives the pages of a mapping of `bytes` back to the kernel from offset `from` on; they read as 0 again. */
static inline void sl_unpopulate(void *memory, size_t bytes, size_t from) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)memory + from + page - 1) & ~(page - 1), end = (uintptr_t)memory + bytes;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

#endif
