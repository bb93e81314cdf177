/* A running box, as far as it is the same for every stack: time, memory, counters, and what functions on events see.
 *
 * Generated code puts its tables behind `struct sl_box`. One worker owns a box; nothing in it is shared. */
#ifndef SL_BOX_H
#define SL_BOX_H

#include "core/prefetch.h"
#include "core/alias.h"
#include "core/crc.h"
#include "driver/embed.h"
#include "stream/messages.h"
#include "core/pool.h"
#include "stream/sequence.h"
#include "core/table.h"

#include <stdio.h>
#include <stdlib.h>

#define SL_UNUSED __attribute__((unused))

enum {
    SL_DEPTH_MOST = 256,     /* layers that one packet may pass */
    SL_SLOT_FRESH = 0xfffffffe,   /* sl_instance.slot of an instance that is never stored */
};

/* Why an instance ended, why bytes go no further up, and why they were given up: the numbers of END_REASONS,
 * DROP_REASONS and GAP_CAUSES in the language. */
enum sl_end_reason { SL_END_ACCEPT, SL_END_TIMEOUT, SL_END_REUSED, SL_END_EVICTED, SL_END_EOF, SL_END_LIMIT };
enum sl_drop_reason { SL_DROP_TOO_DEEP, SL_DROP_NESTED_IN_ITSELF, SL_DROP_NO_INSTANCE };
enum sl_gap_cause { SL_GAP_LIMIT, SL_GAP_TIMEOUT, SL_GAP_CLOSE, SL_GAP_SNAPLEN, SL_GAP_SKIPPED };

/* --- what is known of a layer when the stack is compiled --- */

struct sl_key_part {
    const char *name;
    uint32_t bits;   /* of a number; above 64: bits / 8 bytes */
    uint32_t word;   /* of its half of the key in which it begins */
    uint32_t shift;  /* how far above bit 0 of that word a number lies */
};

struct sl_field_info {
    const char *name;    /* as in the description, without `perm.` */
    uint32_t offset;     /* in the instance */
    uint8_t bytes;       /* 1, 2, 4 or 8; 0: some bits of a byte */
    uint8_t bit, bits;   /* the lowest of them, and how many */
};

/* The lowest bit of a bit field of so many bits, in front of which the byte has `before` bits of others. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SL_BIT(before, bits) (before)
#else
#define SL_BIT(before, bits) (8 - (before) - (bits))
#endif

struct sl_state_info {
    const char *name;
    bool accept, closed;
};

struct sl_layer_info {
    const char *name;        /* unique in the program */
    const char *layer;       /* as the stack calls it */
    const char *prototype;   /* as its parser is called */
    uint32_t index;
    const char *const *malformed;   /* by number, why a packet is none of the layer's; NULL where nobody is told */
    bool has_sequence;       /* its instances deliver streams */
    bool oriented;           /* the key has two halves, the lower one first */
    uint32_t half_words;     /* words of one half */
    uint32_t key_parts, fields, states;
    const struct sl_key_part *key_part;
    const struct sl_field_info *field;
    const struct sl_state_info *state;
    uint32_t number_offset;  /* of the uint64_t number of an instance */
    uint32_t swapped_offset; /* of the uint8_t that is 1 when the higher half is the active side's */
    uint32_t state_offset;   /* of the uint8_t state, when it has states */
    const uint32_t *function_state; /* where each function keeps its own state in the instance, 0: nowhere */
    uint32_t watch_offset;   /* of the struct sl_watch, 0: no handler may be registered for one instance */
    const uint32_t *timer;   /* where each timer lies in the instance, 0: nowhere */
    const struct sl_sequence_rules *rules;   /* of its streams of bytes; NULL: it has none */
    uint32_t sides, sequence_offset;         /* how many, and where the struct sl_sequence of the first is */
    uint32_t control_offset; /* of the struct sl_control, 0: no function decides anything for one instance */
};

/* --- a box --- */

struct sl_batch {
    uint8_t *at;
    size_t size, used;
    void (*deliver)(void *user, const uint8_t *at, size_t used);
    void *user;
};

/* --- timers of functions, see timers.h --- */

/* A timer of an instance, or of the box. Entries with another time than `entry` are of no more use. */
struct sl_timer {
    uint64_t at;      /* when it fires; SL_NEVER: it is not set */
    uint64_t entry;   /* the time of its entry in the heap; SL_NEVER: it has none */
};

/* An entry of the heap. */
struct sl_timer_entry {
    uint64_t time;
    uint64_t number;   /* of the instance; 0: a timer of the box */
    uint32_t slot;     /* in its table */
    uint16_t layer;    /* index of the layer whose instance it is */
    uint16_t timer;    /* which of the box's functions' timers */
};

