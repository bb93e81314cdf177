/* What a program that embeds a stack needs of the runtime, besides the stack's own NAME.h, which includes this.
 *
 * For C11 and C++ without extensions. A box is opaque: these functions of the library read what it counted. */
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
struct sl_group;   /* boxes of several workers, see group.h */

struct sl_options {
    uint64_t seed;               /* of hashes */
    uint64_t memory;             /* bytes for what sequences hold */
    uint32_t max_instances;      /* of each table */
    bool timeouts;               /* whether anything times out */
    double idle;                 /* seconds, in place of every layer's general timeout; 0: the layers' own */
    double lifetime;             /* seconds, in place of every lifetime; 0: the layers' own. Holds without `timeouts`, too */
    const char *const *function_options;   /* one string for each function, in order; may be NULL */
    void (*deliver)(void *user, const uint8_t *at, size_t used);   /* batches of events for functions in Python */
    void *user;
    const char *const *native_options;     /* one string for each native module, in order; may be NULL */
    bool prefault;   /* whether all memory that `memory` and `max_instances` allow is taken when the box is opened */
    bool forwards;   /* the box is inline: the caller applies verdicts and transmits what functions send */
    /* For each function, in order, its parameters as pairs NAME, VALUE that end with NULL, or NULL: then those of
     * function_options count. May be NULL. */
    const char *const *const *function_values;
    struct sl_group *group;   /* the box is one of several that run in threads; NULL: it is alone */
    uint32_t worker;          /* its number among these, from 0 */
};

/* --- what happens to packets --- */

enum sl_action {
    SL_PASS,   /* the packet leaves, as it came or changed */
    SL_DROP,   /* it does not */
};

enum {
    SL_VERDICT_CHANGED = 1,      /* other bytes leave in its place: `at` and `length` */
    SL_VERDICT_REDIRECTED = 2,   /* it leaves at `port`, and not at the peer of the port where it came in */
};

/* What functions have decided for one packet of a burst. Of several functions: a drop overrides all else; changes apply one
 * after the other, in the order of the functions; of redirections the last one holds; a packet for which no function decides
 * anything passes. All zeros is a pass. */
struct sl_verdict {
    const uint8_t *at;   /* of changed bytes; valid until the next call with the box */
    uint32_t length;
    uint16_t port;
    uint8_t action;      /* enum sl_action */
    uint8_t flags;       /* SL_VERDICT_... */
};

/* A packet that a function sent. */
struct sl_sent {
    struct sl_frame frame;   /* its bytes are valid until the next call with the box; its port: where the packet came in that
                              * the function was called for */
    uint32_t after;          /* so many packets of the burst leave before it */
    bool back;               /* it leaves at frame.port; else at the peer of that */
};

struct sl_counter_info {
    const char *layer;   /* name of the layer, or "box" */
    const char *name;
};

/* A figure of a function. */
struct sl_report {
    const char *name;
    uint64_t value;
    const char *function;   /* of a chain; else NULL */
};

/* A link type with which the stack does not begin, and how many packets of it were refused. */
struct sl_refused {
    uint32_t link_type;
    uint64_t packets;
};

enum { SL_REFUSED_MOST = 8 };    /* link types that are told apart */
enum { SL_REPORTS_MOST = 64 };   /* figures that a box keeps */

/* A box's counters, numbered as in NAME_counters; they may be read between any two bursts. */
const uint64_t *sl_box_counters(const struct sl_box *box);

/* What a function could not do, or an empty text. */
const char *sl_box_failure(const struct sl_box *box);

/* Hands secrets to the native modules of a box, for the packets that come from now on. kind: SL_SECRETS_TLS_KEY_LOG, or any
 * other, which modules ignore that do not know it. The bytes are not needed after the call. */
void sl_box_secrets(struct sl_box *box, uint32_t kind, sl_bytes secrets);

/* Packets that functions have sent, in their order, since this was called last: how many. *sent is valid until the next call
 * with the box. Call it after each NAME_process, NAME_tick and NAME_finish of an inline box. */
uint32_t sl_box_sent(struct sl_box *box, const struct sl_sent **sent);

/* So many packets come in the burst after the next one, and their frames follow that one's in memory: the box prefetches their
 * headers while it processes what is before them. Only the time depends on it. For a program that has more packets than it
 * processes at once; one burst of all of them has the same effect. */
void sl_box_coming(struct sl_box *box, uint32_t packets);

/* Copies at most `most` reports of functions; how many there are. */
uint32_t sl_box_reports(const struct sl_box *box, struct sl_report *reports, uint32_t most);

/* Copies at most `most` of the refused link types, in order of their first packets; how many there are. */
uint32_t sl_box_refused(const struct sl_box *box, struct sl_refused *refused, uint32_t most);

#ifdef __cplusplus
}
#endif

#endif
