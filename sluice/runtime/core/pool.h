/* The memory of held pieces and records: a budget, and blocks of 64 bytes to 128 KiB within it.
 *
 * A buddy allocator (Knowlton 1965): a block that is freed is merged with its buddy if that is free, so that a flood of
 * small pieces does not fragment the pool for good. In front of it are magazines (Bonwick and Adams, USENIX 2001),
 * which hold some free blocks of each class without merging them: a freed block is usually needed again soon, and a
 * block that is split off is usually needed together with its neighbours. No request fails because of blocks in
 * magazines; they are merged first.
 *
 * The address space of the whole budget is mapped at open. The kernel provides memory when it is first touched, 128 KiB
 * after 128 KiB (`reserved`), and gets it back at close. So `reserved` never exceeds the budget. What a pool hands out
 * depends only on the order of the calls, including those that only test (sl_pool_has, sl_pool_suffices). */
#ifndef SL_POOL_H
#define SL_POOL_H

#include "core/bytes.h"
#include "core/pages.h"

#if defined(__SANITIZE_ADDRESS__)
#define SL_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SL_POISONS 1
#endif
#endif
#ifdef SL_POISONS
/* Under the sanitizer, a byte that is not handed out must not be touched. */
#include <sanitizer/asan_interface.h>
#define SL_POISON(at, bytes) __asan_poison_memory_region(at, bytes)
#define SL_UNPOISON(at, bytes) __asan_unpoison_memory_region(at, bytes)
#else
#define SL_POISON(at, bytes) ((void)0)
#define SL_UNPOISON(at, bytes) ((void)0)
#endif

enum {
    SL_POOL_LEAST = 64,
    SL_POOL_MOST = 131072,
    SL_POOL_CLASSES = 12,   /* 64 << 11 == 131072 */
    SL_POOL_CUT = 3,        /* a block that is larger by so many classes is split into eight at once */
    SL_MAGAZINE_MOST = 16,  /* blocks in one magazine */
    SL_POOL_SPARE = 8,      /* while holders give up: until this part of the budget is free */
    SL_POOL_PACKET = 4096,  /* bytes in one block that are enough to hold a packet of 1,500 bytes, whatever its place */
    SL_POOL_PACKETS = 32,   /* so many of these blocks are free then, if the spare part has room for them */
    SL_RELIEF_MOST = 1024,  /* holders that give up between two groups of packets: 32 for each packet */
    SL_POOL_HUGE_FROM = 2 * SL_POOL_MOST,   /* bytes cut from the budget from which on the rest may lie in huge pages */
    SL_ADDRESS_BITS = 48,   /* of all blocks' addresses: no known kernel hands out others unless requested to, even if
                             * the processor supports them (x86-64's fifth level, arm64's 52 bits) */
};

/* The first bytes of a free block. */
struct sl_pool_free {
    struct sl_pool_free *next, *previous;
};

/* Free blocks of one class that are not merged: the last freed first. */
struct sl_magazine {
    struct sl_pool_free *first;
    uint32_t count;
};

/* The owner of blocks: a side of an instance that holds data, an incomplete message, or the context of a native module.
 * It is a member of struct sl_held, sl_messages, or sl_native_context. */
struct sl_holder {
    struct sl_holder *older, *newer;
    enum sl_holder_kind { SL_HOLDER_SIDE, SL_HOLDER_MESSAGE, SL_HOLDER_CONTEXT } kind;
};

/* The struct of this type that contains a holder. */
#define SL_HOLDER_OF(at, type) ((type *)(void *)((char *)(at) - offsetof(type, holder)))

struct sl_pool {
    uint64_t used;       /* bytes handed out, each block counted with the size of its class */
    uint64_t reserved;   /* bytes of the budget that blocks have been cut from */
    uint64_t budget;     /* `mapped` without what is charged (sl_pool_charge) */
    uint64_t mapped;     /* the bytes given at open, rounded down to 64 */
    uint64_t refused;    /* calls of sl_pool_take that returned NULL, and of sl_pool_suffices that returned false */
    uint64_t blocks;     /* handed out, of any class */
    uint64_t hold;       /* maximum bytes of one side, if its sequence has no limit of its own */
    uint64_t promised;   /* argument of the last sl_pool_suffices; its caller may still be taking these bytes */

    struct sl_holder *oldest, *newest;   /* the holders, in the order in which they began to hold data; a context is renewed
                                          * by each call */
    bool pressed;        /* blocks were taken while the budget was nearly cut up: see sl_pool_ready */

    uint8_t *memory;     /* `mapped` bytes of address space */
    uint8_t *starts;     /* for each 64 bytes of `memory`: 1 + the class of the free block that starts here, or 0 */
    struct sl_pool_free *free[SL_POOL_CLASSES];   /* lists of free buddies, the last freed first */
    uint32_t nonempty;   /* bit c: free[c] is not NULL */
    struct sl_magazine magazines[SL_POOL_CLASSES];
};

