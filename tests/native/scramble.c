/* A module for tests: takes an exclusive or with a key away, counts for each instance, refuses, and is told a key. */
#include "native/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker { uint64_t calls; uint8_t extra; };
enum { EXTRA = 7 };   /* the kind of secrets of which each byte adds one to what is exclusive or'ed */
struct kept { uint64_t packets; uint8_t key; char *said; };

static int start(void *memory, const char *option)
{
    struct worker *worker = memory;
    if (strcmp(option, "refuse") == 0) {
        fputs("scramble: refused\n", stderr);
        return -1;
    }
    worker->extra = (uint8_t)strlen(option);
    return 0;
}

static void hear(void *memory, uint32_t kind, sl_bytes secrets)
{
    struct worker *worker = memory;
    if (kind == EXTRA)
        worker->extra = (uint8_t)(worker->extra + secrets.captured);
}

static void end(void *worker, void *memory)
{
    (void)worker;
    struct kept *kept = memory;
    free(kept->said);   /* the sanitizer tells where it is forgotten */
}

const struct sl_native_module scramble = {
    .context_bytes = sizeof(struct kept), .worker_bytes = sizeof(struct worker), .open = start, .end = end, .secrets = hear};

/* numbers: 1 refuses as 'asked to'; bytes: the payload. Gives the bytes, how many calls the instance had, all calls. */
unsigned unscramble(struct sl_native_call *call)
{
    struct worker *worker = call->worker;
    struct kept *kept = call->context;
    uint8_t key = worker->extra;
    worker->calls++;
    call->outputs[1] = worker->calls;
    if (kept) {
        if (!kept->said)
            kept->said = malloc(1);
        call->outputs[0] = ++kept->packets;
        key = (uint8_t)(key + kept->key);
    }
    if (call->numbers[0] == 1)
        return 1;
    if (call->bytes[0].captured < call->bytes[0].length)
        return 2;
    if (call->numbers[0] == 9)
        return 77;   /* none of its reasons */
    for (uint32_t i = 0; i < call->bytes[0].captured && i < call->room; i++)
        call->sdu[i] = call->bytes[0].at[i] ^ key;
    call->length = call->bytes[0].captured;   /* more than there is room for is cut */
    return 0;
}

/* numbers: the key. Refuses where the instance keeps nothing. */
unsigned tell_key(struct sl_native_call *call)
{
    struct kept *kept = call->context;
    if (!kept)
        return 1;
    kept->key = (uint8_t)call->numbers[0];
    return 0;
}
