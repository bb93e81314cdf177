/* The calls of a client that are not acknowledged, and its connection: what client.c and instance.c share. */
#ifndef SLUICE_STATE_CALLS_H
#define SLUICE_STATE_CALLS_H

#include "client.h"
#include "connection.h"

enum {
    BATCHES = 64,         /* counters whose additions are combined in one burst */
    BATCH_UPDATES = 256,  /* additions that are combined */
    CALLS_LEAST = 256,
    PATIENCE = 12,        /* time-outs after which an instance among several gives up */
    RETRY = 20,           /* milliseconds between attempts to connect, while a packet waits */
    RETRY_IDLE = 200,     /* otherwise */
};

/* A call that is not acknowledged. */
struct call {
    uint32_t bytes;       /* of its text */
    uint32_t updates;     /* that it stands for */
    uint64_t floor;       /* no update with a lower identifier was pending when it was made, except in calls before it */
    bool recovered;
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
    struct sluice_connection callbacks;   /* on which the store says which keys have changed */
    char *commit;         /* the words of updates of the next commit */
    size_t commit_size, commit_room;
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
    const char *more;
    size_t more_size;
    unsigned more_words;
};

/* Writes a call that stands for so many updates. False if there is no room, which is counted. */
bool sluice_write_call(struct client *client, const struct call_text *text, uint32_t updates, bool recovered);

/* Transmits and receives until `calls` calls are acknowledged. False if that takes longer than the time-out. */
bool sluice_wait_for(struct client *client, uint64_t calls);

/* Waits for the result of the last call. */
enum sl_store_status sluice_await(struct client *client, struct sl_store_result *result);

/* Writes `sign`, a decimal number and the end of a line, as the protocol has lengths. Returns its length, at most 24. */
size_t sluice_length(char *to, char sign, size_t number);

/* Counts updates that were given up. */
void sluice_give_up(struct client *client, uint64_t updates, bool recovered, const char *what, const char *why);

/* Has the connection failed, or does it not reply? Then it is made again. Transmits what is pending, and takes replies. */
void sluice_exchange(struct client *client);

/* --- instance.c --- */

/* Adds an update to the next commit. */
enum sl_store_status sluice_commit_update(struct client *client, const struct sl_store_call *call, const char *function);

/* Sets the functions of struct sl_store for an instance among several. False without memory. */
bool sluice_instance_open(struct client *client);

void sluice_instance_close(struct client *client);

/* The store calls back on a second connection from now on. False: client->connection.why says why not. */
bool sluice_instance_connected(struct client *client, uint32_t timeout);

#endif
