/* The client of one instance among several of a function (CHC, 3.3.3 and 3.4): the updates of a batch of packets
 * are one commit, which the store applies as a whole, once, and only for the instance that owns the changed objects; parts of
 * the traffic are acquired and released; and the store calls back when a cached object has changed.
 *
 * Callbacks are those of CLIENT TRACKING, for the keys of watched objects and of owners (BCAST: else the store would
 * remember every key that an operation reads). They arrive on a second connection (REDIRECT), as replies of the first have
 * no arrays, and the protocol RESP3 needs hiredis 1. */
#include "calls.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLUICE_COMMIT_MOST = 640 << 20 };  /* bytes of the updates of a commit */
enum { TIMERS_MOST = 640 << 20 };         /* bytes of the timers and states of PARTS_AT_ONCE parts */
enum { PARTS_AT_ONCE = 16 };
enum { PREFIXES = 32 };                   /* of keys with callbacks: of owners, and of declarations of watched objects */

/* --- commits --- */

static bool text_room(struct text *text, size_t bytes) {
    size_t room = text->room ? text->room : 1 << 14;
    while (room < text->size + bytes)
        room *= 2;
    if (text->size + bytes > SLUICE_COMMIT_MOST)
        return false;
    if (room == text->room)
        return true;
    char *larger = realloc(text->at, room);
    if (!larger)
        return false;
    text->at = larger;
    text->room = room;
    return true;
}

/* Room for an update: its key, and other words of so many bytes. */
static bool commit_room(struct client *client, size_t key, size_t words) {
    return text_room(&client->commit_keys, 32 + key) && text_room(&client->commit, 256 + words);
}

static void text_word(struct text *text, const void *bytes, size_t size) {
    text->size += sluice_length(text->at + text->size, '$', size);
    if (size)
        memcpy(text->at + text->size, bytes, size);
    memcpy(text->at + text->size + size, "\r\n", 2);
    text->size += size + 2;
}

static void commit_word(struct client *client, const void *bytes, size_t size) { text_word(&client->commit, bytes, size); }

/* The clock of an update, and then the bytes of a struct, as a put without a commit stores them. */
static void commit_struct(struct client *client, uint64_t id, const void *bytes, size_t length) {
    char head[8 + SL_STORE_BYTES_MOST];
    sluice_write_id(client->options.run, id, head);
    if (length)
        memcpy(head + 8, bytes, length);
    commit_word(client, head, 8 + length);
    commit_word(client, "", 0);
}

enum sl_store_status sluice_commit_update(struct client *client, const struct sl_store_call *call, const char *function) {
    bool is_struct = call->operation == SL_STORE_PUT && call->length <= SL_STORE_BYTES_MOST;
    bool drops = call->operation == SL_STORE_DROP && call->length && call->shared;
    if (drops)
        function = "drop_struct";
    if (!commit_room(client, call->key_length, strlen(function) + (is_struct ? call->length : 0))) {
        sluice_give_up(client, 1, call->recovered, "a batch has more updates than a commit", "no room");
        client->commit_lost = true;
        return SL_STORE_FAILED;
    }
    commit_word(client, function, strlen(function));
    text_word(&client->commit_keys, call->key, call->key_length);
    if (is_struct || drops) {
        commit_struct(client, call->id, call->bytes, is_struct ? call->length : 0);
    } else {
        char number[24];
        commit_word(client, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)call->number));
        commit_word(client, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)call->other));
    }
    client->commit_updates++;
    client->commit_recovered |= call->recovered;
    client->touched[(call->part - 1) >> 3] |= (uint8_t)(1 << ((call->part - 1) & 7));
    return SL_STORE_DONE;
}

/* The key with the instance that owns a part of the traffic. */
static size_t owner_key(const struct client *client, uint32_t part, char *to, size_t size) {
    return (size_t)snprintf(to, size, "sluice-owner:{%.200s}%u", client->options.function, part);
}

/* The key with the commits of the processes of this instance. */
static size_t done_key(const struct client *client, char *to, size_t size) {
    return (size_t)snprintf(to, size, "sluice-done:{%.100s}%s:%u", client->options.function, client->options.instance,
                            client->options.run);
}

