/* A running box: the part that is the same for every stack. It has time, memory, counters, and what functions on events
 * see.
 *
 * Generated code puts its tables after `struct sl_box`. One worker owns a box; nothing in it is shared. */
#ifndef SL_BOX_H
#define SL_BOX_H

#include "core/prefetch.h"
#include "core/alias.h"
#include "core/box_parts.h"
#include "core/crc.h"
#include "core/layer_info.h"
#include "driver/embed.h"
#include "stream/messages.h"
#include "core/pool.h"
#include "stream/sequence.h"
#include "core/table.h"

#include <stdio.h>
#include <stdlib.h>

#define SL_UNUSED __attribute__((unused))

enum {
    SL_DEPTH_MOST = 256,     /* layers that one packet may be in */
    SL_WORKER_NUMBERS = 40,  /* bits: so far apart are the numbers of instances of two workers. With 64 workers, numbers
                              * stay below 2^53, which JSON can hold */
    SL_SLOT_FRESH = 0xfffffffe,   /* sl_instance.slot of an instance that is never stored */
};

/* Words of a bit for each handler on demand. The program defines it where it has more than 64 of them. */
#ifndef SL_WATCH_WORDS
#define SL_WATCH_WORDS 1
#endif

/* Functions on events reach a box by accessors only (function/current.h, sluice.h): what it maintains follows from those
 * that they call (declarations.h). The text of a function is compiled with warnings of this attribute, which Sluice turns
 * into an error; the runtime and generated code use the members. */
#define SL_OPAQUE __attribute__((deprecated("struct sl_box is opaque")))
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* The text of a header of the runtime that functions include is between these. */
#define SL_RUNTIME_BEGIN \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"")
#define SL_RUNTIME_END _Pragma("GCC diagnostic pop")