struct sl_timers {
    struct sl_timer_entry *entry;   /* a heap: the earliest first */
    uint32_t count, room;
    struct sl_timer *own;           /* the box's own */
    struct sl_timer *(*find)(struct sl_box *box, const struct sl_timer_entry *entry);   /* NULL: it is gone */
};

/* --- what leaves the box, see output.h --- */

struct sl_output {
    void (*forward)(void *user, const struct sl_frame *frame);   /* NULL: nobody takes it */
    void *user;
    bool dropped, changed, reset;   /* the packet in hand is; its connection */
    uint8_t *bytes;              /* what it was changed to, and as much room again */
    uint32_t room;
    uint32_t link_type;          /* of the last packet */
    uint8_t *sent;               /* the bytes of packets that leave behind it */
    uint32_t sent_length[64], sent_count, sent_used;
    uint64_t drops, changes, sends;
};

struct sl_box {
    uint64_t now;                /* the largest packet time seen so far, in nanoseconds */
    /* These are only kept where a function, or what is made for one, may ask (Functions.needs_packet): */
    uint64_t time;               /* of the packet being processed, nanoseconds */
    uint64_t number;             /* of the packet being processed, from 1 */
    const struct sl_frame *frame;   /* the packet being processed; NULL when none is, as at the end of input */
    uint64_t registered;         /* a bit for each handler on demand that is registered for all instances */
    uint32_t max_instances;      /* of each table */
    bool gives_back;             /* functions end instances by their deadline (sl_give_back) */
    uint64_t created;            /* instances stored so far; each gets the next number */
    uint64_t seed;               /* of hashes, so that no sender chooses which keys fall together */
    struct sl_pool pool;
    struct sl_scratch scratch;
    struct sl_lookahead ahead;
    uint64_t *counters;          /* both lie in the stack's own box, where generated code finds them without this */
    uint64_t *timeouts;          /* nanoseconds, SL_NEVER for none */
    const struct sl_layer_info *layers;
    uint32_t layer_count;
    uint32_t depth;              /* layers that the packet is in now; the last one only where somebody may ask */
    uint8_t path[SL_DEPTH_MOST]; /* their indexes */
    struct sl_batch batch;
    struct sl_report reports[SL_REPORTS_MOST];
    uint32_t report_count, function_count;
    char failure[256];           /* what a function could not do; empty when all is well */
    void **workers;              /* what each function keeps for the worker */
    void **parameters;           /* what each function's parameters are set to */
    char **texts;                /* the texts of these */
    void **function_counters;    /* what each function counts */
    struct sl_timers timers;
    struct sl_output output;
    struct sl_natives *natives;  /* its native modules (natives.h); NULL where the stack has none */
};

/* Stands for the layers that the packet is in now: the FNV-1a hash of their indexes. */
static inline uint32_t sl_path_of(const uint8_t *path, uint32_t depth) {
    uint32_t way = 2166136261u;
    for (uint32_t i = 0; i < depth; i++)
        way = (way ^ path[i]) * 16777619u;
    return way;
}

/* The way of the packet in hand. */
static inline uint32_t sl_path(const struct sl_box *box) { return sl_path_of(box->path, box->depth); }

/* --- events --- */

struct sl_event {
    struct sl_box *box;
    const struct sl_layer_info *layer;
    struct sl_instance *instance;   /* NULL where there is none, or one that is never stored */
    uint32_t side;                  /* 0: sent by the active side, 1: by the passive one */
    const struct sl_layer_info *owner;   /* whose instance it is: `layer`, or that of the stream that messages are cut from */
    sl_bytes unit;                  /* what the layer was given, from its header on; empty when no packet is processed */
};

/* Of an instance: handlers on demand that are registered for it though not for all, and not for it though for all. */
struct sl_watch { uint64_t more, less; };

static inline struct sl_watch *sl_event_watch(const struct sl_event *event) {
    return (struct sl_watch *)(void *)((char *)event->instance + event->owner->watch_offset);
}

/* The handlers on demand of an instance, of which `all` are registered for all instances. */
static inline uint64_t sl_watching(uint64_t all, const struct sl_watch *own) { return (all & ~own->less) | own->more; }

/* The handlers on demand that hear of an event. */
static inline uint64_t sl_watched(const struct sl_event *event) {
    uint64_t all = event->box->registered;
    return event->instance && event->owner->watch_offset ? sl_watching(all, sl_event_watch(event)) : all;
}

/* Registers handlers for the instance of an event, or not any more; of an event without one it does nothing. */
static inline void sl_watch(const struct sl_event *event, uint64_t handlers, bool registered) {
    if (!event->instance || !event->owner->watch_offset)
        return;
    struct sl_watch *own = sl_event_watch(event);
    own->more = registered ? own->more | handlers : own->more & ~handlers;
    own->less = registered ? own->less & ~handlers : own->less | handlers;
}

