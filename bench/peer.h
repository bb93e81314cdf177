/* The main program of what Sluice is compared with: PROGRAM TRACE FUNCTION [--warm] [--connections N] [--patterns FILE]
 *
 * A peer includes this, defines the functions declared first, and nothing else differs between them: the trace lies in
 * memory, one pinned thread has every packet processed once in bursts, and thread CPU time is taken around that alone
 * (sluice/runtime/driver/measure.h, the same as of `sluice bench`). Prints JSON with the keys of `sluice bench --json`. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "driver/measure.h"

#include <inttypes.h>
#include <stdbool.h>
#include <sys/resource.h>

enum peer_function {
    PEER_NONE,       /* states and sequence numbers only */
    PEER_ASSEMBLE,   /* every in-order byte of both directions goes to a function that counts */
    PEER_SEARCH,     /* and that one searches them for expressions (patterns.h) */
};

struct peer_options {
    enum peer_function function;
    uint64_t connections;      /* for which there must be room */
    const char *patterns;      /* file of the expressions; NULL without */
};

/* What the peer found, for the JSON; a peer leaves at -1 what it does not count. */
struct peer_found {
    int64_t flows;             /* connections that began */
    int64_t delivered_bytes;
    int64_t deliveries;
    int64_t matches;           /* of expressions */
    int64_t left_out;          /* packets that it does not understand, or in which bytes were lost */
};

/* Makes ready, outside of what is timed. NULL, or what is wrong. */
static const char *peer_open(const struct peer_options *options);

/* Processes a burst: see sl_burst_function. */
static void peer_burst(void *user, const struct sl_frame *frames, size_t count, size_t ahead);

static void peer_close(struct peer_found *found);

/* --- the function of `assemble` --- */

struct peer_deliveries {
    uint64_t calls, bytes, touched;
};

static struct peer_deliveries peer_deliveries;

/* What sluice/functions/ready/assemble.c does: it looks at where bytes are, and how many. */
__attribute__((noinline, unused)) static void peer_deliver(const uint8_t *at, uint32_t length)
{
    peer_deliveries.calls++;
    peer_deliveries.bytes += length;
    peer_deliveries.touched ^= (uintptr_t)at;
}

/* --- the program --- */

static inline int peer_complain(const char *program, const char *what)
{
    fprintf(stderr, "%s: %s\n", program, what);
    return 1;
}

static inline void peer_print(const char *key, int64_t value)
{
    if (value >= 0)
        printf(",\"%s\":%" PRId64, key, value);
}

int main(int argc, char **argv)
{
    static const char *const functions[] = {"none", "assemble", "search"};
    struct peer_options options = {.connections = 1 << 17};
    bool warm = false, known = false;
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--warm") == 0)
            warm = true;
        else if (strcmp(argv[i], "--connections") == 0 && i + 1 < argc)
            options.connections = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--patterns") == 0 && i + 1 < argc)
            options.patterns = argv[++i];
        else
            argc = 0;
    }
    for (int i = 0; argc >= 3 && i < 3; i++)
        if (strcmp(argv[2], functions[i]) == 0) {
            options.function = (enum peer_function)i;
            known = true;
        }
    bool without = options.function == PEER_SEARCH && !options.patterns;
    if (!known || without || !options.connections || options.connections > UINT32_MAX >> 1) {
        fprintf(stderr, "usage: %s TRACE none|assemble|search [--warm] [--connections N] [--patterns FILE]\n", argv[0]);
        return 2;
    }
    struct sl_trace trace;
    struct sl_ring ring = {0};
    char message[SL_CAPTURE_MESSAGE];
    if (sl_trace_load(&trace, argv[1], message, sizeof message))
        return peer_complain(argv[0], message);
    if (!trace.count)
        return peer_complain(argv[0], "the trace has no packets");
    if (warm && sl_ring_open(&ring, &trace))
        return peer_complain(argv[0], "not enough memory");
    sl_pin();
    const char *wrong = peer_open(&options);
    if (wrong)
        return peer_complain(argv[0], wrong);
    struct sl_elapsed spent = sl_measure(&trace, warm ? &ring : NULL, peer_burst, NULL);
    struct peer_found found = {-1, -1, -1, -1, -1};
    peer_close(&found);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double packets = (double)trace.count, each = (double)spent.cpu / packets;
    printf("{\"packets\":%zu,\"bytes\":%" PRIu64, trace.count, trace.bytes);
    peer_print("flows", found.flows);
    peer_print("deliveries", found.deliveries);
    peer_print("delivered_bytes", found.delivered_bytes);
    peer_print("matches", found.matches);
    peer_print("left_out", found.left_out);
    printf(",\"ns_per_packet_cpu\":%.2f,\"ns_per_packet_wall\":%.2f", each, (double)spent.wall / packets);
    printf(",\"mpps\":%.4f,\"gbps\":%.4f", 1e3 / each, (double)trace.bytes * 8 / packets / each);
    printf(",\"peak_rss_bytes\":%" PRIu64 "}\n", (uint64_t)usage.ru_maxrss * 1024);
    __asm__ volatile("" : : "r"(peer_deliveries.touched));
    free(ring.bytes);
    sl_trace_free(&trace);
    return 0;
}

#endif
