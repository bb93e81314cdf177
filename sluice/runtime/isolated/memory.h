/* The memory that the processes of an isolated chain share: packets, messages, queues, and what functions decide.
 *
 * The process of the stack writes packets and event messages into slots, one batch each, and puts a reference to each
 * message into the array of each function that receives it. A function reads these, and writes what it decides and
 * publishes into a log of its own, one for each slot. So every word has one writer. A process maps what others write
 * read-only, at the same addresses in all processes, so that a pointer into the memory is valid in each of them.
 *
 * What the stack and the controller write is trusted. What a function writes is not: it may have written anything
 * before it crashed. Whatever reads it checks every length and pointer (Microboxes, section 6, has no such check). */
#ifndef SL_ISOLATED_MEMORY_H
#define SL_ISOLATED_MEMORY_H

#include "core/box.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SL_ISO_FUNCTIONS = 64,
    SL_ISO_SLOTS = 16,
    SL_ISO_PACKETS = 256,        /* of a batch: as many as the driver hands over at once */
    SL_ISO_TYPES = 1024,         /* events of the stack that functions receive */
    SL_ISO_REFERENCES = 1 << 18, /* messages of a batch for one function */
    SL_ISO_QUEUE = 32,           /* batches that wait for one function: more than there are slots */
    SL_ISO_NESTED = 8,           /* publications within publications */
    SL_ISO_SLOT_BYTES = 128 << 20,
    SL_ISO_LOG_BYTES = 4 << 20,
    SL_ISO_LINE = 64,
    SL_ISO_FLOWS = 256,          /* subscriptions of single flows; a further one replaces the oldest */
    SL_ISO_VERTICES = 16,        /* functions of which there may be several instances */
    SL_ISO_PARTS = 1024,         /* of the traffic, each of which one instance has */
    SL_ISO_LAYERS = 256,         /* a path has their indices in bytes */
    SL_ISO_SCOPE = 4,            /* header fields that say which part a flow belongs to */
};

/* Where in a run something happens: the number of the event of the stack, then for each publication on the path the
 * number of the function that publishes and its publications before. Functions handle events in this order, which is
 * that of the fused chain. */
struct sl_iso_place {
    uint64_t order;
    uint32_t length;
    uint32_t path[2 * SL_ISO_NESTED];
};

/* An event message: what the event is about, and a snapshot of its instance. The key, the fields, the units and the path
 * of the packet, and the event's data follow it. */
struct sl_iso_message {
    uint64_t order;
    uint64_t now, time, packet;      /* of the box; of the current packet, or the last one */
    uint64_t number, deadline;       /* of the instance; number is 0 if there is none */
    uint64_t mask;                   /* the fields that follow, see sl_iso_field_bit */
    sl_bytes unit;
    uint32_t frame;                  /* place of the packet in the batch, from 1; 0 if no packet is processed */
    uint32_t slot;                   /* of the instance in its table */
    uint32_t size;                   /* of the message */
    uint32_t data;                   /* offset of the event's data */
    uint16_t type;                   /* number of the event */
    uint16_t layer, owner;           /* indices of layers */
    uint16_t words, fields, depth;   /* words of the key, fields, and layers of the path that follow; 0 words: no key */
    uint8_t side, swapped, state, paths;   /* paths: 1 if the path follows, 2 if the units follow as well */
};

enum sl_iso_kind { SL_ISO_BURST, SL_ISO_TICK, SL_ISO_STEP, SL_ISO_END };

