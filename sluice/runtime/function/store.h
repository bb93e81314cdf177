/* The interface of a store outside the box, which holds the shared objects of functions (shared.h). A box has a
 * pointer to a struct sl_store in its options; NULL: objects are local. The implementation may be compiled apart
 * from the stack, as sluice/state/runtime/client.c is, so this file contains only types.
 *
 * An update has an identifier: the logical clock of its packet (40 bits), and its place among the updates of that
 * packet (8 bits; further ones continue in those of the next packet). Identifiers of a box increase. The store adds
 * the run to them, and applies an update once, however often it is transmitted. */
#ifndef SL_STORE_H
#define SL_STORE_H

#include <stdbool.h>
#include <stdint.h>

enum sl_shared_type { SL_SHARED_COUNTER, SL_SHARED_NUMBER, SL_SHARED_STRUCT, SL_SHARED_LIST, SL_SHARED_SET, SL_SHARED_MAP };

/* The operations of a store. `number` and `other` are those of struct sl_store_call. */
enum sl_store_operation {
    SL_STORE_ADD,          /* adds number; the result is the sum */
    SL_STORE_READ,         /* the value of a counter or number */
    SL_STORE_SET,          /* sets a number */
    SL_STORE_MINIMUM,      /* sets it to `number` if that is less, or if there is no value; the result is the value */
    SL_STORE_MAXIMUM,
    SL_STORE_COMPARE,      /* sets it to `other` if it is `number`; the result is the value before */
    SL_STORE_CUSTOM,       /* an operation of the function, called `name`, with the arguments `number` and `other` */
    SL_STORE_PUT,          /* sets a struct to `bytes` */
    SL_STORE_GET,          /* a struct */
    SL_STORE_FILL,         /* once for each list: appends number, number + 1, ..., other */
    SL_STORE_PUSH,         /* appends number */
    SL_STORE_POP,          /* takes the first item; absent if there is none */
    SL_STORE_INSERT,       /* into a set; the result is 1 if it was not there */
    SL_STORE_REMOVE,       /* from a set; the result is 1 if it was there */
    SL_STORE_CONTAINS,     /* whether a set has it: 0 or 1 */
    SL_STORE_MAP_ADD,      /* adds `other` to the value of key `number` of a map; the result is the sum */
    SL_STORE_MAP_READ,     /* the value of key `number`; absent if there is none */
    SL_STORE_MAP_MINIMUM,  /* as SL_STORE_MINIMUM, of the value of key `number` */
    SL_STORE_MAP_MAXIMUM,
    SL_STORE_MAP_LEAST,    /* adds `number` to the least value (of equal ones that of the least key); the result is its key */
    SL_STORE_DROP,         /* the object no longer exists */
    SL_STORE_FORGET,       /* the end: no update of the object will be transmitted again */
    SL_STORE_LOAD,         /* all of an object, as text (sl_shared_load) */
    SL_STORE_OPERATIONS,
};

enum { SL_STORE_BYTES_MOST = 4096 };   /* of a struct */
enum { SL_STORE_OTHERS = -2 };
#define SL_STORE_NUMBER_MOST ((INT64_C(1) << 53) - 1)   /* magnitude of numbers: the server calculates with doubles */

struct sl_store_call {
    enum sl_store_operation operation;
    bool recovered;         /* the function declares that no update of the object may be lost */
    const char *key;        /* identifies the object; valid until the object is dropped */
    uint32_t key_length;
    uint64_t id;            /* of an update; 0 if the operation changes nothing */
    int64_t number, other;
    const void *bytes;      /* of a struct */
    uint32_t length;
    const char *name;       /* of a custom operation */
    uint32_t *open;         /* the store's own, of the object: 0 at first */
    uint32_t part;          /* of the traffic, from 1, if the object belongs to it: the update is one of the next commit */
    bool shared;            /* others have updated the object, too, and may transmit what they did again */
};

enum sl_store_status {
    SL_STORE_DONE,
    SL_STORE_ABSENT,    /* there is no such item or value */
    SL_STORE_REFUSED,   /* the value would be larger than SL_STORE_NUMBER_MOST, or the list or set too long */
    SL_STORE_FAILED,    /* the store did not reply, or with an error */
};

struct sl_store_result {
    int64_t number;
    void *bytes;        /* where to write a struct; of `length` bytes */
    uint32_t length;
    char **text;        /* of SL_STORE_LOAD: set to the text, which the caller frees; NULL otherwise */
};

