/* The runtime's interface for programs that embed a stack. The stack's own NAME.h includes this header.
 *
 * For C11 and C++ without extensions. A box is opaque: these functions of the library read its counters. */
#ifndef SL_EMBED_H
#define SL_EMBED_H

#include "core/packet.h"
#include "core/path_keys.h"
#include "driver/built_in_events.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_box;
struct sl_store;
struct sl_group;   /* boxes of several workers, see group.h */

struct sl_options {
    uint64_t seed;               /* the seed of the hashes */
    uint64_t memory;             /* bytes that all sequences together may hold */
    uint32_t max_instances;      /* the limit of each table */
    bool timeouts;               /* whether timeouts are enabled */
    double idle;                 /* seconds that replace every layer's general timeout; 0: the layers' own */
    double lifetime;             /* seconds that replace every lifetime, even without `timeouts`; 0: the layers' own */
    const char *const *function_options;   /* one string for each function, in order; may be NULL */
    void (*deliver)(void *user, const uint8_t *at, size_t used);   /* batches of events for functions in Python */
    void *user;
    const char *const *native_options;     /* one string for each native module, in order; may be NULL */
    bool prefault;   /* whether opening the box populates all memory that `memory` and `max_instances` allow */
    bool forwards;   /* the box is inline: the caller applies verdicts and transmits what functions send */
    /* sizeof(struct sl_options) and SL_OPTIONS_VERSION, as the caller knows them: a box that knows others does not open.
     * 0: the caller does not state them, and is compiled with the headers of the library. */
    uint16_t size, version;
    /* For each function, in order: its parameters as a NULL-terminated list of NAME, VALUE pairs, or NULL to use its
     * text in function_options. May be NULL. */
    const char *const *const *function_values;
    struct sl_store *store;          /* which holds shared objects of functions (function/store.h); NULL: they are local */
    const char *state_file;          /* where local shared objects are written to at the end; NULL: nowhere */
    uint64_t hold;   /* bytes that one side of a connection may hold out of order, within `memory`; 0: SL_HOLD */
    struct sl_group *group;   /* the box is one of several that run in threads; NULL: it is alone */
    uint32_t worker;          /* its number among these, from 0 */
    /* Packets that functions of an inline box hold until they have decided (SL_HELD): */
    uint64_t held_bytes;         /* of their copies at most; 0: SL_HELD_BYTES */
    uint64_t held_nanoseconds;   /* each waits at most so long; 0: SL_HELD_NANOSECONDS */
    bool held_open;              /* at one of these bounds, packets pass; else they are dropped */
    /* Where NAME_open writes why it failed, in words, or an empty text; NULL: nowhere. */
    char *message;
    size_t message_size;         /* its room, with the 0 at the end; SL_OPEN_MESSAGE is enough for all */
    uint32_t work;   /* messages (chunks, frames) that are cut from one packet at most; 0: SL_WORK */
    /* Functions that decide on packets, as bits by their index modulo 64. Once one failed, it is not called any more: */
    uint64_t fault_open;         /* packets pass without it */
    uint64_t fault_closed;       /* packets are dropped */
    uint64_t overload_open;      /* it is not called while sl_box_overloaded says so */
    uint32_t depth;   /* layers that one packet passes at most; 0: as many as the stack says. Numbers below
                       * SL_DEPTH_LEAST count as that: the fast path does not test it. */
    uint32_t records; /* layers that it passes besides at most if they are records; 0: as many as the stack says */
    uint32_t bundle;  /* messages that each cost as much as a packet (chunks of SCTP, packets of QUIC) that are cut
                       * from one packet at most; 0: SL_BUNDLE. One that begins instances counts for SL_BUNDLE_MORE
                       * more for each, at most for half of this number. */
    uint32_t bundle_mean;   /* the same on average, where chunks of SCTP count half; 0: SL_BUNDLE_MEAN. One that begins
                             * instances counts for SL_BUNDLE_BEGINS halves more for each, one that is held for
                             * SL_BUNDLE_HOLDS halves more. */
    uint32_t derivations;   /* of keys for QUIC, for 64 packets on average at most; 0: SL_DERIVATIONS */
};

/* SL_WORK: more than a packet of an Ethernet has bytes. Clients of QUIC scatter frames of padding of one byte each, hundreds
 * in a packet, among those with the first bytes of a handshake. Only longer packets, such as datagrams in fragments, reach
 * this number. SL_BUNDLE: more chunks of data in order than a packet of SCTP of an Ethernet has; what a function does not
 * see of a connection, an attacker hides there. SL_BUNDLE_MEAN: with it, packets that have nothing else cost up to ten times
 * as much as others of their length. SL_BUNDLE_SAVED: so many packets' messages are saved for others. SL_BUNDLE_SEARCHED: so
 * many bytes at which no message begins cost as much as half a message; SL_PARTS_HALF: so many parts of lists, of which a
 * record counts for SL_RECORD_PARTS. SL_DERIVATIONS:
 * connections of QUIC have 15 packets or more, and their handshakes, of four to six Initial packets, cost one derivation and
 * a sixth, while a derivation costs as much as some hundred packets. */
enum { SL_OPTIONS_VERSION = 1 };   /* it rises when a member means something else */
enum { SL_OPEN_MESSAGE = 256, SL_WORK = 2048, SL_BUNDLE = 128, SL_BUNDLE_MORE = 2, SL_DEPTH_LEAST = 16,
       SL_BUNDLE_MEAN = 10, SL_BUNDLE_HALVES = 2, SL_BUNDLE_BEGINS = 16, SL_BUNDLE_HOLDS = 7, SL_BUNDLE_SAVED = 8192,
       SL_BUNDLE_BYTES = 1500, SL_BUNDLE_CHEAP = 8, SL_BUNDLE_SEARCHED = 8, SL_RECORD_PARTS = 8,
       SL_PARTS_HALF = 16, SL_DERIVATIONS = 5 };

