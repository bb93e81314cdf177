/* The connections of channels. A back end moves bytes between a channel's buffers and its connection, and keeps the
 * channel's `readable`, `writable`, `link` and `in_ended`. */
#ifndef SERVICE_IO_H
#define SERVICE_IO_H

#include "service.h"

/* Begins to connect a channel that is closed: its link is then CONNECTING or OPEN. False if it cannot; the fault is set. */
bool service_io_open(struct service_channel *channel);

/* Reads into `in` as far as there is room. False if the connection is broken; the fault is set. */
bool service_io_fill(struct service_channel *channel);

/* Writes `out` as far as the connection accepts it, and shuts it when `out_ending` and nothing is left. False if the
 * connection is broken; the fault is set. */
bool service_io_flush(struct service_channel *channel);

/* Whether the rest of the message that passes from a channel does so in the kernel: it is not read into `in` then. */
bool service_io_splices(struct service_channel *channel);

/* Moves its bytes as far as the other connection accepts them; for a channel with a pipe. False if a connection is
 * broken; the fault is set. */
bool service_io_splice(struct service_channel *channel);

/* Bytes in the kernel that were received from a channel, and not yet sent to the other one. */
uint32_t service_io_piped(const struct service_channel *channel);

/* Closes the connection; the buffers go back to the pool. */
void service_io_close(struct service_channel *channel);

#endif
