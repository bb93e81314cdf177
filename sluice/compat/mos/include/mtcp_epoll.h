/* mOS's interface: waiting for sockets and pipes of an end host. A socket is in one set at most.
 *
 * An event is of input (with MOS_EPOLLPRI and MOS_EPOLLRDHUP), of output or an error, not of several: where there are both
 * input and output, they are reported one after the other. */
#ifndef MTCP_EPOLL_H
#define MTCP_EPOLL_H

#include "mtcp_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum mtcp_epoll_op { MOS_EPOLL_CTL_ADD = 1, MOS_EPOLL_CTL_DEL = 2, MOS_EPOLL_CTL_MOD = 3 };

enum epoll_event_type {
    MOS_EPOLLNONE = 1 << 0, MOS_EPOLLIN = 1 << 1, MOS_EPOLLPRI = 1 << 2, MOS_EPOLLOUT = 1 << 3,
    MOS_EPOLLRDNORM = 1 << 4, MOS_EPOLLRDBAND = 1 << 5, MOS_EPOLLWRNORM = 1 << 6, MOS_EPOLLWRBAND = 1 << 7,
    MOS_EPOLLMSG = 1 << 8, MOS_EPOLLERR = 1 << 9, MOS_EPOLLHUP = 1 << 10, MOS_EPOLLRDHUP = 1 << 11,
    MOS_EPOLLONESHOT = 1 << 30, MOS_EPOLLET = (int)(1u << 31),
};

typedef union mtcp_epoll_data {
    void *ptr;
    int sock;
    uint32_t u32;
    uint64_t u64;
} mtcp_epoll_data_t;

struct mtcp_epoll_event {
    uint64_t events;
    mtcp_epoll_data_t data;
};

int mtcp_epoll_create(mctx_t mctx, int size);
int mtcp_epoll_ctl(mctx_t mctx, int epid, int op, int sock, struct mtcp_epoll_event *event);
int mtcp_epoll_wait(mctx_t mctx, int epid, struct mtcp_epoll_event *events, int max, int timeout);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
