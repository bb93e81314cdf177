/* mOS's monitoring interface, as libsluice_mos offers it: sockets that watch flows, events, callbacks, packets.
 *
 * Names, and the numbers of events, are those of mOS 0.3, so that programs written for it compile as they
 * are. docs/mos.md describes each call, the order of callbacks, and when their data is valid. Calls return
 * -1 and set errno when they fail. */
#ifndef MOS_API_H
#define MOS_API_H

#include "mtcp_epoll.h"   /* programs include nothing but mos_api.h */

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/if_ether.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>

/* The kernel and the C library each have a header with struct iphdr and struct tcphdr, and the two exclude each other.
 * Programs include either, before this one or after it: the first one is used, and the C library's, which has
 * both sets of names, also for the other. */
#ifndef _LINUX_IP_H
#include <netinet/ip.h>
#define _LINUX_IP_H
#endif
#ifndef _LINUX_TCP_H
#include <netinet/tcp.h>
#define _LINUX_TCP_H
#endif

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* --- sockets --- */

enum { MOS_SIDE_CLI = 0, MOS_SIDE_SVR = 1, MOS_SIDE_BOTH = 2 };

#define SOL_MONSOCKET 0xfffe

enum mos_socket_opts {
    /* read */
    MOS_FRAGINFO_CLIBUF = 1, MOS_FRAGINFO_SVRBUF,   /* struct tcp_ring_fragment[]; *len: bytes, then how many there are */
    MOS_INFO_CLIBUF, MOS_INFO_SVRBUF,               /* struct tcp_buf_info */
    MOS_TCP_STATE_CLI, MOS_TCP_STATE_SVR,           /* int: an enum tcpstate */
    /* set */
    MOS_CLIBUF, MOS_SVRBUF,                         /* int: bytes of the receive buffer, 0 for none */
    MOS_CLIOVERLAP, MOS_SVROVERLAP,                 /* int: which copy of overlapping bytes stays */
    MOS_STOP_MON,                                   /* int: side */
};

enum { MOS_OVERLAP_POLICY_FIRST = 0, MOS_OVERLAP_POLICY_LAST = 1, MOS_OVERLAP_CNT };

/* States of a TCP end. Macros, as some of these names are enumerators of <netinet/tcp.h>, with other numbers. */
enum tcpstate {
    MOS_TCP_CLOSED, MOS_TCP_LISTEN, MOS_TCP_SYN_SENT, MOS_TCP_SYN_RCVD, MOS_TCP_ESTABLISHED, MOS_TCP_FIN_WAIT_1,
    MOS_TCP_FIN_WAIT_2, MOS_TCP_CLOSE_WAIT, MOS_TCP_CLOSING, MOS_TCP_LAST_ACK, MOS_TCP_TIME_WAIT,
};
#define TCP_CLOSED MOS_TCP_CLOSED
#define TCP_LISTEN MOS_TCP_LISTEN
#define TCP_SYN_SENT MOS_TCP_SYN_SENT
#define TCP_SYN_RCVD MOS_TCP_SYN_RCVD
#define TCP_ESTABLISHED MOS_TCP_ESTABLISHED
#define TCP_FIN_WAIT_1 MOS_TCP_FIN_WAIT_1
#define TCP_FIN_WAIT_2 MOS_TCP_FIN_WAIT_2
#define TCP_CLOSE_WAIT MOS_TCP_CLOSE_WAIT
#define TCP_CLOSING MOS_TCP_CLOSING
#define TCP_LAST_ACK MOS_TCP_LAST_ACK
#define TCP_TIME_WAIT MOS_TCP_TIME_WAIT

/* Bytes of the stream that are there, by offsets from its first byte. */
struct tcp_ring_fragment {
    uint64_t offset;
    uint32_t len;
};

/* Sequence numbers of a receive buffer. */
struct tcp_buf_info {
    union { uint32_t init_seq, tcpbi_init_seq; };
    union { uint32_t last_byte_read, tcpbi_last_byte_read; };
    union { uint32_t next_byte_expected, tcpbi_next_byte_expected; };
    union { uint32_t last_byte_received, tcpbi_last_byte_received; };
};

/* --- events --- */

typedef uint64_t event_t;

