/* The write-ahead log of an instance (CHC, 3.4.4): the calls that change the store, from which the controller recovers one
 * that has lost what it acknowledged (sluice/state/recovery.py).
 *
 * The file has the calls as they are transmitted; each is there before. It also has, for each call for whose result a
 * packet waited, which calls of all processes the store had performed by then (TS): `*4 TS process number counts`. The
 * controller removes what a checkpoint of the store has. */
#include "calls.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

size_t sluice_counts_key(const struct client *client, char *to, size_t size) {
    return (size_t)snprintf(to, size, "sluice-ts:{%.200s}%u", client->options.function, client->options.run);
}

/* Appends to the log. What is not there cannot be recovered: the store's count of calls says so then. */
static void append(struct client *client, const char *bytes, size_t size) {
    while (size && client->options.log >= 0) {
        ssize_t written = write(client->options.log, bytes, size);
        if (written <= 0) {
            client->counts.unlogged++;
            return;
        }
        bytes += written;
        size -= (size_t)written;
    }
}

void sluice_log_calls(struct client *client) {
    if (sluice_logs(client) && client->logged < client->end)
        append(client, client->text + client->logged, client->end - client->logged);
    client->logged = client->end;
}

redisReply sluice_log_reply(struct client *client, const struct call *call, const redisReply *reply) {
    redisReply alone = *reply;
    const char *end = reply->type == REDIS_REPLY_STRING && reply->len > 0 && reply->str[0] == '@'
                          ? memchr(reply->str, ';', (size_t)reply->len)
                          : NULL;
    if (!end || !call->number)
        return alone;
    char text[1 << 14], number[24];
    int digits = snprintf(number, sizeof number, "%llu", (unsigned long long)call->number);
    int counts = (int)(end - reply->str) - 1;
    int size = snprintf(text, sizeof text, "*4\r\n$2\r\nTS\r\n$%zu\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%.*s\r\n",
                        strlen(client->options.token), client->options.token, digits, number, counts, counts,
                        reply->str + 1);
    if (size > 0 && (size_t)size < sizeof text)
        append(client, text, (size_t)size);
    else
        client->counts.unlogged++;
    alone.str += end + 1 - reply->str;
    alone.len -= (__typeof__(alone.len))(end + 1 - reply->str);
    return alone;
}

bool sluice_is_whole(struct client *client, uint32_t timeout) {
    static const char *info[] = {"INFO", "server"};
    char key[256];
    const char *get[] = {"GET", key};
    snprintf(key, sizeof key, "sluice-whole:{%.200s}%u", client->options.function, client->options.run);
    redisReply *server = sluice_command(&client->connection, timeout, 2, info);
    redisReply *whole = server ? sluice_command(&client->connection, timeout, 2, get) : NULL;
    const char *id = server && server->type == REDIS_REPLY_STRING ? strstr(server->str, "run_id:") : NULL;
    bool same = id && whole && whole->type == REDIS_REPLY_STRING && whole->len > 0 &&
                strncmp(id + strlen("run_id:"), whole->str, (size_t)whole->len) == 0;
    freeReplyObject(server);
    freeReplyObject(whole);
    if (!same && client->connection.fd >= 0) {
        snprintf(client->connection.why, sizeof client->connection.why, "what it lost is not recovered yet");
        sluice_disconnect(&client->connection);
    }
    return same;
}
