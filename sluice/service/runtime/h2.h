/* HTTP/2 of clients (RFC 9113), by nghttp2. A connection has an instance that runs no program, but the protocol: each stream is
 * a connection of HTTP/1.1 to an instance of the program, through a pair of sockets, so that the program and all bounds
 * work as for HTTP/1.1. A program that is compiled without nghttp2 has h2_none.c instead.
 */
#ifndef SERVICE_H2_H
#define SERVICE_H2_H

#include "instance.h"
#include "worker.h"

/* Bounds what nghttp2 and the streams allocate in the whole process. An error's text, or null. */
const char *service_h2_memory(uint64_t bytes);

/* Null if there is HTTP/2 here. */
const char *service_h2_missing(void);

/* The connection of an instance that has not started uses HTTP/2 from now on. False if there is no memory. */
bool service_h2_begin(struct service_instance *self);

/* As service_instance_turn(), for such an instance. */
enum service_life service_h2_turn(struct service_instance *self);

/* The connection has ended: the streams end, too. */
void service_h2_end(struct service_instance *self);

/* Resets the streams whose client opens no window for too long. Whether there are any. */
bool service_h2_reset_slow(struct service_instance *self);

/* An event of the socket of a stream. */
void service_h2_event(void *stream, uint32_t events);

#endif
