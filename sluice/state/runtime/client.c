#include "calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- faults --- */

static void note_fault(struct client *client, const char *what, const char *why) {
    if (!client->fault[0])
        snprintf(client->fault, sizeof client->fault, "%s (%s): its state is older than the packets that left", what, why);
}

void sluice_give_up(struct client *client, uint64_t updates, bool recovered, const char *what, const char *why) {
    if (recovered) {
        client->counts.lost += updates;
        if (updates)
            note_fault(client, what, why);
    } else {
        client->counts.lost_zero += updates;
    }
}

/* --- replies --- */

static bool read_number(const char *text, int64_t *number) {
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return *text && !*end && !errno;
}

/* The status of a reply, and its result. A server function replies with '+' and the result, '-', or '!'. */
static enum sl_store_status read_reply(const redisReply *reply, struct sl_store_result *result) {
    if (reply->type != REDIS_REPLY_STRING || reply->len < 1)
        return SL_STORE_FAILED;
    if (reply->str[0] == '-' && reply->len == 1)
        return SL_STORE_ABSENT;
    if (reply->str[0] == '!' && reply->len == 1)
        return SL_STORE_REFUSED;
    if (reply->str[0] == '=' && reply->len == 1)
        return SL_STORE_DONE;   /* a commit that was applied before */
    if (reply->str[0] != '+')
        return SL_STORE_FAILED;
    if (!result)
        return SL_STORE_DONE;
    if (result->text)
        return (*result->text = strdup(reply->str + 1)) ? SL_STORE_DONE : SL_STORE_FAILED;
    if (result->bytes) {
        if ((size_t)reply->len != result->length + (size_t)1)
            return SL_STORE_FAILED;   /* of another version of the function */
        memcpy(result->bytes, reply->str + 1, result->length);
        return SL_STORE_DONE;
    }
    return read_number(reply->str + 1, &result->number) ? SL_STORE_DONE : SL_STORE_FAILED;
}

/* The calls that have a reply are acknowledged. */
static void acknowledge(struct client *client) {
    client->first = client->taken;
    client->store.acknowledged = client->replied;
}

/* Takes a reply to the first call that has none. */
static void take_reply(struct client *client, const redisReply *reply) {
    const struct call *call = &client->call[client->replied & (client->calls - 1)];
    bool awaited = client->awaited == client->replied + 1;
    client->taken += call->bytes;
    client->replied++;
    client->impatient = false;
    if (call->waits) {
        if (reply->type != REDIS_REPLY_INTEGER || reply->integer < client->options.replicas) {
            client->counts.unreplicated++;   /* packets go on with one copy: the replicas may be away for long */
            client->unreplicated = sluice_milliseconds();
        }
        acknowledge(client);
        return;
    }
    enum sl_store_status status = read_reply(reply, awaited ? client->result : NULL);
    if (reply->type == REDIS_REPLY_STRING && reply->len > 0 && reply->str[0] == '=')
        client->counts.repeated++;
    if (reply->type == REDIS_REPLY_STRING && reply->len > 0 && reply->str[0] == '~') {
        client->counts.not_owner += call->updates;
        note_fault(client, "another instance has taken the place of this one", reply->str + 1);
    } else if (reply->type == REDIS_REPLY_STRING && reply->len > 0 && reply->str[0] == '<') {
        char has[64];
        snprintf(has, sizeof has, "it has the commits up to clock %.20s", reply->str + 1);
        sluice_give_up(client, call->updates ? call->updates : 1, true, "the store lost updates that it had acknowledged", has);
    } else if (status == SL_STORE_FAILED) {
        client->counts.errors++;
        sluice_give_up(client, call->updates, call->recovered, "the store refused an update",
                       reply->type == REDIS_REPLY_ERROR ? reply->str : "a reply that is none of its functions'");
    }
    if (awaited) {
        client->status = status;
        client->awaited = 0;
    } else if (status == SL_STORE_REFUSED) {
        client->counts.refused += call->updates;
    }
    if (client->covered <= client->store.acknowledged)   /* no WAIT follows */
        acknowledge(client);
}

/* Was the first call without a reply transmitted as a whole? */
static bool awaits_reply(const struct client *client) {
    return client->replied < client->store.made &&
           client->call[client->replied & (client->calls - 1)].bytes <= client->sent - client->taken;
}

/* Another node has the keys, or none has them now: what is not acknowledged is transmitted again. */
static bool leave_node(struct client *client, const redisReply *reply) {
    enum sluice_node node = sluice_node_of(client, reply);
    if (node == SLUICE_NODE_READY)
        return false;
    snprintf(client->connection.why, sizeof client->connection.why, "%s", reply->str);
    sluice_disconnect(&client->connection);
    client->attempt = 0;
    client->pause = node == SLUICE_NODE_LATER ? sluice_milliseconds() + RETRY : 0;
    return true;
}

