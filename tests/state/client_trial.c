/* Drives the client alone: updates whose sum is known, of each kind that waits and that does not, with a flush now
 * and then. Prints a JSON object of what it expects of the store and of what the client counted.
 *
 * client_trial PATH PREFIX EPOCH SEED COUNT TIMEOUT BYTES [zero: updates may be lost]
 *
 * With the environment variable TRIAL_LOG it is one instance among several, whose write-ahead log has that name, on a disk
 * that has room for TRIAL_ROOM bytes. With TRIAL_DISK updates must be on the disk. */
#include "client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

enum { COUNTERS = 3 };

struct object { char key[64]; uint32_t open; };

static struct object named(const char *name) {
    struct object object = {.open = 0};
    snprintf(object.key, sizeof object.key, "sluice:{trial}%s:", name);
    return object;
}

static struct sl_store *store;
static uint64_t id;
static bool recovered = true;

static enum sl_store_status call(struct object *object, enum sl_store_operation operation, int64_t number, int64_t other,
                                 int64_t *result) {
    bool reads = operation == SL_STORE_READ;
    struct sl_store_call made = {.operation = operation, .recovered = recovered, .key = object->key,
                                 .key_length = (uint32_t)strlen(object->key), .id = reads ? 0 : ++id, .number = number,
                                 .other = other, .open = &object->open};
    struct sl_store_result got = {0};
    enum sl_store_status status = store->call(store, &made, result ? &got : NULL);
    if (result)
        *result = got.number;
    return status;
}

static struct { uint64_t begun; bool now; } stops;   /* for the store, of which an instance tells its controller */

static bool stop(bool now) {
    bool before = stops.now;
    stops.begun += now && !before;
    stops.now = now;
    return before;
}

static uint64_t state;

static uint32_t choose(uint32_t below) {   /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static void log_to(struct sluice_client_options *options, const char *path) {
    struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
    if (getenv("TRIAL_ROOM"))
        most.rlim_cur = strtoull(getenv("TRIAL_ROOM"), NULL, 10);
    signal(SIGXFSZ, SIG_IGN);   /* a write beyond it fails */
    setrlimit(RLIMIT_FSIZE, &most);
    options->log = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
    options->token = "trial@0/1";
    options->function = "trial";
    options->cached = options->watched = ",";
    options->run = 1;
}

int main(int count, char **word) {
    if (count < 8)
        return 2;
    recovered = count == 8;
    char why[200];
    struct sluice_client_options options = {
        .path = word[1], .prefix = word[2], .instance = "0", .epoch = (uint32_t)atoi(word[3]),
        .timeout = (uint32_t)atoi(word[6]), .bytes = (uint32_t)atoi(word[7]), .caches = true, .log = -1};
    if (getenv("TRIAL_LOG"))
        log_to(&options, getenv("TRIAL_LOG"));
    options.disk = getenv("TRIAL_DISK") != NULL;
    state = strtoull(word[4], NULL, 10) * 2654435761u + 88172645463325252u;
    store = sluice_client_open(&options, why, sizeof why);
    if (!store) {
        printf("{\"open\": \"%s\"}\n", why);
        return 0;
    }
    static const struct sl_store_chain chain = {.waits = stop};
    store->chain = &chain;
    struct object counter[COUNTERS] = {named("a"), named("b"), named("c")}, list = named("list"), map = named("map");
    int64_t sum[COUNTERS] = {0}, pushed = 0, popped = 0, least = 0, waited = 0, failed = 0, result;
    for (int64_t n = 0; n < atoi(word[5]); n++) {
        uint32_t which = choose(COUNTERS);
        int64_t amount = which ? choose(100) : 1;
        bool done = true;
        switch (choose(8)) {
        case 0:
            waited++;
            done = call(&counter[which], SL_STORE_ADD, amount, 0, &result) == SL_STORE_DONE;
            sum[which] += done ? amount : 0;
            if (done && result != sum[which]) {
                printf("{\"wrong\": \"the sum of %u is %" PRId64 ", not %" PRId64 "\"}\n", which, result, sum[which]);
                return 1;
            }
            break;
        case 1:
            call(&list, SL_STORE_PUSH, n, 0, NULL);
            pushed++;
            break;
        case 2:
            waited++;
            if (call(&list, SL_STORE_POP, 0, 0, &result) == SL_STORE_DONE)
                popped++;
            break;
        case 3:
            call(&map, SL_STORE_MAP_ADD, which, 1, NULL);
            least++;
            break;
        case 4:
            done = call(&counter[which], SL_STORE_READ, 0, 0, &result) == SL_STORE_DONE;
            if (done && result != sum[which]) {
                printf("{\"wrong\": \"%u reads %" PRId64 ", not %" PRId64 "\"}\n", which, result, sum[which]);
                return 1;
            }
            break;
        default:
            call(&counter[which], SL_STORE_ADD, amount, 0, NULL);
            sum[which] += amount;
        }
        failed += !done;
        if (choose(16) == 0)
            store->flush(store);
    }
    store->finish(store);
    const struct sl_store_counts *counts = store->counts(store);
    printf("{\"a\": %" PRId64 ", \"b\": %" PRId64 ", \"c\": %" PRId64 ", \"items\": %" PRId64 ", \"map\": %" PRId64
           ", \"failed\": %" PRId64 ", \"waits\": %" PRIu64 ", \"reconnections\": %" PRIu64 ", \"retransmitted\": %" PRIu64
           ", \"lost\": %" PRIu64 ", \"lost_zero\": %" PRIu64 ", \"errors\": %" PRIu64 ", \"unlogged\": %" PRIu64
           ", \"stops\": %" PRIu64 ", \"stopped\": %s, \"fault\": \"%s\"}\n",
           sum[0], sum[1], sum[2], pushed - popped, least, failed, counts->waits, counts->reconnections,
           counts->retransmitted, counts->lost, counts->lost_zero, counts->errors, counts->unlogged, stops.begun,
           stops.now ? "true" : "false", store->fault(store)[0] ? "yes" : "");
    sluice_client_close(store);
    return 0;
}
