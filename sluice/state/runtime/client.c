#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- additions that are combined --- */

static void close_batch(struct client *client, struct batch *batch) {
    char ids[8 * BATCH_UPDATES], amounts[2 + 21 * BATCH_UPDATES] = "=";   /* 20 digits with a sign, and a comma */
    size_t length = batch->equal ? 0 : 1;
    if (!batch->count)
        return;
    for (uint32_t i = 0; i < batch->count; i++) {
        sluice_write_id(client->options.epoch, batch->id[i], ids + 8 * i);
        if (!i || !batch->equal)
            length += (size_t)snprintf(amounts + length, sizeof amounts - length, i ? ",%lld" : "%lld",
                                       (long long)batch->amount[i]);
    }
    struct word words[] = {{ids, 8 * (size_t)batch->count}, {amounts, length}};
    sluice_write_object_call(client, "add", batch->key, batch->key_length, false, words, 2, batch->count, batch->recovered);
    *batch->open = 0;
    batch->count = 0;
}

static void close_batches(struct client *client) {
    for (uint32_t i = 0; i < client->batches; i++)
        close_batch(client, &client->batch[i]);
    client->batches = 0;
}

static void combine(struct client *client, const struct sl_store_call *call) {
    if (*call->open && client->batch[*call->open - 1].count == BATCH_UPDATES)
        close_batch(client, &client->batch[*call->open - 1]);
    if (!*call->open) {
        if (client->batches == BATCHES)
            close_batches(client);
        client->batch[client->batches] = (struct batch){
            .open = call->open, .key = call->key, .key_length = call->key_length, .recovered = call->recovered, .equal = true};
        *call->open = ++client->batches;
    }
    struct batch *batch = &client->batch[*call->open - 1];
    batch->equal = batch->equal && (!batch->count || batch->amount[0] == call->number);
    batch->id[batch->count] = call->id;
    batch->amount[batch->count++] = call->number;
}

/* --- the interface --- */

static const struct { const char *name; uint8_t numbers; bool reads; } functions[SL_STORE_OPERATIONS] = {
    [SL_STORE_ADD] = {"add", 1, false},          [SL_STORE_READ] = {"read", 0, true},
    [SL_STORE_SET] = {"set", 1, false},          [SL_STORE_MINIMUM] = {"minimum", 1, false},
    [SL_STORE_MAXIMUM] = {"maximum", 1, false},  [SL_STORE_COMPARE] = {"compare", 2, false},
    [SL_STORE_CUSTOM] = {NULL, 2, false},        [SL_STORE_PUT] = {"put", 0, false},
    [SL_STORE_GET] = {"get", 0, true},           [SL_STORE_FILL] = {"fill", 2, false},
    [SL_STORE_PUSH] = {"push", 1, false},        [SL_STORE_POP] = {"pop", 0, false},
    [SL_STORE_INSERT] = {"insert", 1, false},    [SL_STORE_REMOVE] = {"remove", 1, false},
    [SL_STORE_CONTAINS] = {"contains", 1, true}, [SL_STORE_MAP_ADD] = {"map_add", 2, false},
    [SL_STORE_MAP_READ] = {"map_read", 1, true}, [SL_STORE_MAP_MINIMUM] = {"map_minimum", 2, false},
    [SL_STORE_MAP_MAXIMUM] = {"map_maximum", 2, false}, [SL_STORE_MAP_LEAST] = {"map_least", 1, false},
    [SL_STORE_DROP] = {"drop", 0, false},        [SL_STORE_FORGET] = {"forget", 0, false},
    [SL_STORE_LOAD] = {"load", 0, true},
};

static bool write_operation(struct client *client, const struct sl_store_call *call) {
    char id[8], first[24], second[24], once[64];
    struct word words[4];
    unsigned count = 0;
    const char *name = call->operation == SL_STORE_CUSTOM ? call->name : functions[call->operation].name;
    bool reads = functions[call->operation].reads && !call->id;
    if (!reads) {
        /* a struct has the clock of its last update, whichever instance made it */
        bool of_run = client->options.token && (call->operation == SL_STORE_PUT || (call->operation == SL_STORE_DROP && call->length));
        sluice_write_id(of_run ? client->options.run : client->options.epoch, call->id, id);
        words[count++] = (struct word){id, sizeof id};
    }
    if (client->options.token && call->operation == SL_STORE_DROP)
        name = call->length ? "drop_struct" : "drop_logged";
    if (functions[call->operation].reads && !reads) {   /* a read that the store records */
        snprintf(once, sizeof once, "%s_once", name);
        name = once;
    }
    if (call->operation == SL_STORE_PUT)
        words[count++] = (struct word){call->bytes, call->length};
    if (functions[call->operation].numbers > 0)
        words[count++] = (struct word){first, (size_t)snprintf(first, sizeof first, "%lld", (long long)call->number)};
    if (functions[call->operation].numbers > 1)
        words[count++] = (struct word){second, (size_t)snprintf(second, sizeof second, "%lld", (long long)call->other)};
    bool updates = !functions[call->operation].reads && call->operation != SL_STORE_FORGET;
    return sluice_write_object_call(client, name, call->key, call->key_length, reads, words, count, updates, call->recovered);
}

