/* The calls of a client that are not acknowledged, and its connection: shared by client.c and instance.c. */
#ifndef SLUICE_STATE_CALLS_H
#define SLUICE_STATE_CALLS_H

#include "client.h"
#include "connection.h"

enum {
    BATCHES = 64,         /* counters whose additions are combined in one burst */
    BATCH_UPDATES = 256,  /* additions that are combined */
    CALLS_LEAST = 256,
    PATIENCE = 12,        /* time-outs after which an instance among several fails */
    RETRY = 20,           /* milliseconds between attempts to connect, while a packet waits */
    RETRY_IDLE = 200,     /* otherwise */
    NODE = 500,           /* milliseconds within which a node of a cluster replies to a new connection */
    HOPS = 8,             /* redirections that are followed at once */
    REPLICATION = 200,    /* milliseconds within which replicas have an update */
    FSYNC = 3000,         /* milliseconds within which their append-only files have it: they may be synchronized each second */
    LOAD_MOST = 64 << 20, /* bytes of an object with as many items as it may have */
    REPLICATION_PAUSE = 1000,   /* for which they are not waited for when they had not */
};

/* A call that is not acknowledged. */
struct call {
    uint32_t bytes;       /* of its text */
    uint32_t updates;     /* that it contains */
    uint64_t floor;       /* no update with a lower identifier was pending when it was made, except in calls before it */
    uint64_t number;      /* among those of this process that the store counts (log.c); 0: it does not */
    bool recovered;
    bool waits;           /* WAIT or WAITAOF: with its reply, it and all calls before it are acknowledged */
};

/* Additions to one counter. */
struct batch {
    uint32_t *open;       /* the object's; its number here + 1 */
    const char *key;
    uint32_t key_length, count;
    bool recovered, equal;   /* equal: all amounts are the same */
    uint64_t id[BATCH_UPDATES];
    int64_t amount[BATCH_UPDATES];
};

struct client {
    struct sl_store store;
    struct sluice_client_options options;
    struct sluice_connection connection;
    char *text;           /* calls [first, end) that are not acknowledged; [first, sent) were transmitted */
    size_t first, sent, end, room;
    size_t logged;        /* [first, logged) are in the write-ahead log */
    uint64_t numbers;     /* calls that the store counts, so far */
    bool asks;            /* a packet waits for the result of the next call */
    uint64_t replied;     /* calls that have a reply; without replicas, these are acknowledged */
    size_t taken;         /* the end of their text */
    uint64_t covered;     /* calls before the last WAIT */
    uint64_t unreplicated;   /* when replicas were last too slow, in milliseconds */
    char host[256], port[8];   /* of the cluster's node */
    uint32_t node;        /* among options.nodes */
    uint64_t pause;       /* no connection before, in milliseconds */
    struct call *call;    /* a ring of them */
    uint32_t calls;       /* size of the ring, a power of two */
    struct batch *batch;
    uint32_t batches;
    uint64_t burst_first, last;    /* identifiers: the first of this burst, 0 for none; the last of all */
    uint64_t progress;    /* when the last reply came, or the first call after none were pending, in milliseconds */
    uint64_t attempt;     /* when it last tried to connect */
    bool impatient;       /* a wait was in vain: packets do not wait again until there is a reply */
    struct sl_store_counts counts;
    char fault[256];
    /* the result of the call that a packet waits for */
    enum sl_store_status status;
    struct sl_store_result *result;
    uint64_t awaited;     /* its number + 1; 0 for none */
    /* of an instance among several (instance.c) */
    struct sluice_connection callbacks;   /* on which the store notifies of changed keys */
    struct text { char *at; size_t size, room; } commit, commit_keys;   /* words and keys of the next commit's updates */
    uint64_t rows;        /* bytes of the file of rows at the last commit */
    uint64_t commit_clock;
    uint32_t commit_updates;
    bool commit_recovered, commit_lost;   /* lost: there was no memory for one of its updates */
    uint8_t touched[SLUICE_PARTS / 8];    /* parts of the traffic that these belong to */
};

struct word { const void *bytes; size_t size; };