static void instance_commit(struct sl_store *store, uint64_t clock) {
    struct client *client = client_of(store);
    store->flush(store);
    if (client->commit_updates || store->rows != client->rows || (store->marks && clock > client->commit_clock)) {
        static char keys[1 + SLUICE_PARTS][256];
        static struct word key[1 + SLUICE_PARTS];
        unsigned count = 1;
        key[0] = (struct word){keys[0], done_key(client, keys[0], sizeof keys[0])};
        for (uint32_t part = 0; part < SLUICE_PARTS; part++)
            if (client->touched[part >> 3] >> (part & 7) & 1) {
                key[count] = (struct word){keys[count], owner_key(client, part, keys[count], sizeof keys[count])};
                count++;
            }
        char number[24], before[24], rows[24], owners[12];
        struct word word[] = {
            {client->options.token, strlen(client->options.token)},
            {number, (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)clock)},
            {before, (size_t)snprintf(before, sizeof before, "%llu", (unsigned long long)client->commit_clock)},
            {rows, (size_t)snprintf(rows, sizeof rows, "%llu", (unsigned long long)store->rows)},
            {owners, (size_t)snprintf(owners, sizeof owners, "%u", count - 1)}};
        struct call_text text = {.function = "commit", .key = key, .word = word, .keys = count, .words = 5,
                                 .more_keys = client->commit_keys, .more_keys_count = client->commit_updates,
                                 .more = client->commit, .more_words = 3 * client->commit_updates};
        sluice_write_call(client, &text, client->commit_updates, client->commit_recovered);
        client->rows = store->rows;
        client->commit_clock = clock;
        client->commit.size = client->commit_keys.size = 0;
        client->commit_updates = 0;
        client->commit_recovered = false;
        memset(client->touched, 0, sizeof client->touched);
    }
    store->marks = false;
    sluice_exchange(client);
}

/* --- parts of the traffic --- */

/* The prefix and the suffix of the keys of parts. */
struct part_keys { const char *prefix, *suffix; };

/* Writes a call of a function with the key of each of these parts, after the key of commits, if `done`; and words. */
static bool write_parts(struct client *client, const char *function, bool reads, bool done, struct part_keys keys_of,
                        const uint8_t *parts, const struct word *words, unsigned count) {
    static char keys[1 + SLUICE_PARTS][256];
    static struct word key[1 + SLUICE_PARTS];
    unsigned n = 0;
    if (done)
        key[n++] = (struct word){keys[0], done_key(client, keys[0], sizeof keys[0])};
    for (uint32_t part = 0; part < SLUICE_PARTS; part++)
        if (parts[part >> 3] >> (part & 7) & 1) {
            int size = snprintf(keys[n], sizeof keys[n], "%s:{%.200s}%u%s", keys_of.prefix, client->options.function, part,
                                keys_of.suffix);
            key[n] = (struct word){keys[n], (size_t)size};
            n++;
        }
    struct call_text text = {.function = function, .reads = reads, .key = key, .word = words, .keys = n, .words = count};
    return sluice_write_call(client, &text, 0, true);
}

static const struct part_keys owners = {"sluice-owner", ""};

static bool instance_own(struct sl_store *store, const uint8_t *parts, uint32_t self, uint32_t version) {
    struct client *client = client_of(store);
    uint64_t begin = sluice_milliseconds();
    char number[12], of_table[12];
    struct word words[] = {{client->options.token, strlen(client->options.token)},
                           {number, (size_t)snprintf(number, sizeof number, "%u", self)},
                           {of_table, (size_t)snprintf(of_table, sizeof of_table, "%u", version)}};
    while (sluice_milliseconds() - begin < client->options.timeout) {
        struct sl_store_result all = {0};
        client->asks = true;
        if (!write_parts(client, "own", false, true, owners, parts, words, 3) || sluice_await(client, &all) != SL_STORE_DONE)
            return false;
        if (!all.number) {
            store->poll(store, 20);   /* the store calls back when a part is released */
            continue;
        }
        for (uint32_t i = 0; i < SLUICE_PARTS / 8; i++)
            store->owned[i] |= parts[i];
        return true;
    }
    return false;
}