/* The class of a block for so many bytes; SL_POOL_CLASSES or more if there is none so large. */
static inline unsigned sl_pool_class(size_t bytes) {
    return bytes <= SL_POOL_LEAST ? 0 : 58 - (unsigned)__builtin_clzll((uint64_t)bytes - 1);
}

/* Opens an empty pool of at most `budget` bytes. Returns 0, or -1 if the address space is not available or lies too
 * high; then the pool refuses every request, and may be closed. */
SL_COLD int sl_pool_open(struct sl_pool *pool, uint64_t budget) {
    *pool = (struct sl_pool){0};
    budget &= ~(uint64_t)(SL_POOL_LEAST - 1);
    if (budget == 0)
        return 0;
    uint8_t *memory = sl_map(budget, SL_POOL_HUGE_FROM);
    uint8_t *starts = sl_map(budget / SL_POOL_LEAST, SL_POOL_HUGE_FROM);
    if (!memory || !starts || ((uint64_t)(uintptr_t)memory + budget) >> SL_ADDRESS_BITS) {
        if (memory)
            munmap(memory, budget);
        if (starts)
            munmap(starts, budget / SL_POOL_LEAST);
        return -1;
    }
    pool->memory = memory;
    pool->starts = starts;
    pool->budget = pool->mapped = budget;
    return 0;
}

/* Populates the whole budget at once, see sl_prefault. Call directly after sl_pool_open. */
SL_COLD int sl_pool_prefault(struct sl_pool *pool) {
    return sl_prefault(pool->memory, pool->budget) || sl_prefault(pool->starts, pool->budget / SL_POOL_LEAST) ? -1 : 0;
}

/* Returns all memory to the kernel, including blocks that are still handed out. */
SL_COLD void sl_pool_close(struct sl_pool *pool) {
    if (pool->mapped) {
        SL_UNPOISON(pool->memory, pool->reserved);
        munmap(pool->memory, pool->mapped);
        munmap(pool->starts, pool->mapped / SL_POOL_LEAST);
    }
    *pool = (struct sl_pool){0};
}

/* Takes bytes that are allocated elsewhere out of the budget, for as long as the pool is open: from the part that no blocks
 * have been cut from, and at most half of what was given at open. False if that is not possible. */
SL_COLD bool sl_pool_charge(struct sl_pool *pool, uint64_t bytes) {
    uint64_t left = sl_min(pool->budget - pool->reserved, pool->mapped / 2 - (pool->mapped - pool->budget));
    uint64_t rounded = (bytes + SL_POOL_LEAST - 1) & ~(uint64_t)(SL_POOL_LEAST - 1);
    if (bytes > left || rounded > left)
        return false;
    pool->budget -= rounded;
    sl_unpopulate(pool->memory, pool->mapped, pool->budget);   /* of --prefault */
    return true;
}

static inline void sl_pool_push(struct sl_pool *pool, uint64_t offset, unsigned class) {
    struct sl_pool_free *block = (struct sl_pool_free *)(void *)(pool->memory + offset);
    SL_UNPOISON(block, sizeof *block);
    *block = (struct sl_pool_free){pool->free[class], NULL};
    if (block->next)
        block->next->previous = block;
    pool->free[class] = block;
    pool->nonempty |= 1u << class;
    pool->starts[offset / SL_POOL_LEAST] = (uint8_t)(class + 1);
}

static inline void sl_pool_unlink(struct sl_pool *pool, struct sl_pool_free *block, unsigned class) {
    if (block->next)
        block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else if (!(pool->free[class] = block->next))
        pool->nonempty &= ~(1u << class);
    pool->starts[(uint64_t)((uint8_t *)block - pool->memory) / SL_POOL_LEAST] = 0;
    SL_POISON(block, sizeof *block);
}

/* Cuts the next blocks from the budget: one of the largest class, or, at the end of the budget, the remainder in powers
 * of two. Returns false if nothing is left. */
static inline bool sl_pool_extend(struct sl_pool *pool) {
    uint64_t left = sl_min(pool->budget - pool->reserved, SL_POOL_MOST);
    if (left == 0)
        return false;
    if (pool->reserved == SL_POOL_HUGE_FROM)
        sl_huge_rest(pool->memory, pool->budget, SL_POOL_HUGE_FROM);
    SL_POISON(pool->memory + pool->reserved, left);
    /* The largest first: each block then lies at a multiple of its own size, as buddies must. */
    for (unsigned class = SL_POOL_CLASSES; class-- > 0;)
        if (left & (uint64_t)SL_POOL_LEAST << class) {
            sl_pool_push(pool, pool->reserved, class);
            pool->reserved += (uint64_t)SL_POOL_LEAST << class;
        }
    return true;
}

