#define _GNU_SOURCE
#include "io/fanout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#if defined(__linux__) && __has_include(<linux/bpf.h>)

#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of kernels that are newer than the headers. */
enum { FANOUT_HASH = 0, FANOUT_EBPF = 7, FANOUT_UNIQUE = 0x2000, FANOUT_DATA = 22 };

int sl_fanout_load(const void *code, uint32_t count, char *why, size_t why_size)
{
    union bpf_attr load;
    memset(&load, 0, sizeof load);
    load.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    load.insns = (uint64_t)(uintptr_t)code;
    load.insn_cnt = count;
    load.license = (uint64_t)(uintptr_t)"GPL";
    long program = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
    if (program >= 0)
        return (int)program;
    if (errno == EPERM)
        snprintf(why, why_size, "the kernel takes programs from root, or with the capability CAP_BPF");
    else
        snprintf(why, why_size, "the kernel does not take the program that chooses workers: %s", strerror(errno));
    return -1;
}

struct sl_fanout_group *sl_fanout_group_of(struct sl_fanout *fanout, unsigned interface)
{
    for (uint32_t i = 0; i < fanout->count; i++)
        if (fanout->groups[i].interface == interface)
            return &fanout->groups[i];
    if (fanout->count == SL_FANOUT_INTERFACES)
        return NULL;
    fanout->groups[fanout->count] = (struct sl_fanout_group){.interface = interface, .first = -1};
    return &fanout->groups[fanout->count++];
}

int sl_fanout_join(struct sl_fanout *fanout, struct sl_fanout_group *group, int socket)
{
    uint32_t type = (fanout->program < 0 ? FANOUT_HASH : FANOUT_EBPF) | (group->joined ? 0 : FANOUT_UNIQUE), joins = group->id | type << 16;
    if (setsockopt(socket, SOL_PACKET, PACKET_FANOUT, &joins, sizeof joins))
        return -1;
    socklen_t size = sizeof joins;
    if (!group->joined && getsockopt(socket, SOL_PACKET, PACKET_FANOUT, &joins, &size))
        return -1;
    if (!group->joined) {
        group->id = (uint16_t)joins;
        group->first = socket;
    }
    if (++group->joined < fanout->members || fanout->program < 0)
        return 0;
    return setsockopt(socket, SOL_PACKET, FANOUT_DATA, &fanout->program, sizeof fanout->program);
}

#else

int sl_fanout_load(const void *code, uint32_t count, char *why, size_t why_size)
{
    (void)code;
    (void)count;
    snprintf(why, why_size, "the kernel's headers (linux/bpf.h) were not there when this was compiled");
    return -1;
}

struct sl_fanout_group *sl_fanout_group_of(struct sl_fanout *fanout, unsigned interface)
{
    (void)fanout;
    (void)interface;
    return NULL;
}

int sl_fanout_join(struct sl_fanout *fanout, struct sl_fanout_group *group, int socket)
{
    (void)fanout;
    (void)group;
    (void)socket;
    errno = ENOSYS;
    return -1;
}

#endif