static void instance_release(struct sl_store *store, const uint8_t *parts, const uint8_t *owner) {
    struct client *client = client_of(store);
    static char number[SLUICE_PARTS][4];
    static struct word words[1 + SLUICE_PARTS];
    unsigned count = 1;
    words[0] = (struct word){client->options.token, strlen(client->options.token)};
    for (uint32_t part = 0; part < SLUICE_PARTS; part++)
        if (parts[part >> 3] >> (part & 7) & 1) {
            words[count] = (struct word){number[part], (size_t)snprintf(number[part], sizeof number[part], "%u", owner[part])};
            count++;
        }
    write_parts(client, "release", false, true, owners, parts, words, count);
    for (uint32_t i = 0; i < SLUICE_PARTS / 8; i++)
        store->owned[i] &= (uint8_t)~parts[i];
}

/* The initial state of this process: a bit for each part, and the version of the table. */
static bool read_owned(struct client *client) {
    uint8_t all[SLUICE_PARTS / 8];
    struct word word[] = {{client->options.token, strlen(client->options.token)}};
    char *bits = NULL;
    struct sl_store_result result = {.text = &bits};
    memset(all, 0xff, sizeof all);
    bool read = write_parts(client, "owned", true, true, owners, all, word, 1) &&
                sluice_await(client, &result) == SL_STORE_DONE && strlen(bits) > SLUICE_PARTS;
    for (uint32_t part = 0; read && part < SLUICE_PARTS; part++)
        client->store.owned[part >> 3] |= (uint8_t)((bits[part] == '1') << (part & 7));
    if (read)
        client->store.version = (uint32_t)strtoul(bits + SLUICE_PARTS, NULL, 10);
    free(bits);
    return read;
}

/* --- timers --- */

static void instance_set_timers(struct sl_store *store, uint32_t part, const char *flow, const char *timers) {
    struct client *client = client_of(store);
    char key[256];
    size_t length = (size_t)snprintf(key, sizeof key, "sluice-timers:{%.200s}%u:%u", client->options.function, part,
                                     client->options.run);
    if (!commit_room(client, length, strlen(flow) + strlen(timers))) {
        sluice_give_up(client, 1, true, "a batch has more timers than a commit", "no room");
        client->commit_lost = true;
        return;
    }
    commit_word(client, "timers", strlen("timers"));
    text_word(&client->commit_keys, key, length);
    commit_word(client, flow, strlen(flow));
    commit_word(client, timers, strlen(timers));
    client->commit_updates++;
    client->commit_recovered = true;
    client->touched[part >> 3] |= (uint8_t)(1 << (part & 7));
}

static char *instance_timers(struct sl_store *store, const uint8_t *parts) {
    static const uint8_t none[PARTS_AT_ONCE / 8];
    struct client *client = client_of(store);
    char suffix[24], *all = calloc(1, 1);
    size_t size = 0;
    struct part_keys keys = {"sluice-timers", suffix};
    snprintf(suffix, sizeof suffix, ":%u", client->options.run);
    for (uint32_t first = 0; all && first < SLUICE_PARTS / 8; first += sizeof none) {   /* a reply has those of some parts */
        uint8_t some[SLUICE_PARTS / 8] = {0};
        char *found = NULL, *larger = NULL;
        struct sl_store_result result = {.text = &found};
        if (!memcmp(parts + first, none, sizeof none))
            continue;
        memcpy(some + first, parts + first, sizeof none);
        client->connection.reply_most = TIMERS_MOST;
        if (write_parts(client, "timers_of", true, false, keys, some, NULL, 0) &&
            sluice_await(client, &result) == SL_STORE_DONE && (larger = realloc(all, size + strlen(found) + 1)))
            size += (size_t)sprintf(larger + size, "%s", found);
        client->connection.reply_most = 0;
        free(found);
        if (!larger)
            free(all);
        all = larger;
    }
    return all;
}

/* --- callbacks --- */

