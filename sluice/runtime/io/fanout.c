#define _GNU_SOURCE
#include "io/fanout.h"

#include <errno.h>
#include <pthread.h>
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

/* The group of an interface, perhaps a new one. NULL: there are too many. */
static struct sl_fanout_group *group_of(struct sl_fanout *fanout, unsigned interface)
{
    for (uint32_t i = 0; i < fanout->count; i++)
        if (fanout->groups[i].interface == interface)
            return &fanout->groups[i];
    if (fanout->count == SL_FANOUT_INTERFACES) {
        errno = ENOSPC;
        return NULL;
    }
    fanout->groups[fanout->count] = (struct sl_fanout_group){.interface = interface};
    return &fanout->groups[fanout->count++];
}

/* Adds the socket to the kernel's group, or makes that. */
static int join(const struct sl_fanout *fanout, struct sl_fanout_group *group, int socket, bool first)
{
    uint32_t type = (fanout->program < 0 ? FANOUT_HASH : FANOUT_EBPF) | (first ? FANOUT_UNIQUE : 0);
    uint32_t joins = (first ? 0 : group->id) | type << 16;
    socklen_t size = sizeof joins;
    if (setsockopt(socket, SOL_PACKET, PACKET_FANOUT, &joins, sizeof joins))
        return -1;
    if (!first)
        return 0;
    if (getsockopt(socket, SOL_PACKET, PACKET_FANOUT, &joins, &size))
        return -1;
    group->id = (uint16_t)joins;
    group->first = socket;
    group->joined = 0;
    group->generation++;
    return 0;
}

/* The socket has joined: lets packets pass. */
static int start(const struct sl_fanout *fanout, const struct sl_fanout_group *group, int socket, bool first,
                 int (*let_pass)(void *user, int socket), void *user)
{
    const bool last = group->joined == fanout->members;
    int result = first ? 0 : let_pass(user, socket);
    if (!result && last && fanout->program >= 0)
        result = setsockopt(socket, SOL_PACKET, FANOUT_DATA, &fanout->program, sizeof fanout->program);
    return result || !last ? result : let_pass(user, group->first);
}

int sl_fanout_join(struct sl_fanout_member *member, unsigned interface, int socket, int (*let_pass)(void *user, int socket),
                   void *user)
{
    struct sl_fanout_group *group = member->group ? member->group : group_of(member->of, interface);
    if (!group)
        return -1;
    if (!member->group)
        member->number = group->joined;
    member->group = group;
    const bool first = !member->number;
    if (join(member->of, group, socket, first))
        return -1;
    group->joined++;
    member->generation = group->generation;
    int result = start(member->of, group, socket, first, let_pass, user);
    if (result) {   /* it may join this generation again */
        group->joined--;
        member->generation--;
    }
    return result;
}

static pthread_mutex_t joins = PTHREAD_MUTEX_INITIALIZER;   /* of members of all groups: it is seldom held */

bool sl_fanout_begin(const struct sl_fanout_member *member)
{
    const struct sl_fanout_group *group = member->group;
    pthread_mutex_lock(&joins);
    if (!member->number || (group->generation != member->generation && group->joined == member->number))
        return true;
    pthread_mutex_unlock(&joins);
    return false;
}

void sl_fanout_end(void) { pthread_mutex_unlock(&joins); }

#else

int sl_fanout_load(const void *code, uint32_t count, char *why, size_t why_size)
{
    (void)code;
    (void)count;
    snprintf(why, why_size, "the kernel's headers (linux/bpf.h) were not there when this was compiled");
    return -1;
}

int sl_fanout_join(struct sl_fanout_member *member, unsigned interface, int socket, int (*let_pass)(void *user, int socket),
                   void *user)
{
    (void)member;
    (void)interface;
    (void)socket;
    (void)let_pass;
    (void)user;
    errno = ENOSYS;
    return -1;
}

bool sl_fanout_begin(const struct sl_fanout_member *member)
{
    (void)member;
    return false;
}

void sl_fanout_end(void) {}

#endif
