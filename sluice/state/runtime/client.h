/* A store that is a Valkey or Redis server: the client (store.h). One thread uses it.
 *
 * Operations become calls of server-side functions, pipelined on one connection. Those without a result wait in the
 * client until the end of the burst; additions to one counter within it are combined into one call, which carries
 * the identifier of each. Calls are stored until they are acknowledged, and transmitted again after a reconnection;
 * the server recognises those that it has applied. */
#ifndef SLUICE_STATE_CLIENT_H
#define SLUICE_STATE_CLIENT_H

#include "function/store.h"

enum { SLUICE_PARTS = 1024, SLUICE_KEY_MOST = 1024 };   /* parts of the traffic (isolated/memory.h); bytes of a key */

struct sluice_client_options {
    const char *path;        /* of a Unix socket; else NULL */
    const char *host, *port;
    const char *user, *password;   /* NULL: no AUTH */
    const char *nodes;       /* of a cluster, as HOST:PORT,HOST:PORT,...; NULL: one server */
    uint32_t replicas;       /* that must have an update before it counts as acknowledged (WAIT); 0: none */
    bool disk;               /* it must be on the disks of these, and of the server (WAITAOF) */
    const char *prefix;      /* of the server-side functions */
    const char *instance;    /* of the function */
    uint32_t epoch;          /* of the run, 1 to 65535: the first two bytes of identifiers */
    uint32_t timeout;        /* milliseconds that a packet waits for a reply, or for a connection */
    uint32_t bytes;          /* of calls that are not acknowledged, at most */
    bool waits;              /* for every update (for measurements) */
    bool caches;             /* flow-scoped objects */
    const char *function;    /* whose objects it stores, of an instance or in a cluster: the hash tag of their keys */
    /* of an instance among several: */
    const char *token;       /* identifies its process in the store; NULL: there is one instance */
    const char *cached, *watched;   /* struct sl_store */
    uint32_t run;            /* the epoch of its chain */
    bool strict;
    int log;                 /* the file of its write-ahead log; -1: it has none */
};

/* Connects. NULL: there is no memory, or no connection; then *why is the reason. */
struct sl_store *sluice_client_open(const struct sluice_client_options *options, char *why, uint32_t size);

/* Reads which parts of the traffic an instance among several owns. False: the store does not reply. */
bool sluice_client_begin(struct sl_store *store);

void sluice_client_close(struct sl_store *store);

/* One store for several clients, each of the function of that name. The names must live as long. */
struct sl_store *sluice_clients_join(struct sl_store *const *stores, const char *const *names, uint32_t count);

/* Frees it; the clients remain. */
void sluice_clients_part(struct sl_store *store);

#endif