static void take_replies(struct client *client) {
    uint64_t before = client->replied;
    sluice_receive(&client->connection);
    redisReply *reply;
    while ((reply = sluice_reply(&client->connection))) {
        if (!awaits_reply(client)) {
            freeReplyObject(reply);   /* a reply to nothing: what follows cannot be told apart */
            snprintf(client->connection.why, sizeof client->connection.why, "a reply without a call");
            sluice_disconnect(&client->connection);
            return;
        }
        bool left = leave_node(client, reply);
        if (!left)
            take_reply(client, reply);
        freeReplyObject(reply);
        if (left)
            return;
    }
    if (client->replied > before)
        client->progress = sluice_milliseconds();
}

/* --- transmission --- */

/* Connects with the server, or with the node of the cluster that has the keys. */
static bool reach(struct client *client, uint32_t timeout) {
    uint32_t most = client->options.nodes && timeout > NODE ? NODE : timeout;
    for (unsigned hops = 0; hops < HOPS; hops++) {
        if (!sluice_connect(&client->connection, &client->options, most))
            break;
        enum sluice_node node = sluice_probe(client, most);
        if (node == SLUICE_NODE_READY)
            return !client->options.token || sluice_instance_connected(client, timeout);
        snprintf(client->connection.why, sizeof client->connection.why, "no node of the cluster serves '%.100s'",
                 client->options.function);
        sluice_disconnect(&client->connection);
        if (node == SLUICE_NODE_LATER)
            break;
    }
    sluice_next_node(client);
    return false;
}

/* Connects again, and transmits from the first call that is not acknowledged. */
static bool reconnect(struct client *client, uint32_t timeout) {
    client->attempt = sluice_milliseconds();
    if (client->attempt < client->pause || !reach(client, timeout))
        return false;
    client->counts.reconnections++;
    client->replied = client->store.acknowledged;
    size_t at = client->taken = client->first;
    for (uint64_t n = client->store.acknowledged; n < client->store.made && at < client->sent; n++) {
        at += client->call[n & (client->calls - 1)].bytes;
        client->counts.retransmitted++;
    }
    client->sent = client->first;
    client->progress = client->attempt;
    return true;
}

/* Room in memory for so many bytes, and one more call. */
static bool grow(struct client *client, size_t bytes) {
    if (client->end + bytes > client->room && client->first) {
        memmove(client->text, client->text + client->first, client->end - client->first);
        client->sent -= client->first;
        client->taken -= client->first;
        client->end -= client->first;
        client->first = 0;
    }
    if (client->end + bytes > client->room) {
        size_t room = 2 * client->room > client->end + bytes ? 2 * client->room : client->end + bytes;
        char *larger = realloc(client->text, room);
        if (!larger)
            return false;
        client->text = larger;
        client->room = room;
    }
    if (client->store.made - client->store.acknowledged == client->calls) {
        struct call *larger = malloc(2 * (size_t)client->calls * sizeof *larger);
        if (!larger)
            return false;
        for (uint64_t n = client->store.acknowledged; n < client->store.made; n++)
            larger[n & (2 * client->calls - 1)] = client->call[n & (client->calls - 1)];
        free(client->call);
        client->call = larger;
        client->calls *= 2;
    }
    return true;
}

/* The calls so far are acknowledged once the replicas have them. Calls since the last WAIT are none to wait for. */
static void cover(struct client *client) {
    char text[64], number[12], most[12];
    if (!client->options.replicas || client->covered == client->store.made ||
        (client->unreplicated && sluice_milliseconds() - client->unreplicated < REPLICATION_PAUSE) || !grow(client, sizeof text))
        return;
    int digits = snprintf(number, sizeof number, "%u", client->options.replicas);
    int places = snprintf(most, sizeof most, "%u", REPLICATION);
    int size = snprintf(text, sizeof text, "*3\r\n$4\r\nWAIT\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", digits, number, places, most);
    memcpy(client->text + client->end, text, (size_t)size);
    client->end += (size_t)size;
    client->call[client->store.made++ & (client->calls - 1)] = (struct call){
        .bytes = (uint32_t)size, .waits = true,
        .floor = client->burst_first ? client->burst_first : client->last + 1};
    client->covered = client->store.made;
}

static void transmit(struct client *client) {
    cover(client);
    client->sent += sluice_send(&client->connection, client->text + client->sent, client->end - client->sent);
}