/* A batch. Its memory follows: copies of packets, then messages. */
struct sl_iso_slot {
    uint32_t batch;                  /* its number */
    uint32_t kind;                   /* enum sl_iso_kind */
    uint64_t functions;              /* bits of those that receive it */
    uint64_t now;                    /* of the box, at the end */
    uint64_t last;                   /* number of the last event */
    uint64_t created;                /* the number of the newest instance */
    uint64_t created_before, before; /* the newest instance, and the last event, before the batch */
    uint32_t version[SL_ISO_VERTICES];   /* changes with `owner` */
    uint8_t owner[SL_ISO_VERTICES][SL_ISO_PARTS];   /* the instance that has a part, in this batch */
    uint64_t unseen;                 /* bits of functions that do not get all of its events: absent, or without room */
    uint64_t input, input_before;    /* packets of the input up to this batch, and up to those before */
    uint32_t packets;
    uint32_t used;                   /* bytes, from the beginning of the slot */
    uint64_t frame_order[SL_ISO_PACKETS];   /* the number of an event between those before the packet and its own */
    uint32_t references[SL_ISO_FUNCTIONS];  /* how many */
    struct sl_frame frames[SL_ISO_PACKETS];
};

/* The batches for a function. */
struct sl_iso_queue {
    _Alignas(SL_ISO_LINE) uint32_t count;   /* that were ever put into it; a futex */
    uint32_t batch;                         /* the last one; see sl_iso_enqueue */
    uint32_t entry[SL_ISO_QUEUE];           /* the slot of each */
};

/* What the process of the stack writes. */
struct sl_iso_stack {
    _Alignas(SL_ISO_LINE) uint32_t sleeping;   /* it waits for a function */
    uint32_t batches;
    uint64_t lost[SL_ISO_FUNCTIONS];     /* events that a function did not get, as it was too slow */
    uint64_t no_room[SL_ISO_FUNCTIONS];  /* events for which a slot had no room */
    uint64_t closed_drops;               /* packets dropped as a function that fails closed is absent */
    uint64_t invalid;                    /* entries of logs that make no sense */
    uint64_t uncommitted;                /* packets of which an update was not committed, although the instance is settled */
    uint64_t clock;                      /* the number of the last event */
    uint64_t log_drops;                  /* packets that were dropped as the packet log was full */
    uint64_t messages, message_bytes;    /* that were sent; without the bytes that they refer to */
    uint64_t packets[SL_ISO_VERTICES][SL_ISO_PARTS];   /* of each part */
    struct sl_iso_queue queue[SL_ISO_FUNCTIONS];
    /* for a process that takes the place of this one (recover.h) */
    uint64_t read;                       /* packets of the input */
    uint64_t decided;                    /* of these, packets whose verdicts the driver has */
    uint64_t left;                       /* of these, packets that were not dropped */
    uint64_t drops, changes, sends;      /* of struct sl_output */
    uint64_t root_lost;                  /* packets of batches that did not leave, as the process before ended */
    uint64_t roots;                      /* as in struct sl_iso_control: this process has what the log has */
};

/* A subscription that differs for one flow. */
struct sl_iso_flow {
    uint64_t number;                     /* of the instance */
    uint64_t function;                   /* its bit */
    uint32_t type;                       /* number of the event */
    uint32_t subscribed;
};

/* A function of which there may be several instances (CHC: a vertex), and which of them has a part of the traffic. */
struct sl_iso_vertex {
    uint64_t instances;                  /* their bits */
    uint32_t version;                    /* odd while `owner` is changed */
    uint32_t fields;                     /* header fields that say which part a flow belongs to; 0: the flow as a whole */
    char field[SL_ISO_SCOPE][16];
    uint8_t owner[SL_ISO_PARTS];
};

/* What tests switch off. */
enum sl_iso_off { SL_ISO_OFF_LOG = 1, SL_ISO_OFF_MARKS = 2, SL_ISO_OFF_ORDER = 4, SL_ISO_OFF_STATE = 8 };

