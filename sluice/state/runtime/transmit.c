/* Transmission of calls: connections with the server that has the keys, and repeated transmission on a new one. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sluice_reach(struct client *client, uint32_t timeout) {
    uint32_t most = client->options.nodes && timeout > NODE ? NODE : timeout;
    for (unsigned hops = 0; hops < HOPS; hops++) {
        if (!sluice_connect(&client->connection, &client->options, most))
            break;
        enum sluice_node node = sluice_probe(client, most);
        if (node == SLUICE_NODE_READY && sluice_logs(client) && !sluice_is_whole(client, most))
            break;
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
    if (client->attempt < client->pause || !sluice_reach(client, timeout))
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

bool sluice_grow(struct client *client, size_t bytes) {
    if (client->end + bytes > client->room && client->first) {
        memmove(client->text, client->text + client->first, client->end - client->first);
        client->sent -= client->first;
        client->logged -= client->first;
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

/* The calls so far are acknowledged once the replicas have them, or disks do. Calls since the last WAIT are none to wait
 * for. */
static void cover(struct client *client) {
    char text[80], number[12], most[12];
    bool disk = client->options.disk;
    if ((!client->options.replicas && !disk) || client->covered == client->store.made ||
        (client->unreplicated && sluice_milliseconds() - client->unreplicated < REPLICATION_PAUSE) || !sluice_grow(client, sizeof text))
        return;
    int digits = snprintf(number, sizeof number, "%u", client->options.replicas);
    int places = snprintf(most, sizeof most, "%u", disk ? FSYNC : REPLICATION);
    int size = snprintf(text, sizeof text, "%s$%d\r\n%s\r\n$%d\r\n%s\r\n",
                        disk ? "*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n" : "*3\r\n$4\r\nWAIT\r\n", digits, number, places, most);
    memcpy(client->text + client->end, text, (size_t)size);
    client->end += (size_t)size;
    client->call[client->store.made++ & (client->calls - 1)] = (struct call){
        .bytes = (uint32_t)size, .waits = true,
        .floor = client->burst_first ? client->burst_first : client->last + 1};
    client->covered = client->store.made;
}

void sluice_transmit(struct client *client) {
    cover(client);
    sluice_log_calls(client);
    client->sent += sluice_send(&client->connection, client->text + client->sent, client->end - client->sent);
}

static bool wait_for(struct client *client, uint64_t calls) {
    uint64_t begin = sluice_milliseconds();
    unsigned left = client->options.token ? PATIENCE : 0;   /* an instance has no state but the store's: it waits */
    while (client->store.acknowledged < calls) {
        if (client->connection.fd < 0 && !reconnect(client, client->impatient ? RETRY : client->options.timeout))
            sluice_wait(&client->connection, false, client->impatient ? 0 : RETRY);
        sluice_transmit(client);
        if (client->connection.fd >= 0) {
            sluice_take_replies(client);
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

bool sluice_wait_for(struct client *client, uint64_t calls) {
    const struct sl_store_chain *chain = client->store.chain;
    if (client->store.acknowledged >= calls)
        return true;
    bool before = chain && chain->waits(true);
    bool acknowledged = wait_for(client, calls);
    if (chain)
        chain->waits(before);
    return acknowledged;
}

void sluice_exchange(struct client *client) {
    if (client->store.acknowledged == client->store.made)
        return;
    if (client->connection.fd < 0) {
        if (sluice_milliseconds() - client->attempt < RETRY_IDLE || !reconnect(client, RETRY))
            return;
    }
    sluice_transmit(client);
    sluice_take_replies(client);
    if (client->connection.fd >= 0 && client->store.acknowledged < client->store.made &&
        sluice_milliseconds() - client->progress > client->options.timeout) {
        snprintf(client->connection.why, sizeof client->connection.why, "no reply for %u ms", client->options.timeout);
        sluice_disconnect(&client->connection);   /* and retransmit */
    }
}