/* Whose bytes a message is made of; see struct sl_event. */
struct sl_stream {
    const struct sl_layer_info *owner;
    struct sl_instance *instance;
    uint32_t side;
};

/* What built-in events bring along; see BUILT_IN in sluice/lang/events.py. */
struct sl_on_malformed { uint64_t length, reason; };   /* in words: event->layer->malformed[data->reason] */
struct sl_on_created { char nothing; };
struct sl_on_orphan { uint64_t length; };
struct sl_on_packet { uint64_t length; };
struct sl_on_state { uint64_t before, after; };   /* their names: event->owner->state[data->after].name */
struct sl_on_data { uint64_t offset; sl_bytes bytes; };
struct sl_on_rexmit { uint64_t offset, length; sl_bytes new_bytes, old; };
struct sl_on_out_of_wnd { char nothing; };
struct sl_on_gap { uint64_t offset, length, cause; };
struct sl_on_end { uint64_t reason; };
struct sl_on_lost { uint64_t offset, length, cause; };
struct sl_on_dropped { uint64_t length, reason; };
struct sl_on_unplaced { uint64_t length, cause; };

/* The instance's number, from 1 in order of creation; 0 where there is none. */
static inline uint64_t sl_event_number(const struct sl_event *event) {
    if (!event->instance)
        return 0;
    uint64_t number;
    memcpy(&number, (const char *)event->instance + event->owner->number_offset, sizeof number);
    return number;
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

/* A function could not do its work: the run goes on, and fails in the end with the first such text. */
static inline void sl_fail(struct sl_box *box, const char *what, const char *why) {
    if (!box->failure[0])
        snprintf(box->failure, sizeof box->failure, "%s: %s", what, why);
}

/* A figure of a function, for the summary; the name must outlive the box. One name more than a box keeps is a failure. */
static inline void sl_report(struct sl_box *box, const char *name, uint64_t value) {
    for (uint32_t i = 0; i < box->report_count; i++)
        if (strcmp(box->reports[i].name, name) == 0) {
            box->reports[i].value += value;
            return;
        }
    if (box->report_count < SL_REPORTS_MOST)
        box->reports[box->report_count++] = (struct sl_report){name, value};
    else
        sl_fail(box, name, "there is no room for so many figures, a box keeps 64");
}

/* --- used by generated code --- */

/* When it will be `after` nanoseconds later than now; SL_NEVER for SL_NEVER. */
static inline uint64_t sl_deadline(const struct sl_box *box, uint64_t after) {
    return after > SL_NEVER - box->now ? SL_NEVER : box->now + after;
}

/* A timeout of so many seconds in nanoseconds. */
static inline uint64_t sl_timeout(const struct sl_options *options, double seconds) {
    return options->timeouts && seconds > 0 ? (uint64_t)(seconds * 1e9) : SL_NEVER;
}

/* Is the instance's time over? */
static inline bool sl_expired(const struct sl_box *box, const struct sl_instance *instance) {
    return instance->deadline <= box->now && instance->deadline != SL_NEVER;
}

/* A function has no more use for an instance: its time is over. Sweeps that rest would not find it (sweep.h), and do not rest
 * any more. */
static inline void sl_give_back(struct sl_box *box, struct sl_instance *instance) {
    instance->deadline = box->now;
    box->gives_back = true;
}

/* The first `size` bytes of a part of a key, as they were in the packet. They last as long as the scratch. */
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

/* The Internet checksum (RFC 1071) over data that is all there, begun with `initial`, inverted: 0 is right. */
static inline uint64_t sl_checksum(sl_bytes data, uint64_t initial) {
    if (data.captured < data.length)
        return 0;
    return (uint16_t)~sl_internet_checksum(data.at, data.captured, initial);
}

/* Sum of a pseudo header's bytes. */
static inline uint64_t sl_checksum_part(sl_bytes data) {
    return sl_internet_checksum(data.at, data.captured, 0);
}

/* Sorts the halves of a key, of at least one word each: whether the first one is the higher. `key` receives both. Without a
 * branch: from which side the next packet comes nobody foresees, and one that goes wrong holds up the packets behind it
 * (`http1k_mix20k` warm 0.9, `http32k` 0.95). */
static inline bool sl_key_pair(uint64_t *key, const uint64_t *one, const uint64_t *other, unsigned words) {
    bool higher = one[words - 1] > other[words - 1];
    if (words == 1) {   /* as compilers know it */
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

/* --- batches for functions in Python: one record an event --- */

struct sl_record_head {
    uint32_t size;       /* of the record, this head included, a multiple of 8 */
    uint16_t event;      /* number of the event in the program's list */
    uint8_t side;
    uint8_t swapped;     /* the higher half of the key is the active side's */
    uint32_t owner;      /* index of the layer whose instance it is */
    uint32_t key_words;  /* of the instance's key, behind this head */
    uint64_t instance;   /* number, 0 for none */
    uint64_t time;       /* of the packet */
    uint64_t number;     /* of the packet */
    uint64_t watched;    /* the handlers on demand that hear of it */
    uint64_t slot;       /* of the instance in its table */
};

SL_COLD void sl_batch_flush(struct sl_batch *batch) {
    if (batch->used && batch->deliver)
        batch->deliver(batch->user, batch->at, batch->used);
    batch->used = 0;
}

/* Room for a record of `size` bytes; grows for one that is larger than the batch. NULL without memory. */
static inline uint8_t *sl_batch_take(struct sl_batch *batch, size_t size) {
    if (size > batch->size - batch->used) {
        sl_batch_flush(batch);
        if (size > batch->size) {
            uint8_t *larger = realloc(batch->at, size);
            if (!larger)
                return NULL;
            batch->at = larger;
            batch->size = size;
        }
    }
    uint8_t *at = batch->at + batch->used;
    batch->used += size;
    return at;
}

/* Room for the record of an event whose values take `size` bytes, with its head and the key of its instance written;
 * the values' place, or NULL without memory. */
static inline uint8_t *sl_record_begin(const struct sl_event *event, uint16_t number, size_t size) {
    struct sl_record_head head = {0, number, (uint8_t)event->side, 0, 0, 0, sl_event_number(event), event->box->time,
                                  event->box->number, sl_watched(event), 0};
    if (event->instance) {
        head.slot = event->instance->slot;
        head.swapped = *((const uint8_t *)event->instance + event->owner->swapped_offset);
        head.owner = event->owner->index;
        head.key_words = event->owner->half_words * (event->owner->oriented ? 2 : 1);
    }
    head.size = (uint32_t)(sizeof head + 8 * head.key_words + size);
    uint8_t *at = sl_batch_take(&event->box->batch, head.size);
    if (!at)
        return NULL;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    if (head.key_words)
        memcpy(at, sl_instance_key(event->instance), 8 * head.key_words);
    return at + 8 * head.key_words;
}

static inline size_t sl_record_bytes(sl_bytes bytes) { return 8 + (((size_t)bytes.captured + 7) & ~(size_t)7); }

static inline uint8_t *sl_record_number(uint8_t *at, uint64_t value) {
    memcpy(at, &value, 8);
    return at + 8;
}

static inline uint8_t *sl_record_put(uint8_t *at, sl_bytes bytes) {
    memcpy(at, &bytes.captured, 4);
    memcpy(at + 4, &bytes.length, 4);
    if (bytes.captured)
        memcpy(at + 8, bytes.at, bytes.captured);
    return at + sl_record_bytes(bytes);
}

/* --- opening and closing --- */

SL_COLD void sl_box_close(struct sl_box *box) {
    sl_pool_close(&box->pool);
    if (box->scratch.at)
        munmap(box->scratch.at, box->scratch.size);
    free(box->batch.at);
    free(box->timers.entry);
    free(box->output.bytes);
    free(box->output.sent);
    for (uint32_t i = 0; box->texts && i < box->function_count; i++)
        free(box->texts[i]);
    free(box->texts);
    free(box->parameters);
    free(box->function_counters);
    free(box->workers);
}

/* Memory of a box, whose counters and timeouts the stack has; 0, or -1 when there is not enough (then it is closed
 * already). */
SL_COLD int sl_box_open(struct sl_box *box, const struct sl_options *options, uint32_t functions) {
    box->max_instances = options->max_instances;
    box->workers = calloc(functions + 1, sizeof *box->workers);
    box->function_count = functions;
    box->parameters = calloc(functions + 1, sizeof *box->parameters);
    box->texts = calloc(functions + 1, sizeof *box->texts);
    box->function_counters = calloc(functions + 1, sizeof *box->function_counters);
    box->batch.size = options->deliver ? 1 << 20 : 0;
    box->batch.at = options->deliver ? malloc(box->batch.size) : NULL;
    box->batch.deliver = options->deliver;
    box->batch.user = options->user;
    box->output.forward = options->forward;
    box->output.user = options->forward_user;
    box->scratch.size = (size_t)1 << 28;
    box->scratch.at = sl_map(box->scratch.size, box->scratch.size);
    if (!box->workers || !box->parameters || !box->texts || !box->function_counters || !box->scratch.at ||
        (options->deliver && !box->batch.at) || sl_pool_open(&box->pool, options->memory) ||
        (options->prefault && sl_pool_prefault(&box->pool))) {
        sl_box_close(box);
        return -1;
    }
    box->pool.hold = options->hold ? options->hold : SL_HOLD;
    box->seed = options->seed;
    return 0;
}

#endif
