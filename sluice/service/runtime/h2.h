/* HTTP/2 of clients and to backends (RFC 9113), by nghttp2. A connection has an instance that runs no program, but the
 * protocol: each stream is a connection of HTTP/1.1 with an instance of the program, through a pair of sockets, so that the
 * program and all bounds work as for HTTP/1.1. A program that is compiled without nghttp2 has h2_none.c instead.
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

/* --- to backends */

/* A pair of sockets whose other end is a backend of HTTP/2: that of the channel, or -1 if there is no memory. */
int service_h2_pair(struct service_channel *c);

/* An event of the socket of such a pair. */
void service_h2_pair_event(void *stream, uint32_t events);

/* Whether a connection to a backend has been silent for too long. Sends a ping at half of that time. */
bool service_h2_silent(struct service_instance *self);

/* --- h2_probe.c: of a health check */

struct service_probe_h2;

/* Null if there is no memory. */
struct service_probe_h2 *service_probe_h2_begin(void);

/* Writes what a backend is sent for a GET: its bytes, or 0 if there is no room. Once. */
uint32_t service_probe_h2_ask(struct service_probe_h2 *probe, const char *host, const char *path, bool secure, char *to,
                              uint32_t room);

/* Parses received bytes: the status of the answer, 0 if it is not known yet, or -1 if this is no answer of HTTP/2. */
int service_probe_h2_take(struct service_probe_h2 *probe, const char *bytes, size_t size);
void service_probe_h2_end(struct service_probe_h2 *probe);

/* --- h2_uplink.c, the end */

/* Closes all pairs. */
void service_h2_close_pairs(struct service_lane *lane);

#endif
