/* What a native module is: a source file in C with functions that a description calls (`Native` in the language).
 *
 * A file `seal.c` includes this header and defines
 *
 *     const struct sl_native_module seal = {.context_bytes = sizeof(struct connection), .open = ..., ...};
 *     unsigned unseal(struct sl_native_call *call);
 *
 * The module has the name of the file; each function has the type sl_native_function. The code is C11 and depends on
 * nothing else of Sluice. Several workers may call a function at the same time, each with its own `worker`, so
 * functions must not keep anything in static memory. */
#ifndef SL_NATIVE_H
#define SL_NATIVE_H

#include "core/packet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One call. Data from packets may be anything, and is only valid during the call. */
struct sl_native_call {
    void *worker;              /* the module's data for the worker, zeroed before `open` */
    void *context;             /* its data for this instance, initially zero; NULL if there is none */
    uint64_t time;             /* of the packet, in nanoseconds */
    const uint64_t *numbers;   /* inputs that are numbers, in their order */
    const sl_bytes *bytes;     /* inputs that are bytes, in their order */
    uint64_t *outputs;         /* results that are numbers, initially 0 */
    uint8_t *sdu;              /* where the function writes its result bytes */
    uint32_t room;             /* their maximum number: the limit= of the description, 0 for a function without such a
                                * result */
    uint32_t length;           /* their actual number, initially 0 */
};

/* Returns 0, or the number, from 1, of the reason in the description for which it failed. Then its outputs and bytes
 * are discarded. */
typedef unsigned sl_native_function(struct sl_native_call *call);

/* What a module may use of its box. */
struct sl_native_box {
    /* Charges bytes that the module allocates itself for its worker to the memory of the box (--memory), until the module
     * closes. False: the box has no such memory left, and nothing was charged. */
    bool (*charge)(struct sl_native_box *box, uint64_t bytes);
    /* Whether the current packet may cause an operation that costs as much as dozens of packets, as the derivation of keys
     * does (--derivations); then it counts. */
    bool (*derive)(struct sl_native_box *box);
    /* The last one does not count: no one could cause it who does not know a secret. */
    void (*excuse)(struct sl_native_box *box);
};

struct sl_native_module {
    uint32_t context_bytes;    /* per instance, at most 131072; they count as memory of the box. 0: no data */
    uint32_t worker_bytes;     /* per worker */
    /* `option` is the text of the module's option, or "". A result other than 0 prevents the run; the function has
     * printed the reason on stderr. May be NULL, like the others. */
    int (*open)(void *worker, const char *option);
    void (*end)(void *worker, void *context);    /* the instance ends: frees what `context` points to */
    void (*close)(void *worker);                 /* the box closes */
    /* Receives secrets that came with the packets, as in a capture file. They are as untrusted as the file. */
    void (*secrets)(void *worker, uint32_t kind, sl_bytes secrets);
    /* Called before `open`; `box` is valid until `close` has returned. */
    void (*attach)(void *worker, struct sl_native_box *box);
};

#endif