struct sl_box {
    SL_OPAQUE uint64_t now;                /* the largest packet time seen so far, in nanoseconds */
    /* These are only maintained if a function, or code made for one, may read them (Functions.needs_packet): */
    SL_OPAQUE uint64_t time;               /* of the packet being processed, nanoseconds */
    SL_OPAQUE uint64_t number;             /* of the packet being processed, from 1 */
    SL_OPAQUE const struct sl_frame *frame;   /* the packet being processed; NULL if there is none, as at the end */
    SL_OPAQUE uint64_t registered;         /* a bit for each handler on demand that is registered for all instances */
    SL_OPAQUE uint32_t max_instances;      /* of each table */
    SL_OPAQUE uint32_t work, bundled;      /* messages cut from the current packet; those of them that are bundled */
    SL_OPAQUE uint32_t work_most, bundle_most;   /* the same at most */
    SL_OPAQUE uint64_t bundle_mean, bundle_credit;   /* messages that each packet earns; those that the next ones may have: halves */
    SL_OPAQUE uint32_t parts;              /* of records, and of lists in them, that have not been taken from it */
    SL_OPAQUE bool gives_back;             /* functions end instances by their deadline (sl_give_back) */
    SL_OPAQUE uint64_t created;            /* the number of the last instance that was stored; each gets the next one */
    SL_OPAQUE uint64_t seed;               /* of hashes, so that a sender cannot choose keys that collide */
    SL_OPAQUE struct sl_pool pool;
    SL_OPAQUE struct sl_scratch scratch;
    SL_OPAQUE struct sl_lookahead lookahead;
    SL_OPAQUE uint64_t *counters;          /* both are in the stack's own box, where generated code accesses them directly */
    SL_OPAQUE uint64_t *timeouts;          /* nanoseconds, SL_NEVER for none */
    SL_OPAQUE const struct sl_layer_info *layers;
    SL_OPAQUE uint32_t layer_count;
    SL_OPAQUE uint32_t depth;              /* number of layers that the packet is in; the current one is included only
                                            * if a function may read it */
    SL_OPAQUE uint32_t depth_plain;        /* while in fewer it may enter another one, whatever the layers are: 8 */
    SL_OPAQUE uint32_t counted, counted_at;   /* of costly layers: nests_further in generated code */
    SL_OPAQUE uint32_t depth_most;         /* number of layers at most, */
    SL_OPAQUE uint32_t deepest;            /* and at most with records */
    SL_OPAQUE uint8_t path[SL_DEPTH_MOST]; /* their indices */
    SL_OPAQUE struct sl_batch batch;
    SL_OPAQUE const char *reporter;   /* the function of a chain that reports; NULL: figures have no function's name */
    SL_OPAQUE uint32_t report_count, function_count;
    SL_OPAQUE char failure[256];           /* what a function could not do; empty when all is well */
    SL_OPAQUE struct sl_refused refused[SL_REFUSED_MOST];   /* link types with which the stack does not begin */
    SL_OPAQUE uint32_t refused_count;
    SL_OPAQUE void **workers;              /* what each function keeps for the worker */
    SL_OPAQUE void **parameters;           /* what each function's parameters are set to */
    SL_OPAQUE char **texts;                /* the texts of these */
    SL_OPAQUE void **function_counters;    /* what each function counts */
    SL_OPAQUE struct sl_shared_state *shared;   /* shared objects of functions (shared.h); NULL if none are declared */
    SL_OPAQUE struct sl_timers timers;
    SL_OPAQUE struct sl_output output;
    SL_OPAQUE struct sl_finish finish;
    SL_OPAQUE struct sl_group *group;      /* the workers that it is one of (driver/group.h); NULL: it is alone */
    SL_OPAQUE uint32_t worker;             /* its number among them */
    SL_OPAQUE uint64_t row_order;          /* of rows that are written now, see sl_row_order; 0: that of the current packet */
    SL_OPAQUE void **common;               /* by function, what all workers have in common */
    SL_OPAQUE uint64_t lost_before;        /* in the process of a function of a chain that crashed: instances up to this
                                            * number were known to it before; else 0 */
    SL_OPAQUE struct sl_natives *natives;  /* its native modules (natives.h); NULL where the stack has none */
    SL_OPAQUE struct sl_secrets_taker *secrets_takers;   /* functions that subscribe to secrets */
    SL_OPAQUE void **beside;               /* by function, state that is next to instances (reload.h); NULL: all is in them */
    SL_OPAQUE uint32_t calling;            /* from 1, the function whose handler runs if crashes are traced (SL_CALL); else 0 */
    SL_OPAQUE const struct sl_event *called;   /* what it handles */
    SL_OPAQUE uint64_t *registered_further;   /* the words of `registered` after the first; NULL without them */
    SL_OPAQUE sl_bytes *units;              /* what each layer in `path` was given; NULL unless a function names sl_layer_unit */
    SL_OPAQUE struct sl_random random;     /* numbers that functions had for the current packet */
    SL_OPAQUE struct sl_arrival *arrival;  /* translation of arriving packets (arrival.h); NULL: there is none */
    SL_OPAQUE struct sl_report reports[SL_REPORTS_MOST];
};

/* The state of a function for the instance in a slot, if it is next to instances: of `size` bytes. The memory begins with
 * the offset of the first one for each layer; layers that share a table have the same. */
static inline void *sl_beside(const struct sl_box *box, uint32_t function, uint32_t layer, uint32_t slot, size_t size) {
    char *at = box->beside[function];
    return at + ((const uint64_t *)(const void *)at)[layer] + slot * size;
}

/* A hash that identifies the layers that the packet is in: FNV-1a of their indices. */
static inline uint32_t sl_path_of(const uint8_t *path, uint32_t depth) {
    uint32_t number = 2166136261u;
    for (uint32_t i = 0; i < depth; i++)
        number = (number ^ path[i]) * 16777619u;
    return number;
}

/* The path of the current packet. */
static inline uint32_t sl_path(const struct sl_box *box) { return sl_path_of(box->path, box->depth); }

/* The unit that the layer at place `at` of box->path got from the packet, from its header on. Empty if no packet is
 * being processed, or if the packet is in fewer layers. The bytes stay valid until the handler returns. */
static inline sl_bytes sl_layer_unit(const struct sl_box *box, uint32_t at) {
    return box->units && box->frame && at < box->depth ? box->units[at] : (sl_bytes){0};
}

/* --- events --- */

struct sl_event {
    struct sl_box *box;
    const struct sl_layer_info *layer;
    struct sl_instance *instance;   /* NULL if there is none, or if it is never stored */
    uint32_t side;                  /* 0: sent by the active side, 1: by the passive one */
    const struct sl_layer_info *owner;   /* the layer of the instance: `layer`, or the layer of the stream that messages
                                          * are cut from */
    sl_bytes unit;                  /* what the layer got, from its header on; empty if no packet is processed */
};