static enum sl_store_status client_call(struct sl_store *store, const struct sl_store_call *call,
                                        struct sl_store_result *result) {
    struct client *client = client_of(store);
    struct sl_store_result ignored = {0};
    client->counts.operations += call->operation != SL_STORE_FORGET;
    if (call->id) {
        client->last = call->id;
        if (!client->burst_first)
            client->burst_first = call->id;
    }
    if (call->part)
        return sluice_commit_update(client, call,
                                    call->operation == SL_STORE_CUSTOM ? call->name : functions[call->operation].name);
    if (!result && client->options.waits && call->operation != SL_STORE_FORGET)
        result = &ignored;
    if (call->operation == SL_STORE_ADD && !result) {
        combine(client, call);
        return SL_STORE_DONE;
    }
    if (*call->open)   /* additions before this operation precede it (CHC, 3.3.3) */
        close_batch(client, &client->batch[*call->open - 1]);
    client->asks = result != NULL;
    if (!write_operation(client, call))
        return SL_STORE_FAILED;
    if (!result)
        return SL_STORE_DONE;
    client->connection.reply_most = call->operation == SL_STORE_LOAD ? LOAD_MOST : 0;
    enum sl_store_status status = sluice_await(client, result);
    client->connection.reply_most = 0;
    return status;
}

enum sl_store_status sluice_await(struct client *client, struct sl_store_result *result) {
    client->counts.waits++;
    client->status = SL_STORE_FAILED;
    client->result = result;
    client->awaited = client->store.made;
    sluice_wait_for(client, client->store.made);
    client->awaited = 0;   /* a reply after the time-out has no effect here */
    if (client->options.token && client->status == SL_STORE_FAILED)   /* its state is that of the store: it lacks an update */
        sluice_note_fault(client, "the store did not reply in time", client->connection.why[0] ? client->connection.why : "time-out");
    return client->status;
}

static void client_flush(struct sl_store *store) {
    struct client *client = client_of(store);
    close_batches(client);
    client->burst_first = 0;
    sluice_exchange(client);
}

static void client_finish(struct sl_store *store) {
    struct client *client = client_of(store);
    close_batches(client);
    client->burst_first = 0;
    client->impatient = false;
    if (sluice_wait_for(client, client->store.made))
        return;
    const char *why = client->connection.why[0] ? client->connection.why : "time-out";
    for (uint64_t n = client->store.acknowledged; n < client->store.made; n++) {
        const struct call *call = &client->call[n & (client->calls - 1)];
        sluice_give_up(client, call->updates, call->recovered, "the store did not acknowledge all updates", why);
    }
    client->store.acknowledged = client->replied = client->store.made;
    client->first = client->taken = client->sent = client->logged = client->end = 0;
    sluice_disconnect(&client->connection);
}

static const struct sl_store_counts *client_counts(struct sl_store *store) { return &client_of(store)->counts; }

static const char *client_fault(struct sl_store *store) { return client_of(store)->fault; }

struct sl_store *sluice_client_open(const struct sluice_client_options *options, char *why, uint32_t size) {
    struct client *client = calloc(1, sizeof *client);
    snprintf(why, size, "no memory");
    if (!client)
        return NULL;
    client->options = *options;
    client->connection.fd = -1;
    client->connection.pairs = options->disk;
    client->store = (struct sl_store){
        .call = client_call, .flush = client_flush, .finish = client_finish, .counts = client_counts, .fault = client_fault,
        .caches = options->caches, .instance = client->options.instance};
    client->calls = CALLS_LEAST;
    client->call = malloc(CALLS_LEAST * sizeof *client->call);
    client->batch = malloc(BATCHES * sizeof *client->batch);
    client->room = 1 << 16;
    client->text = malloc(client->room);
    bool made = client->call && client->batch && client->text;
    client->callbacks.fd = -1;
    made = made && (!options->token || sluice_instance_open(client));
    for (uint64_t begin = sluice_milliseconds(); made; sluice_wait(&client->connection, false, RETRY)) {
        if (sluice_reach(client, options->timeout))
            return &client->store;
        bool soon = options->nodes || sluice_logs(client);
        if (!soon || sluice_milliseconds() - begin > options->timeout)   /* another node may have the keys soon */
            break;
    }
    if (made)
        snprintf(why, size, "%s", client->connection.why);
    sluice_client_close(&client->store);
    return NULL;
}

void sluice_client_close(struct sl_store *store) {
    struct client *client = client_of(store);
    sluice_disconnect(&client->connection);
    sluice_instance_close(client);
    free(client->text);
    free(client->call);
    free(client->batch);
    free(client);
}