enum mos_event_type {
    MOS_NULL_EVENT = 0,
    MOS_ON_PKT_IN = 1 << 0,
    MOS_ON_PKT_OUT = 1 << 1,          /* deprecated: cannot be registered */
    MOS_ON_CONN_START = 1 << 2,
    MOS_ON_CONN_SETUP = 1 << 3,       /* deprecated: cannot be registered */
    MOS_ON_CONN_NEW_DATA = 1 << 4,
    MOS_ON_ERROR = 1 << 5,
    MOS_ON_TIMEOUT = 1 << 6,
    MOS_ON_TCP_STATE_CHANGE = 1 << 7,
    MOS_ON_ORPHAN = 1 << 8,
    MOS_ON_REXMIT = 1 << 9,
    MOS_ON_CONN_END = 1 << 10,
    MOS_ON_DEBUG_MESSAGE = 1 << 11,   /* cannot be registered */
};

/* Hooks: without a flow's stack, after the update of the receiver's, after that of the sender's. */
#define MOS_NULL (1 << 29)
#define MOS_HK_RCV (1 << 30)
#define MOS_HK_SND ((int)(1u << 31))

typedef struct filter_arg {
    void *arg;
    size_t len;
} filter_arg_t;

typedef void (*callback_t)(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg);
typedef bool (*filter_t)(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg);

/* Filters in the syntax of pcap-filter(7): of a raw socket, or of a stream socket. */
union monitor_filter {
    char *raw_pkt_filter;
    struct { char *stream_syn_filter, *stream_orphan_filter; };
};
typedef union monitor_filter *monitor_filter_t;

int mtcp_bind_monitor_filter(mctx_t mctx, int sock, monitor_filter_t filter);
int mtcp_register_callback(mctx_t mctx, int sock, event_t event, int hook, callback_t callback);
event_t mtcp_alloc_event(event_t parent);
event_t mtcp_define_event(event_t parent, filter_t filter, struct filter_arg *arg);
int mtcp_raise_event(mctx_t mctx, event_t event);

/* --- flows --- */

void mtcp_set_uctx(mctx_t mctx, int sock, void *uctx);
void *mtcp_get_uctx(mctx_t mctx, int sock);
ssize_t mtcp_peek(mctx_t mctx, int sock, int side, char *buf, size_t len);
ssize_t mtcp_ppeek(mctx_t mctx, int sock, int side, char *buf, size_t count, uint64_t offset);
int mtcp_getpeername(mctx_t mctx, int sock, struct sockaddr *addr, socklen_t *addrlen, int side);

/* --- packets --- */

struct pkt_info {
    uint32_t cur_ts;       /* packet time in milliseconds, its low 32 bits */
    int in_ifidx;          /* which of the devices it came from, from 0 on */
    uint16_t eth_len;      /* the whole frame */
    uint16_t ip_len;       /* of the IP packet */
    uint32_t hash;         /* of the ends, the same in both directions; 0 without TCP. mOS has padding here */
    uint64_t offset;       /* of the payload in the stream */
    uint16_t payloadlen;
    uint32_t seq, ack_seq; /* these and window in the host's byte order */
    uint16_t window;
    struct ethhdr *ethh;   /* these as they are in a copy of the packet, good until the next call of mtcp_getlastpkt */
    struct iphdr *iph;
    struct tcphdr *tcph;   /* NULL of another protocol than TCP */
    uint8_t *payload;
};
#define MTCP_CB_GETCURPKT_CREATE_COPY   /* programs test for it: mtcp_getlastpkt fills in a struct pkt_info */
#define PKT_INFO_LEN offsetof(struct pkt_info, ethh)   /* of the members that are no pointers */

enum {
    MOS_ETH_HDR = 1 << 0, MOS_IP_HDR = 1 << 1, MOS_TCP_HDR = 1 << 2, MOS_TCP_PAYLOAD = 1 << 3,
    MOS_UPDATE_IP_CHKSUM = 1 << 4, MOS_UPDATE_TCP_CHKSUM = 1 << 5,
    MOS_DROP = 1 << 6, MOS_OVERWRITE = 1 << 7, MOS_CHOMP = 1 << 8, MOS_INSERT = 1 << 9,
};

int mtcp_getlastpkt(mctx_t mctx, int sock, int side, struct pkt_info *info);
int mtcp_setlastpkt(mctx_t mctx, int sock, int side, off_t offset, byte *data, uint16_t len, int option);
int mtcp_sendpkt(mctx_t mctx, int sock, const struct pkt_info *info);
int mtcp_reset_conn(mctx_t mctx, int sock);   /* in the header of mOS, not in its manual: mos_ext_reset of mos_ext.h */

/* --- time --- */

int mtcp_settimer(mctx_t mctx, int id, struct timeval *timeout, callback_t callback);
uint32_t mtcp_cb_get_ts(mctx_t mctx);   /* packet time in microseconds, its low 32 bits */

void mtcp_app_join(mctx_t mctx);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