bool sluice_wait_for(struct client *client, uint64_t calls) {
    uint64_t begin = sluice_milliseconds();
    unsigned left = client->options.token ? PATIENCE : 0;   /* an instance has no state but the store's: it waits */
    while (client->store.acknowledged < calls) {
        if (client->connection.fd < 0 && !reconnect(client, client->impatient ? RETRY : client->options.timeout))
            sluice_wait(&client->connection, false, client->impatient ? 0 : RETRY);
        transmit(client);
        if (client->connection.fd >= 0) {
            take_replies(client);
            if (client->store.acknowledged >= calls)
                break;
            sluice_wait(&client->connection, client->sent < client->end, client->impatient ? 0 : RETRY);
        }
        bool waits = !client->impatient && sluice_milliseconds() - begin > client->options.timeout && left;
        if (waits) {   /* on another connection */
            snprintf(client->connection.why, sizeof client->connection.why, "no reply for %u ms", client->options.timeout);
            sluice_disconnect(&client->connection);
            begin = sluice_milliseconds();
            left--;
        } else if (client->impatient || sluice_milliseconds() - begin > client->options.timeout) {
            client->impatient = true;
            return false;
        }
    }
    return true;
}

/* --- the text of calls --- */

/* Makes room for so many bytes, and one more call. False without memory, or if as much is not acknowledged in time. */
static bool make_room(struct client *client, size_t bytes) {
    while (client->end - client->first + bytes > client->options.bytes) {
        if (client->store.acknowledged == client->store.made || !sluice_wait_for(client, client->store.acknowledged + 1))
            return false;
    }
    return grow(client, bytes);
}

static void add_bytes(struct client *client, const void *bytes, size_t size) {
    memcpy(client->text + client->end, bytes, size);
    client->end += size;
}

size_t sluice_length(char *to, char sign, size_t number) {
    return (size_t)snprintf(to, 24, "%c%zu\r\n", sign, number);
}

static void add_length(struct client *client, char sign, size_t number) {
    char text[24];
    add_bytes(client, text, sluice_length(text, sign, number));
}

static void add_word(struct client *client, const void *bytes, size_t size) {
    add_length(client, '$', size);
    add_bytes(client, bytes, size);
    add_bytes(client, "\r\n", 2);
}

/* An identifier as the store has it: 8 bytes, of which the first two are the epoch. */
static void write_id(uint32_t epoch, uint64_t id, char *to) {
    id = (id & ((UINT64_C(1) << 48) - 1)) | (uint64_t)epoch << 48;
    for (int i = 0; i < 8; i++)
        to[i] = (char)(id >> (56 - 8 * i));
}

/* Up to which identifier no update will be transmitted again. What an instance may handle again counts as pending. */
static uint64_t settled(const struct client *client) {
    uint64_t next = client->store.acknowledged < client->store.made
                        ? client->call[client->store.acknowledged & (client->calls - 1)].floor
                    : client->burst_first ? client->burst_first
                                          : client->last + 1;
    if (client->options.token && client->store.floor << 8 < next)
        next = client->store.floor << 8;
    return next ? next - 1 : 0;
}

bool sluice_write_call(struct client *client, const struct call_text *text, uint32_t updates, bool recovered) {
    size_t bytes = 256 + strlen(client->options.prefix) + strlen(text->function) + text->more.size + text->more_keys.size;
    for (unsigned i = 0; i < text->keys; i++)
        bytes += text->key[i].size + 32;
    for (unsigned i = 0; i < text->words; i++)
        bytes += text->word[i].size + 32;
    if (!make_room(client, bytes)) {
        sluice_give_up(client, updates, recovered, "the store did not reply in time",
                       client->connection.why[0] ? client->connection.why : "time-out");
        return false;
    }
    size_t begin = client->end;
    char name[128], keys[12];
    int n = snprintf(name, sizeof name, "%s_%s", client->options.prefix, text->function);
    int digits = snprintf(keys, sizeof keys, "%u", text->keys + text->more_keys_count);
    add_length(client, '*', 3 + text->keys + text->more_keys_count + text->words + text->more_words);
    add_word(client, text->reads ? "FCALL_RO" : "FCALL", text->reads ? 8 : 5);
    add_word(client, name, (size_t)n < sizeof name ? (size_t)n : sizeof name - 1);
    add_word(client, keys, (size_t)digits);
    for (unsigned i = 0; i < text->keys; i++)
        add_word(client, text->key[i].bytes, text->key[i].size);
    if (text->more_keys.size)
        add_bytes(client, text->more_keys.at, text->more_keys.size);
    for (unsigned i = 0; i < text->words; i++)
        add_word(client, text->word[i].bytes, text->word[i].size);
    if (text->more.size)
        add_bytes(client, text->more.at, text->more.size);
    if (client->store.acknowledged == client->store.made)
        client->progress = sluice_milliseconds();
    client->call[client->store.made++ & (client->calls - 1)] = (struct call){
        .bytes = (uint32_t)(client->end - begin), .updates = updates, .recovered = recovered,
        .floor = client->burst_first ? client->burst_first : client->last + 1,
    };
    client->counts.requests++;
    return true;
}