static void take_callbacks(struct client *client) {
    redisReply *reply;
    sluice_receive(&client->callbacks);
    while ((reply = sluice_reply(&client->callbacks))) {
        const redisReply *keys = reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 ? reply->element[2] : NULL;
        client->counts.callbacks += keys && keys->type == REDIS_REPLY_ARRAY ? keys->elements : 0;
        client->store.generation++;
        freeReplyObject(reply);
    }
    if (client->callbacks.fd < 0 && client->connection.fd >= 0) {   /* cached objects may be old: both connect again */
        client->store.generation++;
        snprintf(client->connection.why, sizeof client->connection.why, "its callbacks: %.120s", client->callbacks.why);
        sluice_disconnect(&client->connection);
    }
}

static void instance_poll(struct sl_store *store, uint32_t milliseconds) {
    struct client *client = client_of(store);
    if (milliseconds) {
        struct pollfd wait[2] = {{.fd = client->connection.fd, .events = POLLIN}, {.fd = client->callbacks.fd, .events = POLLIN}};
        sluice_exchange(client);
        poll(wait, 2, (int)milliseconds);
    }
    sluice_exchange(client);
    take_callbacks(client);
}

/* The prefixes of the keys about which the store calls back, as words of the command. Returns how many words. */
static int callback_words(const struct client *client, const char **word, char text[][256]) {
    int count = 0;
    snprintf(text[0], 256, "sluice-owner:{%.200s}", client->options.function);
    word[count++] = "PREFIX";
    word[count++] = text[0];
    for (const char *at = client->options.watched; *at && at[1] && count < 2 * PREFIXES; at = strchr(at + 1, ',')) {
        int length = (int)strcspn(at + 1, ",");
        char *to = text[count / 2];
        if (!length)
            break;
        snprintf(to, 256, "sluice:{%.100s}%.*s:", client->options.function, length > 100 ? 100 : length, at + 1);
        word[count++] = "PREFIX";
        word[count++] = to;
    }
    return count;
}

bool sluice_instance_connected(struct client *client, uint32_t timeout) {
    static const char *id_words[] = {"CLIENT", "ID"}, *subscribe[] = {"SUBSCRIBE", "__redis__:invalidate"};
    char id[24] = "";
    const char *track[7 + 2 * PREFIXES] = {"CLIENT", "TRACKING", "ON", "REDIRECT", id, "BCAST", "NOLOOP"};
    char prefixes[PREFIXES][256];
    int words = 7 + callback_words(client, track + 7, prefixes);
    client->callbacks.arrays = true;
    client->store.generation++;
    bool done = sluice_connect(&client->callbacks, &client->options, timeout);
    redisReply *reply = done ? sluice_command(&client->callbacks, timeout, 2, id_words) : NULL;
    done = reply && reply->type == REDIS_REPLY_INTEGER;
    if (done)
        snprintf(id, sizeof id, "%lld", reply->integer);
    freeReplyObject(reply);
    reply = done ? sluice_command(&client->callbacks, timeout, 2, subscribe) : NULL;
    done = reply && reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    reply = done ? sluice_command(&client->connection, timeout, words, track) : NULL;
    done = reply && reply->type == REDIS_REPLY_STATUS;
    if (!done && client->connection.fd >= 0) {
        snprintf(client->connection.why, sizeof client->connection.why, "it does not call back (CLIENT TRACKING): %.80s",
                 reply && reply->type == REDIS_REPLY_ERROR ? reply->str : client->callbacks.why);
        sluice_disconnect(&client->connection);
    }
    freeReplyObject(reply);
    return done;
}

/* --- */

bool sluice_instance_open(struct client *client) {
    client->store.commit = instance_commit;
    client->store.poll = instance_poll;
    client->store.own = instance_own;
    client->store.release = instance_release;
    client->store.set_timers = instance_set_timers;
    client->store.timers = instance_timers;
    client->store.cached = client->options.cached;
    client->store.watched = client->options.watched;
    client->store.strict = client->options.strict;
    return true;
}

bool sluice_client_begin(struct sl_store *store) { return read_owned(client_of(store)); }

void sluice_instance_close(struct client *client) {
    sluice_disconnect(&client->callbacks);
    free(client->commit.at);
    free(client->commit_keys.at);
}
