/* The table of instances: its index, and how an instance is found or predicted by its key. table.h adds and removes. */
#ifndef SL_TABLE_LOOKUP_H
#define SL_TABLE_LOOKUP_H

#include "core/bytes.h"
#include "core/pages.h"

#if defined __AVX512VL__
#include <immintrin.h>
#elif defined __SSE2__
#include <emmintrin.h>
#endif

#define SL_NEVER UINT64_MAX

#define SL_TABLE_MOST 0xfffffff0u   /* instances; larger slot numbers have other meanings */

/* The header of every generated instance; uint64_t key[key_words] follows directly. In a free slot, slot is
 * SL_SLOT_FREE, deadline is SL_NEVER, the first word of the key is all ones, and hash is 1 + the free slot below it on
 * the stack of free slots (or 0). */
struct sl_instance {
    uint64_t deadline;   /* in nanoseconds of packet time, or SL_NEVER */
    uint32_t hash;
    uint32_t slot;       /* its index in the table's array */
};

enum {
    SL_BUCKET_ENTRIES = 8,
    SL_BUCKET_LOAD = 3,      /* instances per home bucket before more are added: 21 bytes per instance */
    SL_BUCKETS_LEAST = 16,   /* a power of two */
    SL_BUCKETS_STEP = 8,     /* home buckets that are added together */
    SL_INSTANCE_LINES = 4,   /* of an instance that are prefetched at most */
    SL_FRESH_LEAD = 4,       /* memory that is used for the first time is prefetched so many instances early */
    /* Bytes of instances, or of the index, in use from which on the rest may lie in huge pages. This is reached with
     * some hundred connections, when more are likely to come. A huge page costs as much as many small ones, so a small
     * table does without. */
    SL_TABLE_HUGE_FROM = 1 << 16,
    SL_TABLE_NEAR = 1 << 25,   /* bytes of live instances above which an instance comes from memory, and not from a
                                * cache */
    SL_GROUP = 32,           /* packets that are looked ahead together: more than a core can have misses in flight */
};
#define SL_SLOT_FREE UINT32_MAX
#define SL_BUCKET_LINK UINT32_MAX   /* in place[7]: hash[7] is the number of an overflow bucket */

/* Entries are at the front; an empty entry has place 0. */
struct sl_bucket {
    uint32_t hash[SL_BUCKET_ENTRIES];
    uint32_t place[SL_BUCKET_ENTRIES];   /* slot + 1 */
} __attribute__((aligned(64)));

struct sl_table {
    uint8_t *instances;         /* max_instances * instance_bytes of address space */
    size_t instance_bytes;
    struct sl_bucket *home;     /* home buckets, selected by the hash */
    struct sl_bucket *spill;    /* overflow buckets */
    uint32_t buckets;           /* home buckets in use: 2^level + those already split at this level */
    uint32_t mask, low_mask;    /* 2^(level+1) - 1, and 2^level - 1 */
    uint64_t secret[4];         /* from the seed; the last is odd */

    uint32_t live;              /* instances */
    uint32_t high_water;        /* slots ever used */
    uint32_t max_instances;
    uint32_t many;              /* slots in use from which on the rest may lie in huge pages */
    uint32_t free_slot;         /* 1 + the slot freed last, or 0 */
    uint32_t near;              /* max_instances while the processor's caches can contain all live instances, 0
                                 * otherwise */
    uint32_t spill_used;        /* overflow buckets ever used */
    uint32_t spill_free;        /* 1 + the overflow bucket freed last (linked by hash[0]), or 0 */
    unsigned key_words;
    size_t home_bytes, spill_bytes;
    uint32_t sequences_at;      /* offset of an instance's sequences, if it has any */
    uint32_t sequence_count;
    /* The instance that was added last. On a loopback or a fast network, the answer and further packets directly follow
     * the packet that creates an instance, and were looked ahead before the instance existed: they find it here without
     * another hash. */
    struct sl_instance *newest;
    struct sl_instance *predicted[SL_GROUP];   /* by packet of a group: the predicted instance, or NULL */
};

__extension__ typedef unsigned __int128 sl_uint128;