static inline void sl_magazine_add(struct sl_magazine *magazine, void *at) {
    struct sl_pool_free *block = at;
    SL_UNPOISON(block, sizeof *block);
    block->next = magazine->first;
    magazine->first = block;
    magazine->count++;
}

static inline struct sl_pool_free *sl_magazine_remove(struct sl_magazine *magazine) {
    struct sl_pool_free *block = magazine->first;
    magazine->first = block->next;
    magazine->count--;
    SL_POISON(block, sizeof *block);
    return block;
}

/* Frees a block: merges it with its buddy if that is free, then the result with its own buddy, and so on. */
SL_COLD void sl_pool_join(struct sl_pool *pool, void *at, unsigned class) {
    uint64_t offset = (uint64_t)((uint8_t *)at - pool->memory);
    while (class + 1 < SL_POOL_CLASSES) {
        uint64_t buddy = offset ^ (uint64_t)SL_POOL_LEAST << class;
        if (buddy >= pool->reserved || pool->starts[buddy / SL_POOL_LEAST] != class + 1)
            break;
        sl_pool_unlink(pool, (struct sl_pool_free *)(void *)(pool->memory + buddy), class);
        offset = sl_min(offset, buddy);
        class++;
    }
    sl_pool_push(pool, offset, class);
}

/* Does the same with all blocks in magazines. */
SL_COLD void sl_pool_join_all(struct sl_pool *pool) {
    for (unsigned class = 0; class < SL_POOL_CLASSES; class++)
        while (pool->magazines[class].count)
            sl_pool_join(pool, sl_magazine_remove(&pool->magazines[class]), class);
}

/* Would sl_pool_take hand out so many bytes now? May merge the blocks in magazines to find out. */
static inline bool sl_pool_has(struct sl_pool *pool, size_t bytes) {
    unsigned class = sl_pool_class(bytes);
    if (class >= SL_POOL_CLASSES)
        return false;
    if (pool->nonempty >> class || pool->budget - pool->reserved >= (uint64_t)SL_POOL_LEAST << class ||
        pool->magazines[class].count)
        return true;
    sl_pool_join_all(pool);
    return pool->nonempty >> class != 0;
}

/* Would sl_pool_take succeed for any sequence of blocks that have so many bytes together, each rounded up to its class?
 * False may be too cautious; true is always right, because a free block of the total size can be split into them in any
 * order. */
static inline bool sl_pool_suffices(struct sl_pool *pool, uint64_t bytes) {
    pool->promised = bytes;
    if (bytes <= SL_POOL_MOST) {
        bool has = sl_pool_has(pool, bytes);
        pool->refused += !has;
        return has;
    }
    uint64_t whole = (pool->budget - pool->reserved) / SL_POOL_MOST;
    if (whole * SL_POOL_MOST >= bytes)
        return true;
    sl_pool_join_all(pool);
    for (const struct sl_pool_free *at = pool->free[SL_POOL_CLASSES - 1]; at && whole * SL_POOL_MOST < bytes; at = at->next)
        whole++;
    bool enough = whole * SL_POOL_MOST >= bytes;
    pool->refused += !enough;
    return enough;
}

/* sl_pool_take when the magazine of the class is empty. */
SL_COLD void *sl_pool_cut(struct sl_pool *pool, size_t bytes) {
    unsigned wanted = sl_pool_class(bytes);
    if (!sl_pool_has(pool, bytes)) {
        pool->refused++;
        return NULL;
    }
    if (pool->nonempty >> wanted == 0)
        sl_pool_join_all(pool);   /* before new memory is touched */
    while (pool->nonempty >> wanted == 0)
        sl_pool_extend(pool);

    unsigned class = wanted + (unsigned)__builtin_ctz(pool->nonempty >> wanted);
    struct sl_pool_free *block = pool->free[class];
    sl_pool_unlink(pool, block, class);
    uint64_t offset = (uint64_t)((uint8_t *)block - pool->memory);
    if (pool->budget - pool->reserved < pool->budget / SL_POOL_SPARE)
        pool->pressed = true;
    /* Splitting into eight leaves less for other classes. It is only done while the promised bytes fit into the part of
     * the budget that nothing was cut from, counted in whole blocks of the largest class. */
    bool several = class >= wanted + SL_POOL_CUT && pool->budget - pool->reserved >= pool->promised + SL_POOL_MOST;
    unsigned least = several ? wanted + SL_POOL_CUT : wanted;
    while (class > least) {
        class--;
        sl_pool_push(pool, offset + ((uint64_t)SL_POOL_LEAST << class), class);
    }
    for (unsigned i = (1u << (least - wanted)) - 1; i; i--)
        sl_magazine_add(&pool->magazines[wanted], pool->memory + offset + ((uint64_t)i * SL_POOL_LEAST << wanted));
    pool->used += (uint64_t)SL_POOL_LEAST << wanted;
    pool->blocks++;
    SL_UNPOISON(block, bytes);
    return block;
}