/* Writes a call on an object: its key and that of its log, what is settled, and `words`. A function that only reads gets
 * neither log nor what is settled. */
static bool write_call(struct client *client, const char *function, const char *key, uint32_t key_length, bool reads,
                       const struct word *words, unsigned count, uint32_t updates, bool recovered) {
    static const char log[] = "sluice-log";
    enum { PREFIX = sizeof "sluice" - 1 };
    char log_key[sizeof log + SLUICE_KEY_MOST], id[8];
    struct word keys[2] = {{key, key_length}, {log_key, 0}}, all[1 + 4] = {{id, sizeof id}};
    if (key_length > SLUICE_KEY_MOST || count > 4)
        return false;
    memcpy(log_key, log, sizeof log - 1);
    memcpy(log_key + sizeof log - 1, key + PREFIX, key_length - PREFIX);
    keys[1].size = sizeof log - 1 + key_length - PREFIX;
    write_id(client->options.epoch, settled(client), id);
    for (unsigned i = 0; i < count; i++)
        all[i + 1] = words[i];
    struct call_text text = {.function = function, .reads = reads, .key = keys, .word = reads ? words : all,
                             .keys = reads ? 1 : 2, .words = reads ? count : count + 1};
    return sluice_write_call(client, &text, updates, recovered);
}

/* --- additions that are combined --- */

static void close_batch(struct client *client, struct batch *batch) {
    char ids[8 * BATCH_UPDATES], amounts[2 + 21 * BATCH_UPDATES] = "=";   /* 20 digits with a sign, and a comma */
    size_t length = batch->equal ? 0 : 1;
    if (!batch->count)
        return;
    for (uint32_t i = 0; i < batch->count; i++) {
        write_id(client->options.epoch, batch->id[i], ids + 8 * i);
        if (!i || !batch->equal)
            length += (size_t)snprintf(amounts + length, sizeof amounts - length, i ? ",%lld" : "%lld",
                                       (long long)batch->amount[i]);
    }
    struct word words[] = {{ids, 8 * (size_t)batch->count}, {amounts, length}};
    write_call(client, "add", batch->key, batch->key_length, false, words, 2, batch->count, batch->recovered);
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
        write_id(of_run ? client->options.run : client->options.epoch, call->id, id);
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
    return write_call(client, name, call->key, call->key_length, reads, words, count, updates, call->recovered);
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
    if (*call->open)   /* additions before this operation come first (CHC, 3.3.3) */
        close_batch(client, &client->batch[*call->open - 1]);
    if (!write_operation(client, call))
        return SL_STORE_FAILED;
    return result ? sluice_await(client, result) : SL_STORE_DONE;
}

enum sl_store_status sluice_await(struct client *client, struct sl_store_result *result) {
    client->counts.waits++;
    client->status = SL_STORE_FAILED;
    client->result = result;
    client->awaited = client->store.made;
    sluice_wait_for(client, client->store.made);
    client->awaited = 0;   /* a reply that comes too late has no effect here */
    if (client->options.token && client->status == SL_STORE_FAILED)   /* its state is that of the store: it lacks an update */
        note_fault(client, "the store did not reply in time", client->connection.why[0] ? client->connection.why : "time-out");
    return client->status;
}

static void client_flush(struct sl_store *store) {
    struct client *client = client_of(store);
    close_batches(client);
    client->burst_first = 0;
    sluice_exchange(client);
}

void sluice_exchange(struct client *client) {
    if (client->store.acknowledged == client->store.made)
        return;
    if (client->connection.fd < 0) {
        if (sluice_milliseconds() - client->attempt < RETRY_IDLE || !reconnect(client, RETRY))
            return;
    }
    transmit(client);
    take_replies(client);
    if (client->connection.fd >= 0 && client->store.acknowledged < client->store.made &&
        sluice_milliseconds() - client->progress > client->options.timeout) {
        snprintf(client->connection.why, sizeof client->connection.why, "no reply for %u ms", client->options.timeout);
        sluice_disconnect(&client->connection);   /* and retransmit */
    }
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
    client->first = client->taken = client->sent = client->end = 0;
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
        if (reach(client, options->timeout))
            return &client->store;
        if (!options->nodes || sluice_milliseconds() - begin > options->timeout)   /* another node may have the keys soon */
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