/* What the controller writes. */
struct sl_iso_control {
    uint64_t absent;                     /* bits of functions that do not run, and are not waited for */
    uint64_t closed;                     /* that fail closed */
    uint64_t lossy;                      /* that lose events where they are too slow */
    uint64_t decide;                     /* that drop, change or send packets */
    uint64_t always;                     /* that receive batches without events for them, too */
    uint64_t before[SL_ISO_FUNCTIONS];   /* those that a function waits for */
    uint64_t drops[SL_ISO_FUNCTIONS];    /* those of which a drop withholds events from a function */
    uint64_t subscribed[SL_ISO_TYPES];   /* by event, the functions that receive it */
    uint64_t resume[SL_ISO_FUNCTIONS];   /* the last event that a function before a crash had begun with */
    uint64_t lost_before[SL_ISO_FUNCTIONS];   /* instances with lower numbers were known to a function that crashed */
    uint64_t unseen;                     /* bits of functions that have not handled all batches that they are done with */
    uint32_t unseen_to[SL_ISO_FUNCTIONS];   /* the last such batch */
    uint64_t leave;                      /* bits of functions that end after the current batch */
    uint64_t routed;                     /* of the first instance of each vertex, which subscribes for all of them */
    uint64_t stateful;                   /* of those whose updates a store acknowledges: batches are stored until then */
    uint64_t seed;                       /* of parts */
    uint64_t clock_limit;                /* events up to this number may be used: a store has it. 0: no limit */
    uint64_t log_waits;                  /* 0: packets are dropped where the packet log is full; else they wait */
    uint64_t off;                        /* enum sl_iso_off */
    uint64_t roots;                      /* how often a process of the stack took the place of one that ended */
    uint64_t replays;                    /* that one reads the input from the beginning */
    uint64_t polls;                      /* bits of functions that poll before they sleep: as many as have a core */
    uint64_t samples;                    /* packets are counted by part, for each vertex, and no function runs */
    uint64_t poison[SL_ISO_FUNCTIONS];   /* the event at which a function crashed again and again */
    uint64_t committed[SL_ISO_FUNCTIONS];    /* the last event of the last batch that a function before a crash committed */
    uint32_t row_file[SL_ISO_FUNCTIONS]; /* the descriptor of the file of its rows; 0: none */
    uint32_t rank[SL_ISO_FUNCTIONS];     /* place of a function in the order of the fused chain */
    uint8_t vertex[SL_ISO_FUNCTIONS];
    uint32_t vertex_count;
    uint32_t ending;
    uint32_t flow_count;                 /* entries of `flows` that are in use */
    struct sl_iso_flow flows[SL_ISO_FLOWS];
    struct sl_iso_vertex vertices[SL_ISO_VERTICES];
    uint32_t changes;                    /* how often a function was added */
    uint32_t changed[SL_ISO_FUNCTIONS];  /* the last such change of each place */
    /* What messages say of instances, besides their number: by event, and by function for what it publishes, enum
     * sl_iso_reads; by layer, the bits of the fields that any function of the chain reads. */
    uint8_t reads[SL_ISO_TYPES], publishes[SL_ISO_FUNCTIONS];
    uint64_t fields[SL_ISO_LAYERS];
};

enum sl_iso_reads { SL_ISO_READS_FIELDS = 1, SL_ISO_READS_KEY = 2 };

/* What a function has decided about the packets of a slot, and published. Entries follow. */
struct sl_iso_log {
    uint32_t batch;
    uint32_t used;                       /* bytes of entries */
    uint64_t drops[SL_ISO_PACKETS];      /* the event at which it dropped a packet; 0: it did not */
    /* By packet, from 1: the ids of instance and object of each update, combined by XOR, and the same of those that the
     * store has acknowledged (CHC, figure 3.9). The stack deletes a packet once they are equal. */
    uint32_t updates[SL_ISO_PACKETS + 1], committed[SL_ISO_PACKETS + 1];
};

enum sl_iso_action {
    SL_ISO_DROP, SL_ISO_REWRITE, SL_ISO_REDIRECT, SL_ISO_RESET, SL_ISO_SEND,
    SL_ISO_SEND_APART,                   /* struct sl_iso_apart, then the packet */
    SL_ISO_PUBLISH,
};

/* Of a packet that is sent, and not about the current one. */
struct sl_iso_apart { uint64_t time; uint32_t link_type, port; };

