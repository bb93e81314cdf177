/* Several sockets that divide the packets of an interface among themselves (AF_PACKET, PACKET_FANOUT_EBPF and
 * PACKET_FANOUT_HASH), for workers that receive themselves.
 *
 *     struct sl_fanout fanout = {.members = 2, .program = sl_fanout_load(code, count, why, sizeof why)};
 *     struct sl_source_options options = {.fanout = &fanout};
 *     ...open the source of each worker, in the order of workers...
 *
 * The program gives the number of the worker for each packet. Without one, the kernel divides packets by a hash of their
 * addresses and ports, which is the same for both directions, and workers hand over packets of others. No packet comes
 * before the last member has joined, so that none goes to another worker than those after it.
 *
 * Where the interface is removed and made again, the kernel makes another group of other sockets for it: its members join
 * again, each by its own thread. They open their sockets and join in the order of the first time: the number of a worker is
 * that of a socket in the order of joining, and, after the interface was down, in that of opening. The struct and the program
 * must exist as long as the sources. */
#ifndef SL_IO_FANOUT_H
#define SL_IO_FANOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_FANOUT_INTERFACES = 64 };

/* The sockets of an interface. */
struct sl_fanout_group {
    unsigned interface;   /* its index when it was opened first */
    uint16_t id;          /* as the kernel gave it */
    uint32_t joined;      /* members of this generation */
    uint32_t generation;  /* how often the group was made; 0: not yet */
    int first;            /* the socket of its first member */
};

struct sl_fanout {
    int program;          /* its descriptor; -1: none */
    uint32_t members;     /* of each group */
    uint32_t count;       /* of groups */
    struct sl_fanout_group groups[SL_FANOUT_INTERFACES];
};

/* What a source has of it. All 0 at first, but for `of`. */
struct sl_fanout_member {
    struct sl_fanout *of;
    struct sl_fanout_group *group;
    uint32_t number;      /* of it in the group */
    uint32_t generation;  /* that it has joined the last time */
};

/* Loads a program of so many instructions (8 bytes each). Returns its descriptor; -1 with the reason. */
int sl_fanout_load(const void *code, uint32_t count, char *why, size_t why_size);

/* Adds the socket of a member, which is bound to the interface of that index and lets no packet pass (SO_ATTACH_FILTER). The
 * group gets the program with its last member; then let_pass is called with the member's socket and with that of the first
 * one, else with its own alone unless it is the first one. Returns 0; -1 with errno, or of let_pass. */
int sl_fanout_join(struct sl_fanout_member *member, unsigned interface, int socket, int (*let_pass)(void *user, int socket),
                   void *user);

/* Whether a member may open another socket, and join with it, now: the one with number 0 begins the next generation of the
 * group, and the others follow. If so, no other one may until sl_fanout_end. */
bool sl_fanout_begin(const struct sl_fanout_member *member);
void sl_fanout_end(void);

#ifdef __cplusplus
}
#endif

#endif
