/* Extensions of mOS's interface by its users, in libsluice_mos. docs/mos.md describes each call.
 *
 * Calls return -1 and set errno when they fail. Those with a socket are for the thread of its context (EPERM in others),
 * and but for mos_ext_find, mos_ext_inject and mos_ext_on_start for a flow's socket (ENOTCONN without a flow). */
#ifndef MOS_EXT_H
#define MOS_EXT_H

#include "mos_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* `start` is called once in the thread of the context's callbacks, before all of these. Before the run only (EPERM). */
int mos_ext_on_start(mctx_t mctx, void (*start)(mctx_t mctx, void *arg), void *arg);

/* The bytes that mtcp_peek would read next, as far as they lie together, without a copy: sets *bytes and returns their
 * number, 0 for none; the rest follows after mos_ext_consume. Where bytes were lost it fails as mtcp_peek does. They are
 * valid until the callback returns, and not to be changed. */
ssize_t mos_ext_view(mctx_t mctx, int sock, int side, const char **bytes);

/* Moves the read offset over `count` bytes that can be read (EINVAL: there are fewer). */
int mos_ext_consume(mctx_t mctx, int sock, int side, size_t count);

/* Ends the connection of the current packet's flow: sends a reset to each end, and drops the packet. The flow ends when the
 * packet has been processed. ENODATA: no packet; ENOTSUP: it is in a tunnel or came in fragments; ENETUNREACH: packets
 * are not forwarded. */
int mos_ext_reset(mctx_t mctx, int sock);

/* Callbacks of a side (or both) that MOS_STOP_MON or mtcp_close has stopped are called again. Reading continues with the next
 * byte that is expected. */
int mos_ext_resume(mctx_t mctx, int sock, int side);

/* The flow's packets are forwarded, or dropped, without callbacks and buffers, from the next one on, until
 * mos_ext_take_back, after which reading continues with the next byte. CONN_END is still raised. EBUSY: another monitor
 * watches the flow. */
enum mos_ext_offload { MOS_EXT_BYPASS = 1, MOS_EXT_DROP = 2 };
int mos_ext_offload(mctx_t mctx, int sock, enum mos_ext_offload what);
int mos_ext_take_back(mctx_t mctx, int sock);

/* The socket of the flow between two ends (sockaddr_in; sockaddr_in6 of a library with --ipv6) as a monitor of this context
 * sees it; ENOENT where the context has none. */
int mos_ext_find(mctx_t mctx, int monitor, const struct sockaddr *client, const struct sockaddr *server);

/* Sends a frame, with its link-layer header, to where the packets of a device (pkt_info.in_ifidx) are forwarded.
 * ENETUNREACH: they are not; EMSGSIZE: it is longer than 65535 bytes, or empty. */
int mos_ext_inject(mctx_t mctx, int device, const void *frame, size_t length);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