/* Where and when an event happened, for the functions of a program that embeds a stack. */
struct sl_event_info {
    struct sl_box *box;
    void *user;           /* of sl_options */
    uint64_t time;        /* packet time, in nanoseconds since 1970 */
    uint64_t packet;      /* number of the packet that is processed; 0: none, as where an instance times out */
    uint64_t flow;        /* number of the instance, unique in the box; 0: the event is of none */
    uint32_t side;        /* that sent the packet or the bytes: 0 the active one, 1 the passive one */
    const char *layer;    /* its name; a layer above several kinds of layers has a name for each, as in the counters */
};

/* --- verdicts --- */

enum sl_action {
    SL_PASS,   /* the packet is transmitted, unchanged or changed */
    SL_DROP,   /* the packet is not transmitted */
    SL_HELD,   /* not now: the box has a copy, which is among its sent packets when functions release it */
};

enum {
    SL_VERDICT_CHANGED = 1,      /* `at` and `length` replace the packet's bytes */
    SL_VERDICT_REDIRECTED = 2,   /* the packet is transmitted at `port`, not at the peer of the receiving port */
    SL_VERDICT_NOT_EDITED = 4,   /* a function edits the connection, but not this packet: a tunnel or checksum forbids it */
};

/* The functions' decision for one packet of a burst. If several functions decide: a drop overrides everything else;
 * changes are applied one after the other, in the order of the functions; the last redirection wins. A packet for which
 * no function decides passes. All zeros is a pass. */
struct sl_verdict {
    const uint8_t *at;   /* the changed bytes; valid until the next call with the box */
    uint32_t length;
    uint16_t port;
    uint8_t action;      /* enum sl_action */
    uint8_t flags;       /* SL_VERDICT_... */
};

/* A packet that a function sent. */
struct sl_sent {
    /* Its bytes are valid until the next call with the box. Its port is the receiving port of the packet for which the
     * function was called. */
    struct sl_frame frame;
    uint32_t after;          /* the number of packets of the burst that precede it in the output */
    bool back;               /* true: transmit at frame.port; false: at its peer */
    bool held;               /* a received packet that was held; its frame has its own time, number and flags */
};

enum { SL_HOLD = 1 << 24, SL_HELD_BYTES = 1 << 24, SL_HELD_NANOSECONDS = 200 * 1000 * 1000 };

struct sl_counter_info {
    const char *layer;   /* name of the layer, or "box" */
    const char *name;
};

/* A figure that a function reports. */
struct sl_report {
    const char *name;
    uint64_t value;
    const char *function;   /* of a chain; else NULL */
};

/* A link type for which the stack has no root layer, and the number of its packets, which were refused. */
struct sl_refused {
    uint32_t link_type;
    uint64_t packets;
};

enum { SL_REFUSED_MOST = 8 };    /* maximum number of refused link types that are distinguished */
enum { SL_REPORTS_MOST = 256 };   /* maximum number of figures that a box stores */

/* A box's counters, in the order of NAME_counters; they may be read between any two bursts. */
const uint64_t *sl_box_counters(const struct sl_box *box);

/* What a function in C counts by SLUICE_COUNTER, in the order of its declarations; NULL if it declares none. `function`:
 * its index among those of the box. May be read by another thread. */
const uint64_t *sl_box_function_counters(const struct sl_box *box, uint32_t function);

/* The error of a function, or an empty text. */
const char *sl_box_failure(const struct sl_box *box);

/* The error of the first function that failed and has a policy of its own, or an empty text. */
const char *sl_box_function_failure(const struct sl_box *box);

/* Whether packets come faster than they are processed: from now on, functions in sl_options.overload_open are left out, or
 * are called again. */
void sl_box_overloaded(struct sl_box *box, bool is_so);

/* For `deliver` of an inline box: drops the current packet, if it has this number; or resets its TCP connection, as
 * SLUICE_RESET does. False if that is not possible. */
bool sl_box_drop(struct sl_box *box, uint64_t number);
bool sl_box_reset(struct sl_box *box, uint64_t number);

/* Passes secrets to the native modules of a box, and to its functions that subscribe, for the packets after this call. kind: SL_SECRETS_TLS_KEY_LOG, or any
 * other; modules ignore kinds that they do not know. The bytes are not needed after the call. */
void sl_box_secrets(struct sl_box *box, uint32_t kind, sl_bytes secrets);

/* Sets *sent to the packets that functions have sent since the previous call, in order, and returns their number. *sent
 * is valid until the next call with the box. Call it after each NAME_process, NAME_tick and NAME_finish of an inline
 * box. */
uint32_t sl_box_sent(struct sl_box *box, const struct sl_sent **sent);

/* States the number of packets in the burst after the next one. Their frames must follow those of the next one in
 * memory. The box prefetches their headers while it processes the preceding packets. This affects only the speed. It is
 * meant for a program that has more packets than it passes at once; passing all of them in one burst has the same
 * effect. */
void sl_box_coming(struct sl_box *box, uint32_t packets);

/* Copies at most `most` reports of functions. Returns the number of reports. */
uint32_t sl_box_reports(const struct sl_box *box, struct sl_report *reports, uint32_t most);

/* Copies at most `most` of the refused link types, in the order of their first packets. Returns the number of types. */
uint32_t sl_box_refused(const struct sl_box *box, struct sl_refused *refused, uint32_t most);

#ifdef __cplusplus
}
#endif

#endif
