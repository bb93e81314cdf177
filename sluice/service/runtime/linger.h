/* The end of a connection whose client may still be sending. */
#ifndef SERVICE_LINGER_H
#define SERVICE_LINGER_H

#include "instance.h"

enum { SERVICE_LINGER = 2 }; /* seconds for which what comes is dropped */

/* After a fault: answers a malformed request of HTTP (RFC 9112, section 3), if its answer is the next that is due; the rest of a
 * request that a backend has answered before its end needs no other answer. The instance then does nothing but drop what its
 * client sends. False if it ends at once. */
bool service_linger_begin(struct service_instance *self);

/* A turn of such an instance. */
enum service_life service_linger_turn(struct service_instance *self);

/* Whether it has dropped bytes for long enough. */
bool service_linger_over(const struct service_instance *self);

#endif
