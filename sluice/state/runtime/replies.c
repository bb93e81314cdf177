/* Replies of the store: the acknowledged calls, the result that a packet waits for, and losses. */
#include "calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- faults --- */

void sluice_note_fault(struct client *client, const char *what, const char *why) {
    if (!client->fault[0])
        snprintf(client->fault, sizeof client->fault, "%s (%s): its state is older than the packets that left", what, why);
}

void sluice_give_up(struct client *client, uint64_t updates, bool recovered, const char *what, const char *why) {
    if (recovered) {
        client->counts.lost += updates;
        if (updates)
            sluice_note_fault(client, what, why);
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

/* Do as many replicas and disks have the calls, by the reply to WAIT or WAITAOF, as the options say? */
static bool is_safe(const struct client *client, const redisReply *reply) {
    if (!client->options.disk)
        return reply->type == REDIS_REPLY_INTEGER && reply->integer >= client->options.replicas;
    bool pair = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_INTEGER &&
                reply->element[1]->type == REDIS_REPLY_INTEGER;
    return pair && reply->element[0]->integer >= 1 && reply->element[1]->integer >= client->options.replicas;
}

/* Handles a reply to the first call that has none. */
static void take_reply(struct client *client, const redisReply *reply) {
    const struct call *call = &client->call[client->replied & (client->calls - 1)];
    redisReply alone = sluice_log_reply(client, call, reply);
    reply = &alone;
    bool awaited = client->awaited == client->replied + 1;
    client->taken += call->bytes;
    client->replied++;
    client->impatient = false;
    if (call->waits) {
        if (!is_safe(client, reply)) {
            client->counts.unreplicated++;   /* packets go on with one copy, or none on a disk: that may last long */
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
        sluice_note_fault(client, "another instance has taken the place of this one", reply->str + 1);
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

/* Another node has the keys, or none has them now: unacknowledged calls are transmitted again. */
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

void sluice_take_replies(struct client *client) {
    uint64_t before = client->replied;
    sluice_receive(&client->connection);
    redisReply *reply;
    while ((reply = sluice_reply(&client->connection))) {
        if (!awaits_reply(client)) {
            freeReplyObject(reply);   /* a reply to nothing: later replies cannot be assigned to calls */
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