/* What a store counted. */
struct sl_store_counts {
    uint64_t operations;      /* of functions */
    uint64_t requests;        /* transmitted for these, each once */
    uint64_t waits;           /* operations for whose result a packet waited */
    uint64_t reconnections, retransmitted;
    uint64_t lost;            /* updates that were given up: of objects that must be recovered ... */
    uint64_t lost_zero;       /* ... and of others */
    uint64_t errors;          /* replies with an error */
    uint64_t refused;         /* updates that the store refused, and for whose result no packet waited */
    uint64_t not_owner;       /* updates that the store refused, as another instance owns the objects */
    uint64_t repeated;        /* commits that the store had applied before */
    uint64_t callbacks;       /* objects of which the store said that they have changed */
    uint64_t unreplicated;    /* times that replicas did not have the updates in time, so that one node alone had them */
    uint64_t unlogged;        /* calls that the write-ahead log has no room for: they cannot be recovered */
};

/* What an instance among several of a function knows of the others (isolated/instance.h). Events are struct sl_event. */
struct sl_store_chain {
    uint64_t (*clock)(void);                   /* the logical clock of the current event */
    void (*order)(void);                       /* waits until the other instances have handled what comes before it */
    /* The part of the traffic that an event belongs to, which this instance owns. -1: it belongs to none.
     * SL_STORE_OTHERS: it is another instance's. */
    int32_t (*part)(const void *event);
    bool (*adopted)(const void *event);        /* did the event's flow begin before this instance had it? */
    bool (*changed)(void);                     /* has another instance updated a watched object since the last call? */
    void (*updated)(bool watched, uint32_t object);   /* this one updates an object */
    bool (*waits)(bool waits);                 /* for others, from now on: it does not hang. Returns what was so before */
};

struct sl_store {
    /* Performs an operation. With a result, waits for it; without, it is transmitted with the burst. */
    enum sl_store_status (*call)(struct sl_store *store, const struct sl_store_call *call, struct sl_store_result *result);
    /* The end of a burst: transmits what is pending, and takes the replies that are there. Does not wait. */
    void (*flush)(struct sl_store *store);
    /* The end of input: waits until all updates are acknowledged, at most for the time-out. */
    void (*finish)(struct sl_store *store);
    const struct sl_store_counts *(*counts)(struct sl_store *store);
    /* Why updates were lost or refused; an empty text if none were. */
    const char *(*fault)(struct sl_store *store);
    /* Of an instance among several. The end of a batch of packets, of which `clock` is the last: transmits the updates of
     * objects that belong to parts of the traffic, which the store applies together, or, if it has them, not at all. */
    void (*commit)(struct sl_store *store, uint64_t clock);
    /* Takes replies and callbacks that are there; waits for them for at most so many milliseconds. */
    void (*poll)(struct sl_store *store, uint32_t milliseconds);
    /* Gives up these parts of the traffic, given by bits, once all before is committed: each can only be taken by the
     * instance of number owner[part]. */
    void (*release)(struct sl_store *store, const uint8_t *parts, const uint8_t *owner);
    /* Takes these parts, once they are given up to this instance, of number `self`. True: it has all that it has by
     * version `version` of the table of parts, which the store records; a process that takes the place of this one goes on
     * from there. False: not in time. */
    bool (*own)(struct sl_store *store, const uint8_t *parts, uint32_t self, uint32_t version);
    /* With the next commit, the timers of a flow of a part are those of the text `timers`; an empty one: it has none. */
    void (*set_timers)(struct sl_store *store, uint32_t part, const char *flow, const char *timers);
    /* What was stored so of these parts, as FLOW=TIMERS, one after the other, each with a comma. The caller frees it.
     * NULL: the store did not reply. */
    char *(*timers)(struct sl_store *store, const uint8_t *parts);
    const struct sl_store_chain *chain;   /* NULL: this is the only instance */
    const char *cached, *watched;         /* ",NAME,NAME," of objects: of parts of the traffic; with callbacks */
    uint64_t made, acknowledged;          /* calls so far */
    uint64_t floor;                       /* no event with a lower clock will be handled again */
    uint64_t rows;                        /* bytes of the file of rows, which a commit stores */
    uint64_t generation;                  /* changes with each callback */
    uint32_t version;                     /* of the table of parts that the process before this one had taken up */
    bool marks;                           /* the next commit is made also if it has no updates */
    uint8_t owned[1024 / 8];              /* parts: bits of those that this instance owns */
    bool strict;                          /* operations with results are in the order of packets */
    bool alone;                           /* it owns all parts: no other instance uses what instances share */
    bool caches;              /* flow-scoped objects are cached, and reads of them do not reach the store */
    const char *instance;     /* of the function, as part of the keys of flow-scoped objects */
};

#endif
