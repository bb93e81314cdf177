/* Nodes of a Valkey Cluster. All keys of a client lie in one slot, as their hash tag is the name of its function: it is
 * connected with the master of that slot, and follows it when the slot moves, or when the master fails.
 *
 * Before calls are transmitted on a new connection, the node is queried whether it serves the slot. Else it could refuse the
 * first calls, and perform the next ones, as it becomes master meanwhile. */
#define _GNU_SOURCE
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_node(struct client *client, const char *host, size_t length, const char *port) {
    if (length && length < sizeof client->host) {   /* without a host, it is that of the node itself */
        memcpy(client->host, host, length);
        client->host[length] = 0;
    }
    snprintf(client->port, sizeof client->port, "%u", (unsigned)strtoul(port, NULL, 10) & 65535);
    client->options.host = client->host;
    client->options.port = client->port;
}

void sluice_next_node(struct client *client) {
    const char *at = client->options.nodes;
    uint32_t count = 1;
    if (!at)
        return;
    for (const char *comma = at; (comma = strchr(comma, ',')); comma++)
        count++;
    client->node = (client->node + 1) % count;
    for (uint32_t i = 0; i < client->node; i++)
        at = strchr(at, ',') + 1;
    size_t length = strcspn(at, ",");
    const char *colon = memrchr(at, ':', length);
    if (colon)
        set_node(client, at, (size_t)(colon - at), colon + 1);
}

static bool begins(const redisReply *reply, const char *word) {
    size_t length = strlen(word);
    return (size_t)reply->len > length && memcmp(reply->str, word, length) == 0 && reply->str[length] == ' ';
}

enum sluice_node sluice_node_of(struct client *client, const redisReply *reply) {
    /* ASK: while a slot is migrated key by key, an update with several keys waits until all of them are at one node. */
    static const char *later[] = {"ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"};
    if (reply->type != REDIS_REPLY_ERROR)
        return SLUICE_NODE_READY;
    if (client->options.nodes && begins(reply, "MOVED")) {
        const char *node = strchr(reply->str + strlen("MOVED "), ' '), *colon = node ? strrchr(node, ':') : NULL;
        if (!colon)
            return SLUICE_NODE_LATER;
        set_node(client, node + 1, (size_t)(colon - node - 1), colon + 1);
        return SLUICE_NODE_MOVED;
    }
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (begins(reply, later[i]))
            return SLUICE_NODE_LATER;
    return SLUICE_NODE_READY;
}

enum sluice_node sluice_probe(struct client *client, uint32_t timeout) {
    char name[128], key[256];
    const char *words[] = {"FCALL_RO", name, "1", key};
    if (!client->options.nodes)
        return SLUICE_NODE_READY;
    snprintf(name, sizeof name, "%s_sync", client->options.prefix);
    snprintf(key, sizeof key, "sluice:{%.200s}", client->options.function);
    redisReply *reply = sluice_command(&client->connection, timeout, 4, words);
    enum sluice_node found = reply ? sluice_node_of(client, reply) : SLUICE_NODE_LATER;
    if (reply)
        freeReplyObject(reply);
    return found;
}
