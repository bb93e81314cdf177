/* The write-ahead log of an instance (CHC, 3.4.4): the calls that change the store, from which the controller recovers one
 * that has lost acknowledged updates (sluice/state/recovery.py).
 *
 * The file has the calls as they are transmitted; each is there before. It also has, for each call for whose result a
 * packet waited, which calls of all processes the store had performed by then (TS): `*4 TS process number counts`. The
 * controller removes the calls that a checkpoint of the store has. */
#include "calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

size_t sluice_counts_key(const struct client *client, char *to, size_t size) {
    return (size_t)snprintf(to, size, "sluice-ts:{%.200s}%u", client->options.function, client->options.run);
}

/* Appends a record, or calls, in pieces, which it changes. False where not all of it is written (a full disk): the file then
 * ends as before, as a record that is not whole would hide all that follow. The store's count of calls shows the loss. */
static bool append(struct client *client, struct iovec *piece, int count) {
    int log = client->options.log;
    off_t written = 0;
    while (count && log >= 0) {
        ssize_t part = writev(log, piece, count);
        if (part <= 0)
            break;
        written += part;
        for (; count && (size_t)part >= piece->iov_len; piece++, count--)
            part -= (ssize_t)piece->iov_len;
        if (count) {
            piece->iov_base = (char *)piece->iov_base + part;
            piece->iov_len -= (size_t)part;
        }
    }
    struct stat now;
    if (count && written && (fstat(log, &now) || ftruncate(log, now.st_size - written)))
        sluice_note_fault(client, "its write-ahead log cannot be cut", strerror(errno));
    return !count;
}

/* Calls that were written, and are not in the log. */
static uint64_t calls_to_log(const struct client *client) {
    uint64_t n = client->store.made;
    for (size_t at = client->end; at > client->logged && n > client->store.acknowledged;)
        at -= client->call[--n & (client->calls - 1)].bytes;
    return client->store.made - n;
}

void sluice_log_calls(struct client *client) {
    if (sluice_logs(client) && client->logged < client->end) {
        struct iovec piece = {client->text + client->logged, client->end - client->logged};
        if (!append(client, &piece, 1))
            client->counts.unlogged += calls_to_log(client);
    }
    client->logged = client->end;
}

redisReply sluice_log_reply(struct client *client, const struct call *call, const redisReply *reply) {
    redisReply alone = *reply;
    const char *end = reply->type == REDIS_REPLY_STRING && reply->len > 0 && reply->str[0] == '@'
                          ? memchr(reply->str, ';', (size_t)reply->len)
                          : NULL;
    if (!end || !call->number)
        return alone;
    char head[512], number[24];
    const char *token = client->options.token;
    size_t counts = (size_t)(end - reply->str) - 1;
    int digits = snprintf(number, sizeof number, "%llu", (unsigned long long)call->number);
    int size = snprintf(head, sizeof head, "*4\r\n$2\r\nTS\r\n$%zu\r\n%s\r\n$%d\r\n%s\r\n$%zu\r\n", strlen(token), token,
                        digits, number, counts);
    struct iovec piece[] = {{head, (size_t)size}, {reply->str + 1, counts}, {"\r\n", 2}};
    if (size < 0 || (size_t)size >= sizeof head || !append(client, piece, 3))
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