/* Calls a handler of a function, by its number from 1, and notes it for the report of a crash (driver/isolation.h). */
#define SL_CALL(event, function, call) \
    ((event).box->called = &(event), (event).box->calling = (function), (call), (event).box->calling = 0)

/* On-demand handlers whose registration for an instance differs from that for all instances: registered only for this
 * one (`more`), or for all but this one (`less`). An instance has SL_WATCH_WORDS of these, for 64 handlers each. */
struct sl_watch { uint64_t more, less; };

static inline struct sl_watch *sl_event_watch(const struct sl_event *event) {
    return (struct sl_watch *)(void *)((char *)event->instance + event->owner->watch_offset);
}

/* The on-demand handlers that are registered for an instance; `all` are those registered for all instances. */
static inline uint64_t sl_watching(uint64_t all, const struct sl_watch *own) { return (all & ~own->less) | own->more; }

/* The word `word` of the on-demand handlers that are registered for all instances: those from number 64 * word on. */
static inline uint64_t *sl_registered(struct sl_box *box, uint32_t word) {
    return word ? &box->registered_further[word - 1] : &box->registered;
}

/* Registers or deregisters a handler, by its number, for all instances. */
static inline void sl_register(struct sl_box *box, uint32_t handler, bool registered) {
    uint64_t *all = sl_registered(box, handler / 64), bit = (uint64_t)1 << handler % 64;
    *all = registered ? *all | bit : *all & ~bit;
}

/* The on-demand handlers that receive an event: those from number 64 * word on. */
static inline uint64_t sl_watched_word(const struct sl_event *event, uint32_t word) {
    uint64_t all = *sl_registered(event->box, word);
    return event->instance && event->owner->watch_offset ? sl_watching(all, sl_event_watch(event) + word) : all;
}

/* The first 64 of them. */
static inline uint64_t sl_watched(const struct sl_event *event) { return sl_watched_word(event, 0); }

/* Registers or deregisters a handler for the instance of an event. Has no effect if the event has no instance. */
static inline void sl_watch(const struct sl_event *event, uint32_t handler, bool registered) {
    if (!event->instance || !event->owner->watch_offset)
        return;
    struct sl_watch *own = sl_event_watch(event) + handler / 64;
    uint64_t bit = (uint64_t)1 << handler % 64;
    own->more = registered ? own->more | bit : own->more & ~bit;
    own->less = registered ? own->less & ~bit : own->less | bit;
}

/* The stream that a message is cut from; see struct sl_event. */
struct sl_stream {
    const struct sl_layer_info *owner;
    struct sl_instance *instance;
    uint32_t side;
};

/* The instance's number, from 1 in order of creation; 0 if there is no instance. */
static inline uint64_t sl_event_number(const struct sl_event *event) {
    if (!event->instance)
        return 0;
    uint64_t number;
    memcpy(&number, (const char *)event->instance + event->owner->number_offset, sizeof number);
    return number;
}

/* The same facts for a program that embeds the stack. */
SL_COLD struct sl_event_info sl_event_info(const struct sl_event *event) {
    struct sl_box *box = event->box;
    return (struct sl_event_info){box, box->batch.user, box->now, box->frame ? box->number : 0, sl_event_number(event),
                                  event->side, event->layer->name};
}

/* Has the function lost what it knew of the instance? It runs isolated, in its own process, and crashed after the
 * instance began (docs/chain.md). */
static inline bool sl_flow_lost(const struct sl_event *event) {
    return event->box->lost_before && event->instance && sl_event_number(event) <= event->box->lost_before;
}

/* The words of one side's half of the instance's key: side 0 is the active one. */
static inline const uint64_t *sl_event_half(const struct sl_event *event, unsigned side) {
    const uint64_t *key = sl_instance_key(event->instance);
    if (!event->owner->oriented)
        return key;
    uint8_t swapped = *((const uint8_t *)event->instance + event->owner->swapped_offset);
    return key + ((side ^ swapped) & 1) * event->owner->half_words;
}

