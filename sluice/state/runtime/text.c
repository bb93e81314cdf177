/* The text of calls, as the protocol has it. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

/* Makes room for so many bytes, and one more call. False without memory, or if as much is not acknowledged in time. A call that
 * is longer than the bound, as the commit of a large batch, is the only one. */
static bool make_room(struct client *client, size_t bytes) {
    while (client->end - client->first + bytes > client->options.bytes && client->store.acknowledged != client->store.made)
        if (!sluice_wait_for(client, client->store.acknowledged + 1))
            return false;
    return sluice_grow(client, bytes);
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

void sluice_write_id(uint32_t epoch, uint64_t id, char *to) {
    id = (id & ((UINT64_C(1) << 48) - 1)) | (uint64_t)epoch << 48;
    for (int i = 0; i < 8; i++)
        to[i] = (char)(id >> (56 - 8 * i));
}

/* The identifier up to which no update is transmitted again. Updates that an instance may repeat count as pending. */
static uint64_t settled(const struct client *client) {
    uint64_t next = client->store.acknowledged < client->store.made
                        ? client->call[client->store.acknowledged & (client->calls - 1)].floor
                    : client->burst_first ? client->burst_first
                                          : client->last + 1;
    if (client->options.token && client->store.floor << 8 < next)
        next = client->store.floor << 8;
    return next ? next - 1 : 0;
}

/* Performed by the function `logged`, which counts the calls of each process. */
static void add_counted(struct client *client, const struct call_text *text) {
    char number[24];
    int digits = snprintf(number, sizeof number, "%llu", (unsigned long long)++client->numbers);
    add_word(client, client->options.token, strlen(client->options.token));
    add_word(client, number, (size_t)digits);
    add_word(client, text->function, strlen(text->function));
    add_word(client, "t", client->asks);
}

bool sluice_write_call(struct client *client, const struct call_text *text, uint32_t updates, bool recovered) {
    bool counted = sluice_logs(client) && !text->reads;
    size_t bytes = 1024 + strlen(client->options.prefix) + strlen(text->function) + text->more.size + text->more_keys.size;
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
    char name[128], keys[12], counts[256];
    unsigned of_log = counted ? 1 : 0;
    int n = snprintf(name, sizeof name, "%s_%s", client->options.prefix, counted ? "logged" : text->function);
    int digits = snprintf(keys, sizeof keys, "%u", of_log + text->keys + text->more_keys_count);
    add_length(client, '*', 3 + 5 * of_log + text->keys + text->more_keys_count + text->words + text->more_words);
    add_word(client, text->reads ? "FCALL_RO" : "FCALL", text->reads ? 8 : 5);
    add_word(client, name, (size_t)n < sizeof name ? (size_t)n : sizeof name - 1);
    add_word(client, keys, (size_t)digits);
    if (counted)
        add_word(client, counts, sluice_counts_key(client, counts, sizeof counts));
    for (unsigned i = 0; i < text->keys; i++)
        add_word(client, text->key[i].bytes, text->key[i].size);
    if (text->more_keys.size)
        add_bytes(client, text->more_keys.at, text->more_keys.size);
    if (counted)
        add_counted(client, text);
    for (unsigned i = 0; i < text->words; i++)
        add_word(client, text->word[i].bytes, text->word[i].size);
    if (text->more.size)
        add_bytes(client, text->more.at, text->more.size);
    if (client->store.acknowledged == client->store.made)
        client->progress = sluice_milliseconds();
    client->call[client->store.made++ & (client->calls - 1)] = (struct call){
        .bytes = (uint32_t)(client->end - begin), .updates = updates, .recovered = recovered,
        .floor = client->burst_first ? client->burst_first : client->last + 1, .number = counted ? client->numbers : 0,
    };
    client->asks = false;
    client->counts.requests++;
    return true;
}

bool sluice_write_object_call(struct client *client, const char *function, const char *key, uint32_t key_length, bool reads,
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
    sluice_write_id(client->options.epoch, settled(client), id);
    for (unsigned i = 0; i < count; i++)
        all[i + 1] = words[i];
    struct call_text text = {.function = function, .reads = reads, .key = keys, .word = reads ? words : all,
                             .keys = reads ? 1 : 2, .words = reads ? count : count + 1};
    return sluice_write_call(client, &text, updates, recovered);
}
