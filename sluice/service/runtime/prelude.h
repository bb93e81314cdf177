/* Data before the messages of a client: the header of a proxy, and the choice of HTTP/2. The program begins after it,
 * since a header has the client's address.
 */
#ifndef SERVICE_PRELUDE_H
#define SERVICE_PRELUDE_H

#include "instance.h"
#include "worker.h"

/* A connection was accepted: its addresses are known. Starts the instance if nothing precedes its messages. */
void service_prelude_begin(struct service_instance *self, const struct sockaddr_storage *peer);

/* Continues with the data before: SERVICE_AGAIN at its end, and the instance has started. */
enum service_life service_prelude_turn(struct service_instance *self);

/* Trusts the headers of an address or network. An error's text, or null. */
const char *service_prelude_trust(struct service_config *config, const char *address, const char *bits);

/* Sends the header of a connection to a backend. False if it accepts none. */
bool service_prelude_send(struct service_channel *c);

#endif