/* The value of a field of the instance; 0 when `field` is NULL. */
static inline uint64_t sl_field_value(const struct sl_instance *instance, const struct sl_field_info *field) {
    if (!field)
        return 0;
    const char *at = (const char *)instance + field->offset;
    switch (field->bytes) {
    case 0: return *(const uint8_t *)at >> field->bit & sl_mask(field->bits);
    case 1: return *(const uint8_t *)at;
    case 2: { uint16_t x; memcpy(&x, at, sizeof x); return x; }
    case 4: { uint32_t x; memcpy(&x, at, sizeof x); return x; }
    default: { uint64_t x; memcpy(&x, at, sizeof x); return x; }
    }
}

/* The field called `name`, or NULL. */
static inline const struct sl_field_info *sl_layer_field(const struct sl_layer_info *layer, const char *name) {
    for (uint32_t i = 0; i < layer->fields; i++)
        if (strcmp(layer->field[i].name, name) == 0)
            return &layer->field[i];
    return NULL;
}

/* Records that a function could not do its work. The run continues, but fails at the end with the first such text. */
static inline void sl_fail(struct sl_box *box, const char *what, const char *why) {
    if (!box->failure[0])
        snprintf(box->failure, sizeof box->failure, "%s: %s", what, why);
}

/* The same for a function, by its bit: if it has a policy of its own, the box goes on without it. */
static inline void sl_fail_by(struct sl_box *box, uint64_t function, const char *what, const char *why) {
    struct sl_output *output = &box->output;
    if (!((output->fault_open | output->fault_closed) & function)) {
        sl_fail(box, what, why);
        return;
    }
    if (!output->failure[0])
        snprintf(output->failure, sizeof output->failure, "%s: %s", what, why);
    output->failed |= function;
    output->off |= function;
}

/* Reports a number of a function in the summary; the name must outlive the box. It is an error to report more names
 * than a box has room for. */
static inline void sl_report(struct sl_box *box, const char *name, uint64_t value) {
    for (uint32_t i = 0; i < box->report_count; i++)
        if (strcmp(box->reports[i].name, name) == 0 && box->reports[i].function == box->reporter) {
            box->reports[i].value += value;
            return;
        }
    if (box->report_count < SL_REPORTS_MOST)
        box->reports[box->report_count++] = (struct sl_report){name, value, box->reporter};
    else
        sl_fail(box, name, "there is no room for so many figures, a box keeps 256");
}

/* --- used by generated code --- */

/* The time `after` nanoseconds from now; SL_NEVER for SL_NEVER. */
static inline uint64_t sl_deadline(const struct sl_box *box, uint64_t after) {
    return after > SL_NEVER - box->now ? SL_NEVER : box->now + after;
}

/* A timeout of so many seconds, in nanoseconds. */
static inline uint64_t sl_timeout(const struct sl_options *options, double seconds) {
    return options->timeouts && seconds > 0 ? (uint64_t)(seconds * 1e9) : SL_NEVER;
}

/* A lifetime in nanoseconds: the user's, or else the layer's. */
static inline uint64_t sl_lifetime(const struct sl_options *options, double seconds) {
    return (uint64_t)((options->lifetime > 0 ? options->lifetime : seconds) * 1e9);
}

/* Is the instance's time over? */
static inline bool sl_expired(const struct sl_box *box, const struct sl_instance *instance) {
    return instance->deadline <= box->now && instance->deadline != SL_NEVER;
}

/* Ends an instance that a function no longer needs: its deadline is now. The box notes this, because a sweep that rests
 * would not find the instance (sweep.h); from now on sweeps do not rest. */
static inline void sl_give_back(struct sl_box *box, struct sl_instance *instance) {
    instance->deadline = box->now;
    box->gives_back = true;
}

/* The first `size` bytes of a part of a key, as in the packet. They are valid as long as the scratch. */
static inline sl_bytes sl_key_bytes(const uint64_t *word, uint32_t size, struct sl_scratch *scratch) {
    uint8_t *at = sl_scratch_take(scratch, size);
    if (!at)
        return (sl_bytes){0};
    for (uint32_t k = 0; k < size; k++) {
        uint32_t last = size - k / 8 * 8 < 8 ? size - k / 8 * 8 : 8;   /* bytes in this word, right-aligned */
        at[k] = (uint8_t)(word[k / 8] >> 8 * (last - 1 - k % 8));
    }
    return (sl_bytes){at, size, size};
}