static inline struct client *client_of(struct sl_store *store) { return (struct client *)(void *)store; }

/* A call: FCALL function, keys, and words; `more` has further words as the protocol has them. */
struct call_text {
    const char *function;
    bool reads;               /* FCALL_RO */
    const struct word *key, *word;
    unsigned keys, words;
    struct text more_keys, more;
    unsigned more_keys_count, more_words;
};

/* Writes a call with so many updates. False if there is no room, which is counted. */
bool sluice_write_call(struct client *client, const struct call_text *text, uint32_t updates, bool recovered);

/* The same of a call on an object: its key and that of its log, the settled identifier, and `words`. A function that only reads
 * gets neither log nor settled identifier. */
bool sluice_write_object_call(struct client *client, const char *function, const char *key, uint32_t key_length, bool reads,
                              const struct word *words, unsigned count, uint32_t updates, bool recovered);

/* An identifier as the store has it: 8 bytes, of which the first two are the epoch. */
void sluice_write_id(uint32_t epoch, uint64_t id, char *to);

/* --- transmit.c --- */

/* Connects with the server, or with the node of the cluster that has the keys. */
bool sluice_reach(struct client *client, uint32_t timeout);

/* Room in memory for so many bytes, and one more call. */
bool sluice_grow(struct client *client, size_t bytes);

/* Transmits the written calls, as far as the connection accepts them. */
void sluice_transmit(struct client *client);

/* Transmits and receives until `calls` calls are acknowledged. False after the time-out. */
bool sluice_wait_for(struct client *client, uint64_t calls);

/* Waits for the result of the last call. */
enum sl_store_status sluice_await(struct client *client, struct sl_store_result *result);

/* Writes `sign`, a decimal number and the end of a line, as the protocol has lengths. Returns its length, at most 24. */
size_t sluice_length(char *to, char sign, size_t number);

/* Has the connection failed, or does it not reply? Then it is made again. Transmits pending calls, and handles replies. */
void sluice_exchange(struct client *client);

/* --- replies.c --- */

/* Handles the available replies. */
void sluice_take_replies(struct client *client);

/* Counts updates that were dropped. */
void sluice_give_up(struct client *client, uint64_t updates, bool recovered, const char *what, const char *why);

/* The state of the store is older than the packets that left: what happened, and why. The first one is reported. */
void sluice_note_fault(struct client *client, const char *what, const char *why);

/* --- log.c --- */

/* Has this client a write-ahead log? */
static inline bool sluice_logs(const struct client *client) { return client->options.token && client->options.log >= 0; }

/* The key of the hash with the number of calls of each process that the store has performed (CHC: TS). */
size_t sluice_counts_key(const struct client *client, char *to, size_t size);

/* Writes calls to the log that are not in it: before they are transmitted. */
void sluice_log_calls(struct client *client);

/* Writes to the log which calls of all processes the store had performed when it performed this one. Returns the
 * reply without that. */
redisReply sluice_log_reply(struct client *client, const struct call *call, const redisReply *reply);

/* Has the server all that it acknowledged? Else the controller still recovers it. */
bool sluice_is_whole(struct client *client, uint32_t timeout);

/* --- cluster.c --- */

enum sluice_node { SLUICE_NODE_READY, SLUICE_NODE_MOVED, SLUICE_NODE_LATER };

/* The redirection in a reply: MOVED: another one, which is set, has the keys; LATER: none has them now. */
enum sluice_node sluice_node_of(struct client *client, const redisReply *reply);

/* Queries the node with which the client has connected. */
enum sluice_node sluice_probe(struct client *client, uint32_t timeout);

/* The next connection is with another node of the cluster. */
void sluice_next_node(struct client *client);

/* --- instance.c --- */

/* Adds an update to the next commit. */
enum sl_store_status sluice_commit_update(struct client *client, const struct sl_store_call *call, const char *function);

/* Sets the functions of struct sl_store for an instance among several. False without memory. */
bool sluice_instance_open(struct client *client);

void sluice_instance_close(struct client *client);

/* The store calls back on a second connection from now on. False: client->connection.why is the reason. */
bool sluice_instance_connected(struct client *client, uint32_t timeout);

#endif