struct sl_iso_entry {
    uint32_t size;                       /* with its bytes, a multiple of 8 */
    uint16_t action;                     /* enum sl_iso_action */
    uint16_t event;                      /* of SL_ISO_PUBLISH: its number in the chain */
    uint32_t frame;                      /* place of the packet, from 1; 0 without one */
    uint32_t current;                    /* the packet is processed: not so for timers that fire before it */
    /* `at`: of a change its place in the packet; of a sent packet, 1 for the reverse direction. `length`: of a redirection the port. */
    uint32_t at, length;
    struct sl_iso_place place;
};

/* What a function writes; its logs follow, see sl_iso_log_of. */
struct sl_iso_function {
    _Alignas(SL_ISO_LINE) uint32_t done_batch;   /* the last one that it is done with; a futex */
    uint32_t done;                       /* how many; see sl_iso_done */
    uint32_t sleeping;
    uint32_t running;                    /* it has begun to receive */
    uint64_t begun;                      /* the event with which it began last */
    uint64_t skipped;                    /* events that crashed it, or at which it was killed */
    uint64_t flows, flows_lost;          /* instances that it knows; of which it lost the state by a crash */
    uint64_t not_published, not_decided; /* for which its log had no room */
    uint32_t settled_batch, settled;     /* as done_batch and done: the store has acknowledged their updates */
    uint64_t progress;                   /* events with lower numbers are handled, and what they updated is in the store */
    uint64_t watched;                    /* updates of objects that other instances have read */
    uint32_t waits;                      /* it waits for another instance, or for the store */
};

/* As sluice/chain/processes/memory.py has them. */
_Static_assert(offsetof(struct sl_iso_stack, queue) == 132160 && sizeof(struct sl_iso_queue) == 192, "see memory.py");
_Static_assert(offsetof(struct sl_iso_slot, references) == 18584 && sizeof(struct sl_iso_log) == 4112, "see memory.py, mirror.py");
_Static_assert(offsetof(struct sl_iso_slot, created) == 32 && offsetof(struct sl_iso_function, begun) == 16, "see memory.py");
_Static_assert(sizeof(struct sl_iso_control) <= 1 << 18, "see memory.py");
_Static_assert(offsetof(struct sl_iso_function, done) == 4 && offsetof(struct sl_iso_queue, batch) == 4, "see sl_iso_done");
_Static_assert(sizeof(struct sl_iso_function) <= 4096 && SL_ISO_SLOTS <= SL_ISO_QUEUE, "see sl_iso_log_of");

/* The mappings of a process. */
struct sl_iso {
    struct sl_iso_control *control;
    struct sl_iso_stack *stack;
    uint8_t *slots;
    uint32_t *references;                /* by slot and function */
    uint8_t *functions[SL_ISO_FUNCTIONS];
    uint32_t count;                      /* places for functions */
    uint32_t self;                       /* the number of this function */
};

static inline struct sl_iso_slot *sl_iso_slot_at(const struct sl_iso *iso, uint32_t slot) {
    return (struct sl_iso_slot *)(void *)(iso->slots + (size_t)slot * SL_ISO_SLOT_BYTES);
}

static inline uint32_t *sl_iso_references(const struct sl_iso *iso, uint32_t slot, uint32_t function) {
    return iso->references + ((size_t)slot * iso->count + function) * SL_ISO_REFERENCES;
}

static inline struct sl_iso_function *sl_iso_function_at(const struct sl_iso *iso, uint32_t function) {
    return (struct sl_iso_function *)(void *)iso->functions[function];
}

static inline struct sl_iso_log *sl_iso_log_of(const struct sl_iso *iso, uint32_t function, uint32_t slot) {
    return (struct sl_iso_log *)(void *)(iso->functions[function] + 4096 + (size_t)slot * SL_ISO_LOG_BYTES);
}

/* Has the store acknowledged what a function updated in a batch that it received? A function without a store is settled
 * when it is done. */
static inline bool sl_iso_is_settled(const struct sl_iso *iso, uint32_t function, uint32_t batch);

/* The functions of a set, one after the other: `for (uint64_t left = set; left; left &= left - 1)`. */
static inline uint32_t sl_iso_first(uint64_t set) { return (uint32_t)__builtin_ctzll(set); }