/* A copy of what was captured of `data`, filled up with ones to `size` bytes; `data` itself where the scratch is full. */
SL_COLD sl_bytes sl_pad(sl_bytes data, uint32_t size, struct sl_scratch *scratch) {
    uint8_t *at = data.captured < size ? sl_scratch_take(scratch, size) : NULL;
    if (!at)
        return data;
    memset(at, 0xFF, size);
    if (data.captured)
        memcpy(at, data.at, data.captured);
    return (sl_bytes){at, size, data.length};
}

/* The Internet checksum (RFC 1071) over data that is all there, begun with `initial`, inverted: 0 is right. */
static inline uint64_t sl_checksum(sl_bytes data, uint64_t initial) {
    if (data.captured < data.length)
        return 0;
    return (uint16_t)~sl_internet_checksum(data.at, data.captured, initial);
}

/* The sum of the bytes of a pseudo header. */
static inline uint64_t sl_checksum_part(sl_bytes data) {
    return sl_internet_checksum(data.at, data.captured, 0);
}

/* Sorts the halves of a key, which have at least one word each, into `key`. Returns whether the first one is the
 * higher. Without a branch: no branch predictor can predict which side sends the next packet, and a misprediction
 * delays the packets that follow. */
static inline bool sl_key_pair(uint64_t *key, const uint64_t *one, const uint64_t *other, unsigned words) {
    bool higher = one[words - 1] > other[words - 1];
    if (words == 1) {   /* a pattern that compilers recognise */
        key[0] = sl_min(one[0], other[0]);
        key[1] = sl_max(one[0], other[0]);
        return higher;
    }
    for (unsigned i = words - 1; i-- > 0;)
        higher = one[i] != other[i] ? one[i] > other[i] : higher;
    uint64_t turned = -(uint64_t)higher;
    for (unsigned i = 0; i < words; i++) {
        uint64_t differs = (one[i] ^ other[i]) & turned;
        key[i] = one[i] ^ differs;
        key[words + i] = other[i] ^ differs;
    }
    return higher;
}

/* --- opening and closing --- */

SL_COLD void sl_refuse_link_type(struct sl_box *box, uint32_t link_type) {
    uint32_t i = 0;
    while (i < box->refused_count && box->refused[i].link_type != link_type)
        i++;
    if (i == SL_REFUSED_MOST)   /* a file may have any number of them: the last entry counts the rest */
        i--;
    if (i == box->refused_count)
        box->refused[box->refused_count++] = (struct sl_refused){link_type, 0};
    box->refused[i].packets++;
}

SL_COLD void sl_box_close(struct sl_box *box) {
    sl_pool_close(&box->pool);
    if (box->arrival) {
        free(box->arrival->frames);
        free(box->arrival->bytes);
        free(box->arrival);
    }
    if (box->scratch.at)
        munmap(box->scratch.at, box->scratch.size);
    free(box->batch.at);
    free(box->timers.entry);
    free(box->output.bytes);
    free(box->output.sent);
    free(box->output.sent_bytes);
    free(box->output.waiting ? *(void **)(void *)box->output.waiting : NULL);   /* its first member is its ring */
    free(box->output.waiting);
    void **const objects[] = {box->workers, box->parameters, box->function_counters, (void **)(void *)box->texts,
                              box->beside, box->group ? NULL : box->common};
    for (size_t k = 0; k < sizeof objects / sizeof *objects; k++) {
        for (uint32_t i = 0; objects[k] && i < box->function_count; i++)
            free(objects[k][i]);
        free(objects[k]);
    }
    if (box->group)
        free(box->common);
}

/* Writes why a box cannot be opened: what a function says, else `why`. */
SL_COLD void sl_open_failed(const struct sl_options *options, const struct sl_box *box, const char *why) {
    if (options->message && options->message_size)
        snprintf(options->message, options->message_size, "%s", box && *box->failure ? box->failure : why);
}

/* Whether the caller means the same struct sl_options as this library; if not, says so in its message, if it has one. */
SL_COLD bool sl_options_fit(const struct sl_options *options) {
    if ((!options->size || options->size == sizeof *options) &&
        (!options->version || options->version == SL_OPTIONS_VERSION))
        return true;
    if (!options->size || options->size >= offsetof(struct sl_options, message_size) + sizeof options->message_size)
        sl_open_failed(options, NULL, "the program is compiled with another struct sl_options than the stack");
    return false;
}

