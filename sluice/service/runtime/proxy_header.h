/* The header of the PROXY protocol (HAProxy's "The PROXY protocol", versions 1 and 2): the addresses of a connection, which a
 * proxy sends before its bytes.
 */
#ifndef SERVICE_PROXY_HEADER_H
#define SERVICE_PROXY_HEADER_H

#include "worker.h"

enum {
    SERVICE_PROXY_MOST = 2048, /* bytes of a header that is accepted; one without extensions has 107 at most */
    SERVICE_PROXY_OWN = 108,   /* of one that is sent */
    SERVICE_PROXY_BAD = -1,
};

/* Reads the header that some bytes begin with: its size, 0 if more bytes are needed, or SERVICE_PROXY_BAD. `ends` are the
 * addresses that it has; the family is 0 if it has none, and those of the connection count. */
int service_proxy_read(const uint8_t *data, size_t length, struct service_ends *ends);

/* Writes a header of a version; its size. Without addresses it is LOCAL: the connection is this program's own. */
size_t service_proxy_write(uint32_t version, const struct service_ends *ends, uint8_t out[SERVICE_PROXY_OWN]);

#endif
