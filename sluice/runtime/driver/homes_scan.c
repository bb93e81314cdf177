#include "driver/homes_scan.h"

#include <stdlib.h>

enum { KEYS_MOST = SL_HOMES_LINES * SL_HOMES_IN_LINE / 2, BUCKETS = 2 * KEYS_MOST, BURST = 256 };

/* A key. Keys that belong together are a tree, whose root is the one that was seen first (union-find). */
struct key {
    uint64_t hash;
    uint32_t nearer;    /* number of a key that is nearer to the root, or its own */
    uint16_t worker;    /* where its first packet goes by itself */
    uint8_t use;        /* SL_KEY_STORED or SL_KEY_ADDED */
};

struct sl_homes_scan {
    sl_worker_function worker;
    sl_path_function path;
    unsigned workers;
    uint64_t seed;
    uint32_t count;
    uint64_t not_scanned;   /* packets with a key that there was no room for */
    struct key *keys;       /* KEYS_MOST, in the order in which they were seen */
    uint32_t *buckets;      /* BUCKETS: the number of a key, plus 1; at the place that its hash gives, or further on */
};

struct sl_homes_scan *sl_homes_scan_open(sl_worker_function worker, sl_path_function path, unsigned workers, uint64_t seed)
{
    struct sl_homes_scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return NULL;
    *scan = (struct sl_homes_scan){.worker = worker, .path = path, .workers = workers, .seed = seed};
    scan->keys = malloc(KEYS_MOST * sizeof *scan->keys);   /* memory that is not written is not used */
    scan->buckets = calloc(BUCKETS, sizeof *scan->buckets);
    if (scan->keys && scan->buckets)
        return scan;
    sl_homes_scan_close(scan, NULL);
    return NULL;
}

/* The bucket of a key, or the empty one where it belongs. */
static uint32_t *bucket_of(struct sl_homes_scan *scan, uint64_t hash)
{
    uint64_t at = hash % BUCKETS;
    while (scan->buckets[at] && scan->keys[scan->buckets[at] - 1].hash != hash)
        at = (at + 1) % BUCKETS;
    return &scan->buckets[at];
}

static uint32_t root_of(struct sl_homes_scan *scan, uint32_t number)
{
    struct key *keys = scan->keys;
    while (keys[number].nearer != number)
        number = keys[number].nearer = keys[keys[number].nearer].nearer;
    return number;
}

/* Joins the keys of a packet. One without room is left to be learned from the packets on the way. */
static void join(struct sl_homes_scan *scan, const struct sl_path_keys *keys, unsigned worker)
{
    uint32_t root = UINT32_MAX;
    bool room = true;
    for (unsigned i = 0; i < keys->count; i++) {
        if (keys->use[i] == SL_KEY_PASSING)
            continue;
        uint32_t *bucket = bucket_of(scan, keys->hash[i]);
        if (!*bucket) {
            if (keys->use[i] == SL_KEY_FURTHER)
                continue;   /* no instance has it */
            if (scan->count == KEYS_MOST) {
                room = false;
                continue;
            }
            scan->keys[scan->count] = (struct key){keys->hash[i], scan->count, (uint16_t)worker, keys->use[i]};
            *bucket = ++scan->count;
        }
        uint32_t other = root_of(scan, *bucket - 1);
        if (root != UINT32_MAX && other != root) {
            uint32_t first = other < root ? other : root;
            scan->keys[other].nearer = scan->keys[root].nearer = first;
            other = first;
        }
        root = other;
    }
    scan->not_scanned += !room;
}

bool sl_homes_scan_step(struct sl_homes_scan *scan, struct sl_source *in, uint64_t most)
{
    struct sl_frame frames[BURST];
    for (uint64_t done = 0; done < most;) {
        int32_t got = sl_source_receive(in, frames, BURST);
        if (got <= 0)
            return false;
        for (int32_t i = 0; i < got; i++) {
            struct sl_path_keys keys;
            scan->path(&frames[i], scan->seed, &keys);
            join(scan, &keys, scan->worker(&frames[i], scan->workers, scan->seed));
        }
        done += (uint32_t)got;
        sl_source_release(in);
    }
    return true;
}

bool sl_homes_scan_close(struct sl_homes_scan *scan, struct sl_homes *homes)
{
    bool opened = !homes || homes->lines || sl_homes_open(homes);
    for (uint32_t i = 0; homes && opened && i < scan->count; i++)
        sl_homes_put(homes, scan->keys[i].hash, scan->keys[root_of(scan, i)].worker, (enum sl_key_use)scan->keys[i].use);
    if (homes)
        homes->not_scanned += scan->not_scanned;
    free(scan->keys);
    free(scan->buckets);
    free(scan);
    return opened;
}
