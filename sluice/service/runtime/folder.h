/* A folder in the place of a backend: the platform itself answers requests of HTTP with its files. */
#ifndef SERVICE_FOLDER_H
#define SERVICE_FOLDER_H

#include "worker.h"

enum { SERVICE_HEAD = 768 }; /* bytes of a response's head */

/* The state of a channel to a folder. */
struct service_reader {
    int file;         /* the file being sent; -1: none */
    int64_t at, left; /* the place in the file, and bytes that are still to be sent */
    uint16_t head_at, head_size;
    char head[SERVICE_HEAD];
    bool skips; /* a request's body is coming, which nothing needs */
    uint64_t skip;
    struct service_tail tail;
};

/* The folder of a channel; -1 if it has a backend. */
static inline int service_folder_of(const struct service_channel *c)
{
    const struct service_address *all = service_lane_of(c)->config->backends[c->port];

    return all && all[c->index].length == 0 ? all[c->index].folder : -1;
}

/* As service_io_fill(), service_io_flush() and service_io_close(), for a channel to a folder. */
void service_folder_begin(struct service_channel *c);
bool service_folder_fill(struct service_channel *c);
bool service_folder_flush(struct service_channel *c);
void service_folder_end(struct service_channel *c);

/* folder_head.c: writes the head of the response to a request, which begins with `line`, and opens the file that
 * follows it. */
void service_folder_answer(int folder, struct service_reader *reader, struct service_text line,
                           struct service_text headers);

#endif
