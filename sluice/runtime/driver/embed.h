/* What a program that embeds a stack needs of the runtime, besides the stack's own NAME.h, which includes this.
 *
 * For C11 and C++ without extensions, and nothing of the machinery: a box is opaque, and these functions of the library
 * read what it counted. */
#ifndef SL_EMBED_H
#define SL_EMBED_H

#include "core/packet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_box;

struct sl_options {
    uint64_t seed;               /* of hashes */
    uint64_t memory;             /* bytes for what sequences hold */
    uint32_t max_instances;      /* of each table */
    bool timeouts;               /* whether anything times out */
    double idle;                 /* seconds, in place of every layer's general timeout; 0: the layers' own */
    const char *const *function_options;   /* one string for each function, in order; may be NULL */
    void (*deliver)(void *user, const uint8_t *at, size_t used);   /* batches of events for functions in Python */
    void *user;
    const char *const *native_options;     /* one string for each native module, in order; may be NULL */
    bool prefault;   /* whether all memory that `memory` and `max_instances` allow is taken when the box is opened */
    /* takes each packet that leaves the box, of functions that drop, change or send packets; NULL: nobody does */
    void (*forward)(void *user, const struct sl_frame *frame);
    void *forward_user;
    uint64_t hold;   /* bytes that one side of a connection may hold out of order, within `memory`; 0: 16 MiB */
};

enum { SL_HOLD = 1 << 24 };

struct sl_counter_info {
    const char *layer;   /* name of the layer, or "box" */
    const char *name;
};

/* A figure of a function. */
struct sl_report {
    const char *name;
    uint64_t value;
};

enum { SL_REPORTS_MOST = 64 };   /* figures that a box keeps */

/* A box's counters, numbered as in NAME_counters; they may be read between any two bursts. */
const uint64_t *sl_box_counters(const struct sl_box *box);

/* What a function could not do, or an empty text. */
const char *sl_box_failure(const struct sl_box *box);

/* Hands secrets to the native modules of a box, for the packets that come from now on. kind: SL_SECRETS_TLS_KEY_LOG, or any
 * other, which modules that do not know it pass over. The bytes are not needed any more afterwards. */
void sl_box_secrets(struct sl_box *box, uint32_t kind, sl_bytes secrets);

/* So many packets come in the burst after the next one, and their frames lie right behind that one's: the box asks for their
 * headers while it processes what is before them. Nothing depends on it but time. For a program that has more packets at
 * hand than it processes at once; one burst of all of them does the same by itself. */
void sl_box_coming(struct sl_box *box, uint32_t packets);

/* Copies at most `most` reports of functions; how many there are. */
uint32_t sl_box_reports(const struct sl_box *box, struct sl_report *reports, uint32_t most);

#ifdef __cplusplus
}
#endif

#endif
