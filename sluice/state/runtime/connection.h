/* The client's connection: bytes out, replies in, by hiredis's reader. It never blocks, except while it connects. */
#ifndef SLUICE_STATE_CONNECTION_H
#define SLUICE_STATE_CONNECTION_H

#include "client.h"

#include <hiredis/hiredis.h>
#include <stddef.h>

enum { SLUICE_REPLY_MOST = 1 << 20 };   /* bytes of replies that wait to be read; more is a fault of the peer */

struct sluice_connection {
    int fd;                        /* -1: not connected */
    redisReader *reader;
    const redisReplyObjectFunctions *defaults;
    redisReplyObjectFunctions functions;   /* the reader's, which makes no arrays unless `arrays`, or `pairs`: short ones */
    bool arrays, pairs;
    size_t reply_most;             /* as SLUICE_REPLY_MOST, for the reply to the current call; 0: that */
    char why[160];                 /* why it was lost, or could not be made */
};

uint64_t sluice_milliseconds(void);

/* Connects, and authenticates; waits for at most `timeout` milliseconds. */
bool sluice_connect(struct sluice_connection *connection, const struct sluice_client_options *options, uint32_t timeout);

/* Opens the reader of a connection, as sluice_connect does. False without memory. */
bool sluice_reader_open(struct sluice_connection *connection);

void sluice_disconnect(struct sluice_connection *connection);

/* Transmits as much as it can: returns the bytes. The connection is lost after a fault. */
size_t sluice_send(struct sluice_connection *connection, const char *bytes, size_t size);

/* Waits until there is something to read, or, with `writes`, room to write. */
void sluice_wait(struct sluice_connection *connection, bool writes, uint32_t milliseconds);

/* Reads the available bytes. */
void sluice_receive(struct sluice_connection *connection);

/* The next reply; NULL if there is no whole one. The caller frees it (freeReplyObject). */
redisReply *sluice_reply(struct sluice_connection *connection);

/* Transmits a command, and waits for its reply; NULL: `why` is the reason. */
redisReply *sluice_command(struct sluice_connection *connection, uint32_t timeout, int count, const char **words);

#endif
