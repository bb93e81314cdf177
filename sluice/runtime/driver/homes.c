#define _GNU_SOURCE
#include "driver/homes.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* A stored key: the upper 48 bits of its hash, then what is known of it, and the number of the worker. The lower bits of
 * the hash are the number of the line. */
enum {
    STORED = 1 << 15,    /* an instance was found by it */
    ADDED = 1 << 14,     /* it is a further key of one */
    USED = 1 << 13,      /* the place is */
    WORKER = (1 << 13) - 1,
    TAG_SHIFT = 16,
};

bool sl_homes_open(struct sl_homes *homes)
{
    size_t size = SL_HOMES_LINES * sizeof *homes->lines;   /* memory that is not written is not used */
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    homes->lines = at == MAP_FAILED ? NULL : at;
    return homes->lines;
}

void sl_homes_close(struct sl_homes *homes)
{
    if (homes->lines)
        munmap(homes->lines, SL_HOMES_LINES * sizeof *homes->lines);
    homes->lines = NULL;
}

static uint64_t *line_of(const struct sl_homes *homes, uint64_t hash)
{
    return homes->lines[hash % SL_HOMES_LINES].keys;
}

/* What is known of a key, which becomes the one that was seen last; 0: nothing. */
static uint64_t find(const struct sl_homes *homes, uint64_t hash)
{
    uint64_t *keys = line_of(homes, hash);
    for (unsigned i = 0; i < SL_HOMES_IN_LINE && keys[i]; i++)
        if (keys[i] >> TAG_SHIFT == hash >> TAG_SHIFT) {
            uint64_t found = keys[i];
            memmove(keys + 1, keys, i * sizeof *keys);
            return keys[0] = found;
        }
    return 0;
}

/* Stores the worker of a key. flags: STORED, ADDED, or neither: of such keys there may be one for each packet, so that a
 * new one takes the last place of the line. */
static void store(struct sl_homes *homes, uint64_t hash, unsigned worker, uint64_t flags)
{
    uint64_t *keys = line_of(homes, hash);
    unsigned place = 0;
    if (!find(homes, hash)) {
        while (place < SL_HOMES_IN_LINE - 1 && keys[place])
            place++;
        homes->forgotten += (keys[place] & (STORED | ADDED)) != 0;
        if (flags) {
            memmove(keys + 1, keys, place * sizeof *keys);
            place = 0;
        }
    }
    keys[place] = hash >> TAG_SHIFT << TAG_SHIFT | flags | USED | worker;
}

void sl_homes_put(struct sl_homes *homes, uint64_t hash, unsigned worker, enum sl_key_use use)
{
    store(homes, hash, worker, use == SL_KEY_STORED ? STORED : use == SL_KEY_ADDED ? ADDED : 0);
}

/* How much the place of a key decides: a layer's own one before a further one, and last that of a packet which stores
 * nothing in its layer. Larger than that of ADDED: nothing. */
static const unsigned ranks[] = {[SL_KEY_STORED] = 0, [SL_KEY_FURTHER] = 1, [SL_KEY_PASSING] = 2, [SL_KEY_ADDED] = 3};

unsigned sl_homes_choose(struct sl_homes *homes, const struct sl_path_keys *keys, unsigned otherwise)
{
    uint64_t known[SL_PATH_KEYS_MOST];
    unsigned best = ranks[SL_KEY_ADDED], worker = otherwise;
    for (unsigned i = 0; i < keys->count; i++) {
        known[i] = find(homes, keys->hash[i]);
        if (known[i] && ranks[keys->use[i]] < best) {
            best = ranks[keys->use[i]];
            worker = known[i] & WORKER;
        }
    }
    bool divided = false;
    for (unsigned i = 0; i < keys->count; i++) {
        enum sl_key_use use = keys->use[i];
        uint64_t flags = known[i] & (STORED | ADDED);
        bool elsewhere = known[i] && (known[i] & WORKER) != worker;
        divided = divided || (elsewhere && ((use == SL_KEY_STORED && flags) || use == SL_KEY_FURTHER));
        if (use == SL_KEY_STORED || use == SL_KEY_ADDED)
            flags |= use == SL_KEY_STORED ? STORED : ADDED;
        else if (use == SL_KEY_FURTHER || flags)
            continue;   /* it is one once it was added; and a packet without an instance says less than one with it */
        if (!known[i] || elsewhere || flags != (known[i] & (STORED | ADDED)))
            store(homes, keys->hash[i], worker, flags);
    }
    homes->divided += divided;
    homes->left_out += keys->left_out;
    return worker;
}
