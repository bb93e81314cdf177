/* The connections of channels. A back end moves bytes between a channel's buffers and its connection, and keeps the
 * channel's `readable`, `writable`, `link` and `in_ended`. */
#ifndef SERVICE_IO_H
#define SERVICE_IO_H

#include "service.h"

/* Begins to connect a channel that is closed: its link is then CONNECTING or OPEN. False if it cannot; the fault is set. */
bool service_io_open(struct service_channel *channel);

/* Reads into `in` what there is room for. False if the connection is broken; the fault is set. */
bool service_io_fill(struct service_channel *channel);

/* Writes what the connection takes of `out`, and shuts it when `out_ending` and nothing is left. False if the
 * connection is broken; the fault is set. */
bool service_io_flush(struct service_channel *channel);

/* Closes the connection; the buffers go back to the pool. */
void service_io_close(struct service_channel *channel);

#endif