/* Sets the numbers of layers, and of records besides, that one packet may pass; `depth` and `records` are those of the
 * stack. */
SL_COLD void sl_bound_depth(struct sl_box *box, const struct sl_options *options, uint32_t depth, uint32_t records) {
    if (options->depth)
        depth = (uint32_t)sl_min(sl_max(options->depth, SL_DEPTH_LEAST), SL_DEPTH_MOST - 1);
    if (options->records && records)
        records = (uint32_t)sl_min(options->records, SL_DEPTH_MOST - 1);
    box->depth_plain = (uint32_t)sl_min(depth, 8);
    box->depth_most = depth;
    box->deepest = (uint32_t)sl_min(depth + records, SL_DEPTH_MOST - 1);
}

/* Allocates the memory of a box; its counters and timeouts belong to the stack. Returns 0, or -1 if there is not enough
 * memory (then the box is already closed). */
SL_COLD int sl_box_open(struct sl_box *box, const struct sl_options *options, uint32_t functions) {
    box->max_instances = options->max_instances;
    box->workers = calloc(functions + 1, sizeof *box->workers);
    box->common = calloc(functions + 1, sizeof *box->common);
    box->group = options->group;
    box->worker = options->worker;
    box->created = (uint64_t)options->worker << SL_WORKER_NUMBERS;
    box->function_count = functions;
    box->parameters = calloc(functions + 1, sizeof *box->parameters);
    box->texts = calloc(functions + 1, sizeof *box->texts);
    box->function_counters = calloc(functions + 1, sizeof *box->function_counters);
    box->batch.size = options->deliver ? 1 << 20 : 0;
    box->batch.at = options->deliver ? malloc(box->batch.size) : NULL;
    box->batch.deliver = options->deliver;
    box->batch.user = options->user;
    box->output.forwards = options->forwards;
    box->output.held_bytes = options->held_bytes ? options->held_bytes : SL_HELD_BYTES;
    box->output.held_nanoseconds = options->held_nanoseconds ? options->held_nanoseconds : SL_HELD_NANOSECONDS;
    box->output.held_open = options->held_open;
    box->output.fault_open = options->fault_open;
    box->output.fault_closed = options->fault_closed;
    box->output.overload_open = options->overload_open;
    box->scratch.size = (size_t)1 << 28;
    box->scratch.at = sl_map(box->scratch.size, box->scratch.size);
    if (!box->workers || !box->common || !box->parameters || !box->texts || !box->function_counters || !box->scratch.at ||
        (options->deliver && !box->batch.at) || sl_pool_open(&box->pool, options->memory) ||
        (options->prefault && sl_pool_prefault(&box->pool))) {
        sl_box_close(box);
        return -1;
    }
    box->pool.hold = options->hold ? options->hold : SL_HOLD;
    box->work_most = options->work ? options->work : SL_WORK;
    box->bundle_most = options->bundle ? options->bundle : SL_BUNDLE;
    box->bundle_mean = SL_BUNDLE_HALVES * (uint64_t)(options->bundle_mean ? options->bundle_mean : SL_BUNDLE_MEAN);
    box->bundle_credit = SL_BUNDLE_SAVED * box->bundle_mean;
    box->seed = options->seed;
    return 0;
}

/* So many packets earn messages and records, for themselves and for later ones. */
static inline void sl_earn(struct sl_box *box, uint64_t packets) {
    box->bundle_credit = sl_min(box->bundle_credit + box->bundle_mean * packets, SL_BUNDLE_SAVED * box->bundle_mean);
}

/* The current packet earns for all of its messages and records, once. */
static inline void sl_earn_packet(struct sl_box *box) {
    if (!box->work) {
        box->work = 1;
        sl_earn(box, 1);
    }
}

/* A record with so many parts of lists counts towards what packets may have on average. */
static inline void sl_spend_record(struct sl_box *box, uint64_t parts) {
    box->parts += SL_RECORD_PARTS + (uint32_t)parts;
    if (box->parts >= SL_PARTS_HALF) {
        box->bundle_credit -= sl_min((uint64_t)(box->parts / SL_PARTS_HALF), box->bundle_credit);
        box->parts %= SL_PARTS_HALF;
    }
}

#endif