/* --- waiting --- */

enum { SL_ISO_SPINS = 2000, SL_ISO_WAIT_NANOSECONDS = 20 * 1000 * 1000 };

/* How often a process tests what it waits for before it sleeps. One that polls where others need its core delays what it
 * waits for. The stack polls where the first function does. */
static inline uint32_t sl_iso_spins(const struct sl_iso *iso) {
    return iso->control->polls >> iso->self & 1 ? SL_ISO_SPINS : 0;
}

/* Sleeps while *word is `seen`, for 20 ms at most: what else the caller waits for is tested then. */
static inline void sl_iso_sleep(const uint32_t *word, uint32_t seen, uint32_t *sleeping) {
    struct timespec most = {0, SL_ISO_WAIT_NANOSECONDS};
    __atomic_store_n(sleeping, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen)
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, NULL, 0);
    __atomic_store_n(sleeping, 0, __ATOMIC_RELAXED);
}

static inline void sl_iso_wake(const uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static inline void sl_iso_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Is a function done with a batch that it received, or absent? */
static inline bool sl_iso_is_done(const struct sl_iso *iso, uint32_t function, uint32_t batch) {
    uint32_t done = __atomic_load_n(&sl_iso_function_at(iso, function)->done_batch, __ATOMIC_ACQUIRE);
    return (int32_t)(done - batch) >= 0 || (__atomic_load_n(&iso->control->absent, __ATOMIC_ACQUIRE) >> function & 1);
}

static inline bool sl_iso_is_settled(const struct sl_iso *iso, uint32_t function, uint32_t batch) {
    if (!(iso->control->stateful >> function & 1) || iso->control->off & SL_ISO_OFF_LOG)
        return sl_iso_is_done(iso, function, batch);
    uint32_t settled = __atomic_load_n(&sl_iso_function_at(iso, function)->settled_batch, __ATOMIC_ACQUIRE);
    return (int32_t)(settled - batch) >= 0 || (__atomic_load_n(&iso->control->absent, __ATOMIC_ACQUIRE) >> function & 1);
}

typedef bool (*sl_iso_ready)(const struct sl_iso *iso, uint32_t function, uint32_t batch);

/* Waits until a function is ready with a batch, as `word` says. False if the chain ends before. */
static inline bool sl_iso_wait_until(const struct sl_iso *iso, sl_iso_ready ready, const uint32_t *word,
                                     uint32_t function, uint32_t batch, uint32_t *sleeping) {
    const uint32_t most = sl_iso_spins(iso);
    for (uint32_t spins = 0; !ready(iso, function, batch); spins++) {
        if (__atomic_load_n(&iso->control->ending, __ATOMIC_RELAXED))
            return false;
        uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (spins < most)
            sl_iso_pause();
        else if ((int32_t)(seen - batch) < 0)
            sl_iso_sleep(word, seen, sleeping);
    }
    return true;
}

/* Waits until a function is done with a batch. False if the chain ends before. */
static inline bool sl_iso_wait_done(const struct sl_iso *iso, uint32_t function, uint32_t batch, uint32_t *sleeping) {
    const uint32_t *word = &sl_iso_function_at(iso, function)->done_batch;
    return sl_iso_wait_until(iso, sl_iso_is_done, word, function, batch, sleeping);
}

/* The same until the store has acknowledged what it updated. */
static inline bool sl_iso_wait_settled(const struct sl_iso *iso, uint32_t function, uint32_t batch, uint32_t *sleeping) {
    struct sl_iso_function *side = sl_iso_function_at(iso, function);
    bool stateful = iso->control->stateful >> function & 1 && !(iso->control->off & SL_ISO_OFF_LOG);
    return sl_iso_wait_until(iso, sl_iso_is_settled, stateful ? &side->settled_batch : &side->done_batch, function, batch,
                             sleeping);
}

/* --- messages --- */

static inline size_t sl_iso_padded(size_t size) { return (size + 7) & ~(size_t)7; }

/* The bit of a field in a mask; those from the 64th on share one. */
static inline uint64_t sl_iso_field_bit(uint32_t field) { return (uint64_t)1 << sl_min(field, 63); }

/* The words of the key of an instance of a layer. */
static inline uint32_t sl_iso_key_words(const struct sl_layer_info *owner) {
    return owner->half_words * (owner->oriented ? 2u : 1u);
}

/* The number of fields in a mask. */
static inline uint32_t sl_iso_field_count(const struct sl_layer_info *owner, uint64_t mask) {
    uint32_t most = sl_min(owner->fields, 63);
    uint32_t count = (uint32_t)__builtin_popcountll(mask & (((uint64_t)1 << most) - 1));
    return mask >> 63 && owner->fields > 63 ? count + owner->fields - 63 : count;
}

/* The fields that a message has, by what its functions read. */
static inline uint64_t sl_iso_mask(const struct sl_iso_control *control, const struct sl_event *event, uint8_t reads) {
    bool any = event->instance && reads & SL_ISO_READS_FIELDS && event->owner->index < SL_ISO_LAYERS;
    return any ? control->fields[event->owner->index] : 0;
}

/* The size of a message without the event's data. */
static inline size_t sl_iso_head(const struct sl_event *event, uint8_t paths, uint8_t reads, uint64_t mask) {
    const struct sl_layer_info *owner = event->owner;
    size_t words = sl_iso_field_count(owner, mask) +
                   (event->instance && reads & SL_ISO_READS_KEY ? sl_iso_key_words(owner) : 0);
    size_t depth = paths && event->box->frame ? event->box->depth : 0;
    return sizeof(struct sl_iso_message) + 8 * words + (paths > 1 ? sizeof(sl_bytes) : 0) * depth + sl_iso_padded(depth);
}

/* Writes a message without the event's data, at `message`, where there is room for it. */
static inline void sl_iso_write(struct sl_iso_message *message, const struct sl_event *event, uint16_t type,
                                uint8_t paths, uint8_t reads, uint64_t mask, size_t head, size_t size) {
    const struct sl_box *box = event->box;
    const struct sl_layer_info *owner = event->owner;
    *message = (struct sl_iso_message){
        .now = box->now, .time = box->time, .packet = box->number, .unit = event->unit, .type = type,
        .layer = (uint16_t)event->layer->index, .owner = (uint16_t)owner->index, .side = (uint8_t)event->side,
        .paths = paths, .data = (uint32_t)head, .size = (uint32_t)(head + sl_iso_padded(size)),
    };
    uint64_t *at = (uint64_t *)(message + 1);
    if (event->instance) {
        struct sl_instance *instance = event->instance;
        message->number = sl_event_number(event);
        message->deadline = instance->deadline;
        message->slot = instance->slot;
        message->swapped = *((const uint8_t *)instance + owner->swapped_offset);
        message->state = owner->states ? *((const uint8_t *)instance + owner->state_offset) : 0;
        message->words = (uint16_t)(reads & SL_ISO_READS_KEY ? sl_iso_key_words(owner) : 0);
        message->mask = mask;
        message->fields = (uint16_t)sl_iso_field_count(owner, message->mask);
        memcpy(at, sl_instance_key(instance), 8u * message->words);
        at += message->words;
        for (uint32_t i = 0; message->fields && i < owner->fields; i++)
            if (message->mask & sl_iso_field_bit(i))
                *at++ = sl_field_value(instance, &owner->field[i]);
    }
    if (paths && box->frame) {
        message->depth = (uint16_t)box->depth;
        for (uint32_t i = 0; paths > 1 && i < box->depth; i++, at += 2)
            memcpy(at, &box->units[i], sizeof(sl_bytes));
        memcpy(at, box->path, box->depth);
    }
}

/* The units of a message; the caller copies their bytes. */
static inline sl_bytes *sl_iso_units(struct sl_iso_message *message) {
    return (sl_bytes *)(void *)((uint64_t *)(message + 1) + message->words + message->fields);
}

#endif