static inline uint64_t sl_fold(uint64_t a, uint64_t b) {
    sl_uint128 product = (sl_uint128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* splitmix64 (Steele et al. 2014): unrelated numbers from any seed, including 0. */
static inline uint64_t sl_splitmix(uint64_t *seed) {
    uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

SL_COLD void sl_table_close(struct sl_table *table) {
    if (table->instances)
        munmap(table->instances, table->instance_bytes * table->max_instances);
    if (table->home)
        munmap(table->home, table->home_bytes);
    if (table->spill)
        munmap(table->spill, table->spill_bytes);
    *table = (struct sl_table){0};
}

/* Opens an empty table of at most max_instances (1 to SL_TABLE_MOST) of instance_bytes each (rounded up to 8; they
 * include struct sl_instance and the key). Returns 0, or -1 if the address space is not available or the arguments are
 * invalid; then nothing needs to be closed. */
SL_COLD int sl_table_open(struct sl_table *table, size_t instance_bytes, unsigned key_words, uint32_t max_instances,
                          uint64_t seed) {
    *table = (struct sl_table){0};
    if (max_instances == 0 || max_instances > SL_TABLE_MOST || instance_bytes > 1u << 30 ||
        instance_bytes < sizeof(struct sl_instance) + 8 * (size_t)key_words)
        return -1;
    table->instance_bytes = (instance_bytes + 7) & ~(size_t)7;
    table->max_instances = max_instances;
    table->near = max_instances;
    table->many = (uint32_t)(SL_TABLE_HUGE_FROM / table->instance_bytes);
    table->key_words = key_words;
    table->buckets = SL_BUCKETS_LEAST;
    table->mask = 2 * SL_BUCKETS_LEAST - 1;
    table->low_mask = SL_BUCKETS_LEAST - 1;
    /* An overflow bucket is only added to a chain that has seven entries in its home bucket, and in a chain all
     * overflow buckets but the first are full. So there is at most one for seven instances. */
    table->home_bytes = ((size_t)max_instances / SL_BUCKET_LOAD + SL_BUCKETS_LEAST + SL_BUCKETS_STEP) * sizeof(struct sl_bucket);
    table->spill_bytes = ((size_t)max_instances / 7 + 2) * sizeof(struct sl_bucket);
    for (int i = 0; i < 4; i++)
        table->secret[i] = sl_splitmix(&seed);
    table->secret[3] |= 1;
    table->instances = sl_map(table->instance_bytes * max_instances, SL_TABLE_HUGE_FROM);
    table->home = sl_map(table->home_bytes, SL_TABLE_HUGE_FROM);
    table->spill = sl_map(table->spill_bytes, SL_TABLE_HUGE_FROM);
    if (!table->instances || !table->home || !table->spill) {
        sl_table_close(table);
        return -1;
    }
    return 0;
}

/* Populates the memory of all instances at once, see sl_prefault. Call directly after sl_table_open. */
SL_COLD int sl_table_prefault(struct sl_table *table) {
    return sl_prefault(table->instances, table->instance_bytes * table->max_instances) ||
                   sl_prefault(table->home, table->home_bytes) || sl_prefault(table->spill, table->spill_bytes)
               ? -1
               : 0;
}

/* Populates the memory of the first instances, as far as the kernel has it: up to the end of the first huge page, which
 * is enough for some ten thousand connections. Otherwise the first packets of a box would wait for page faults. Call
 * directly after sl_table_open, for a table that will be used. */
SL_COLD void sl_table_ready(struct sl_table *table) {
    const size_t most = SL_TABLE_HUGE_FROM + SL_HUGE_PAGE;
    (void)sl_prefault(table->instances, sl_min(most, table->instance_bytes * table->max_instances));
    (void)sl_prefault(table->home, sl_min(most, table->home_bytes));
}

/* The keyed hash of a key; key_words is a literal at the call. */
static inline uint32_t sl_table_hash(const struct sl_table *table, const uint64_t *key, unsigned key_words) {
    uint64_t h = table->secret[0];
    unsigned i = 0;
    for (; i + 1 < key_words; i += 2)
        h = sl_fold(key[i] ^ table->secret[1], key[i + 1] ^ h);
    if (i < key_words)
        h = sl_fold(key[i] ^ table->secret[1], h ^ table->secret[2]);
    /* Keys with a pattern leave a pattern in a product. A second product, with a secret odd number, of which the upper
     * half is taken, is universal (multiply-shift: Dietzfelbinger et al., J. Algorithms 25, 1997). */
    return (uint32_t)(h * table->secret[3] >> 32);
}

static inline struct sl_bucket *sl_table_home(const struct sl_table *table, uint32_t hash) {
    /* Without a branch: no branch predictor can predict which half a hash belongs to. */
    uint32_t i = hash & table->mask, split = -(uint32_t)(i < table->buckets);
    return &table->home[i & (split | table->low_mask)];
}

/* Prefetches a home bucket. */
SL_PREFETCH void sl_table_prefetch_home(const struct sl_table *table, const struct sl_bucket *home) {
    sl_prefetch((uintptr_t)home, SL_LIKELY(table->near));
}

/* The address of a slot's instance. `instance_bytes` is the table's own; as a literal it saves a multiplication. */
static inline struct sl_instance *sl_table_place(const struct sl_table *table, uint32_t slot, size_t instance_bytes) {
    return (struct sl_instance *)(void *)(table->instances + slot * instance_bytes);
}

static inline struct sl_instance *sl_table_slot(const struct sl_table *table, uint32_t slot) {
    return sl_table_place(table, slot, table->instance_bytes);
}

static inline uint64_t *sl_instance_key(struct sl_instance *instance) { return (uint64_t *)(void *)(instance + 1); }

/* Are two keys the same? All words are compared, without a branch between them; key_words is a literal at the call. */
static inline bool sl_key_same(const uint64_t *key, const uint64_t *other, unsigned key_words) {
    uint64_t unlike = 0;
    for (unsigned i = 0; i < key_words; i++)
        unlike |= key[i] ^ other[i];
    return unlike == 0;
}

/* Is this its key? */
static inline bool sl_instance_has(struct sl_instance *instance, const uint64_t *key, unsigned key_words) {
    return sl_key_same(sl_instance_key(instance), key, key_words);
}

/* Bit i: word i of half a bucket equals this number. */
static inline unsigned sl_bucket_words(const uint32_t *words, uint32_t wanted) {
#if defined __AVX512VL__
    const __m256i *eight = (const __m256i *)(const void *)words;
    return _mm256_cmpeq_epi32_mask(_mm256_load_si256(eight), _mm256_set1_epi32((int)wanted));
#elif defined __SSE2__
    const __m128i each = _mm_set1_epi32((int)wanted);
    const __m128i *four = (const __m128i *)(const void *)words;
    __m128i low = _mm_cmpeq_epi32(_mm_load_si128(four), each), high = _mm_cmpeq_epi32(_mm_load_si128(four + 1), each);
    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128()));
#else
    unsigned found = 0;
    for (unsigned i = 0; i < SL_BUCKET_ENTRIES; i++)
        found |= (unsigned)(words[i] == wanted) << i;
    return found;
#endif
}

/* Bit i: entry i has this hash (it may be empty or a link). */
static inline unsigned sl_bucket_match(const struct sl_bucket *bucket, uint32_t hash) {
    return sl_bucket_words(bucket->hash, hash);
}

static inline struct sl_bucket *sl_bucket_next(const struct sl_table *table, const struct sl_bucket *bucket) {
    return bucket->place[7] == SL_BUCKET_LINK ? &table->spill[bucket->hash[7]] : NULL;
}

/* The live instance with this key, or NULL. hash is sl_table_hash of the key; key_words a literal. */
static inline struct sl_instance *sl_table_find(const struct sl_table *table, const uint64_t *key, unsigned key_words,
                                                uint32_t hash) {
    const struct sl_bucket *bucket = sl_table_home(table, hash);
    do {
        for (unsigned found = sl_bucket_match(bucket, hash); found; found &= found - 1) {
            uint32_t slot = bucket->place[__builtin_ctz(found)] - 1;
            if (slot >= table->max_instances)
                continue;   /* an empty entry or the link, with another word that happens to equal the hash */
            struct sl_instance *instance = sl_table_slot(table, slot);
            if (SL_LIKELY(sl_instance_has(instance, key, key_words)))
                return instance;
        }
    } while (__builtin_expect((bucket = sl_bucket_next(table, bucket)) != NULL, 0));
    return NULL;
}

/* Returns an instance that was found or predicted before if it is live and has this key; otherwise NULL, also for NULL.
 * The key need not be hashed: whatever happened to the slot meanwhile, a live instance with this key is the right one.
 * `spare`, a literal: the first word of a key has unused bits, so that no key equals that of a free slot. */
static inline struct sl_instance *sl_table_confirm(struct sl_instance *instance, const uint64_t *key, unsigned key_words,
                                                   bool spare) {
    if (!instance || (!spare && instance->slot == SL_SLOT_FREE))
        return NULL;
    return sl_instance_has(instance, key, key_words) ? instance : NULL;
}

/* sl_table_find for a packet of a group, if the prediction was right. NULL does not mean that there is no instance. */
static inline struct sl_instance *sl_table_find_predicted(const struct sl_table *table, unsigned packet, const uint64_t *key,
                                                         unsigned key_words, bool spare) {
    return sl_table_confirm(table->predicted[packet], key, key_words, spare);
}

/* Prefetches for writing the lines of an instance of so many bytes, from byte `from` on, at most SL_INSTANCE_LINES.
 * `near`, a literal: into the first-level cache; otherwise only into the second. There need not be an instance. No line
 * beyond it is prefetched, because that would displace another line. */
SL_PREFETCH void sl_instance_prefetch(uintptr_t instance, size_t instance_bytes, size_t from, bool near) {
    size_t end = sl_min(instance_bytes, 64 * SL_INSTANCE_LINES);
    for (size_t at = from; at + 1 < end; at += 64)
        sl_prefetch_written(instance + at, near);
    sl_prefetch_written(instance + end - 1, near);
}

/* Predicts that a packet of a group belongs to the instance in a slot that comes from memory. `none`: that it belongs
 * to no instance, and would create this one. See sl_table_predict. */
SL_COLD void sl_table_predict_far(struct sl_table *table, unsigned packet, uint32_t slot, bool none) {
    if (slot >= table->max_instances)
        return;   /* the link, whose hash happens to match; or the table is full */
    struct sl_instance *instance = sl_table_slot(table, slot);
    table->predicted[packet] = none ? NULL : instance;
    sl_instance_prefetch((uintptr_t)instance, table->instance_bytes, 0, false);
}

/* Predicts the result of the look-up of a packet of a group from its hash, when the line of its home bucket has
 * arrived: prefetches the instance that the hash probably belongs to, or the slot of the instance that would be
 * created. `instance_bytes`: see sl_table_place. */
SL_PREFETCH void sl_table_predict(struct sl_table *table, unsigned packet, const struct sl_bucket *home, uint32_t hash,
                                  size_t instance_bytes) {
    unsigned found = sl_bucket_match(home, hash);
    uint32_t slot;
    if (SL_LIKELY(found))
        slot = home->place[__builtin_ctz(found)] - 1;
    else
        slot = table->free_slot ? table->free_slot - 1 : table->high_water;
    if (SL_UNLIKELY(slot >= table->near)) {
        sl_table_predict_far(table, packet, slot, !found);
        return;
    }
    struct sl_instance *instance = sl_table_place(table, slot, instance_bytes);
    table->predicted[packet] = found ? instance : NULL;
    sl_instance_prefetch((uintptr_t)instance, instance_bytes, 0, true);
}

/* The live instance in this slot, or NULL. Any number is allowed. */
static inline struct sl_instance *sl_table_at(const struct sl_table *table, uint32_t slot) {
    if (slot >= table->high_water)
        return NULL;
    struct sl_instance *instance = sl_table_slot(table, slot);
    return instance->slot == slot ? instance : NULL;
}

/* The slot that contains this address, whether its instance is live or not; NULL for an address outside the table. */
static inline struct sl_instance *sl_table_containing(const struct sl_table *table, const void *at) {
    uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)table->instances);
    uint64_t slot = offset / table->instance_bytes;
    return slot < table->high_water ? sl_table_slot(table, (uint32_t)slot) : NULL;
}

#endif
