/* Several sockets that divide the packets of an interface among themselves (AF_PACKET, PACKET_FANOUT_EBPF and
 * PACKET_FANOUT_HASH), for workers that receive themselves.
 *
 *     struct sl_fanout fanout = {.members = 2, .program = sl_fanout_load(code, count, why, sizeof why)};
 *     struct sl_source_options options = {.fanout = &fanout};
 *     ...open the source of each worker, in the order of workers...
 *
 * The program gives the number of the worker for each packet. Without one, the kernel divides packets by a hash of their
 * addresses and ports, which is the same for both directions, and workers hand over packets of others. No packet comes
 * before the last member has joined, so that none goes to another worker than those after it. */
#ifndef SL_IO_FANOUT_H
#define SL_IO_FANOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_FANOUT_INTERFACES = 64 };

/* The sockets of an interface. */
struct sl_fanout_group {
    unsigned interface;   /* its index */
    uint16_t id;          /* as the kernel gave it */
    uint32_t joined;
    int first;            /* the socket of the first member */
};

struct sl_fanout {
    int program;          /* its descriptor; -1: none */
    uint32_t members;     /* of each group */
    uint32_t count;       /* of groups */
    struct sl_fanout_group groups[SL_FANOUT_INTERFACES];
};

/* Loads a program of so many instructions (8 bytes each). Returns its descriptor; -1 with the reason. */
int sl_fanout_load(const void *code, uint32_t count, char *why, size_t why_size);

/* The group of an interface, perhaps a new one. NULL: there are too many. */
struct sl_fanout_group *sl_fanout_group_of(struct sl_fanout *fanout, unsigned interface);

/* Adds a socket, which is bound and lets no packet pass (SO_ATTACH_FILTER). The group gets the program with its last member.
 * Returns 0; -1 with errno. */
int sl_fanout_join(struct sl_fanout *fanout, struct sl_fanout_group *group, int socket);

#ifdef __cplusplus
}
#endif

#endif
