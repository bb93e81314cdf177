/* What a native module is: a source file in C with functions that a description calls (`Native` in the language).
 *
 * A file `seal.c` includes this, and defines
 *
 *     const struct sl_native_module seal = {.context_bytes = sizeof(struct connection), .open = ..., ...};
 *     unsigned unseal(struct sl_native_call *call);
 *
 * the module by the file's own name, and each function as `sl_native_function` says. C11; nothing of the machinery. Its
 * functions may be called by several workers at once, each with its own `worker`: they keep nothing in static memory. */
#ifndef SL_NATIVE_H
#define SL_NATIVE_H

#include "core/packet.h"

#include <stddef.h>
#include <stdint.h>

/* One call. What comes from packets may be anything, and is only valid during the call. */
struct sl_native_call {
    void *worker;              /* what the module keeps for the worker, zeroed before `open` */
    void *context;             /* what it keeps for this instance, zeroed at first; NULL when there is none */
    uint64_t time;             /* of the packet, in nanoseconds */
    const uint64_t *numbers;   /* inputs that are numbers, in their order */
    const sl_bytes *bytes;     /* inputs that are bytes, in their order */
    uint64_t *outputs;         /* numbers that it gives, 0 at first */
    uint8_t *sdu;              /* where the bytes go that it gives */
    uint32_t room;             /* how many may: the limit= of the description, 0 for a function that gives none */
    uint32_t length;           /* how many it gave, 0 at first */
};

/* 0, or why not: the number, from 1, of a reason of the description. Then its outputs and bytes are forgotten. */
typedef unsigned sl_native_function(struct sl_native_call *call);

struct sl_native_module {
    uint32_t context_bytes;    /* for each instance, at most 131072; they count as memory of the box. 0: it keeps nothing */
    uint32_t worker_bytes;     /* for each worker */
    /* With the text of its option, or "". Not 0 refuses to run; it has said on stderr why. May be NULL, as the others. */
    int (*open)(void *worker, const char *option);
    void (*end)(void *worker, void *context);    /* the instance ends: give back what `context` points to */
    void (*close)(void *worker);                 /* the box closes */
    /* Secrets that came with the packets, as in a capture file; whoever made that may have written anything. */
    void (*secrets)(void *worker, uint32_t kind, sl_bytes secrets);
};

#endif