/* Takes a block of at least so many bytes, at a multiple of 64, with undefined content. It must be given back with the
 * same number. Returns NULL, and increments `refused`, if the budget has no such block left, or for more than
 * SL_POOL_MOST bytes. */
static inline void *sl_pool_take(struct sl_pool *pool, size_t bytes) {
    unsigned class = sl_pool_class(bytes);
    if (SL_UNLIKELY(class >= SL_POOL_CLASSES || !pool->magazines[class].count))
        return sl_pool_cut(pool, bytes);
    struct sl_pool_free *block = sl_magazine_remove(&pool->magazines[class]);
    pool->used += (uint64_t)SL_POOL_LEAST << class;
    pool->blocks++;
    SL_UNPOISON(block, bytes);
    return block;
}

/* Frees what sl_pool_take handed out for the same number of bytes. */
static inline void sl_pool_give(struct sl_pool *pool, void *at, size_t bytes) {
    unsigned class = sl_pool_class(bytes);
    pool->used -= (uint64_t)SL_POOL_LEAST << class;
    pool->blocks--;
    SL_POISON(at, (uint64_t)SL_POOL_LEAST << class);
    if (SL_LIKELY(pool->magazines[class].count < SL_MAGAZINE_MOST))
        sl_magazine_add(&pool->magazines[class], at);
    else
        sl_pool_join(pool, at, class);
}

/* --- holders ---
 *
 * When the pool is full, the request of a packet fails, whichever connection it belongs to. So that a flood of
 * connections that hold data does not take the memory of all later ones, the longest holder gives up: between two
 * packets, in order, until the pool is ready for the next ones. */

/* A holder begins to hold. */
static inline void sl_holder_add(struct sl_pool *pool, struct sl_holder *holder) {
    holder->older = pool->newest;
    holder->newer = NULL;
    *(pool->newest ? &pool->newest->newer : &pool->oldest) = holder;
    pool->newest = holder;
}

/* A holder has given back all its blocks. */
static inline void sl_holder_remove(struct sl_pool *pool, struct sl_holder *holder) {
    *(holder->older ? &holder->older->newer : &pool->oldest) = holder->newer;
    *(holder->newer ? &holder->newer->older : &pool->newest) = holder->older;
}

/* A holder begins again: it is the newest. */
static inline void sl_holder_renew(struct sl_pool *pool, struct sl_holder *holder) {
    if (pool->newest != holder) {
        sl_holder_remove(pool, holder);
        sl_holder_add(pool, holder);
    }
}

/* Free blocks of SL_POOL_PACKET bytes, counted up to `most`. */
static inline uint64_t sl_pool_packets(const struct sl_pool *pool, uint64_t most) {
    uint64_t count = (pool->budget - pool->reserved) / SL_POOL_PACKET;
    for (unsigned class = sl_pool_class(SL_POOL_PACKET); class < SL_POOL_CLASSES; class++)
        for (const struct sl_pool_free *at = pool->free[class]; at && count < most; at = at->next)
            count += ((uint64_t)SL_POOL_LEAST << class) / SL_POOL_PACKET;
    return count;
}

/* Is there room for the next packets: is a part of the budget free, and not only in small blocks? Merges the blocks in
 * magazines if that is necessary. */
SL_COLD bool sl_pool_ready(struct sl_pool *pool) {
    uint64_t spare = pool->budget / SL_POOL_SPARE, packets = sl_min(SL_POOL_PACKETS, spare / SL_POOL_PACKET);
    if (pool->budget - pool->used < spare)
        return false;
    if (sl_pool_packets(pool, packets) < packets)
        sl_pool_join_all(pool);
    return sl_pool_packets(pool, packets) >= packets;
}

/* --- scratch: memory that is valid until the packet's callbacks have returned --- */

struct sl_scratch {
    uint8_t *at;   /* the owner's memory */
    size_t size;
    size_t used;   /* the owner sets it to 0 when the bytes are no longer needed */
};

/* Takes n bytes, at any alignment. Returns NULL if fewer are left. */
static inline uint8_t *sl_scratch_take(struct sl_scratch *scratch, size_t n) {
    if (n > scratch->size - scratch->used)
        return NULL;
    uint8_t *at = scratch->at + scratch->used;
    scratch->used += n;
    return at;
}

#endif
