/* Shared by the programs and the loader (sluice/isolate/accounting.py has the same layouts), and the state of a CPU.
 *
 * All time of a CPU is divided: each nanosecond is added to `run` of exactly one slot, that of the task in whose context
 * it passed. Work for another container is then transferred: the one pays (`for_others`), the other is charged
 * (`by_containers`, `by_host`, `by_idle`). Transfers cancel, so that the sum over all slots is the time that passed.
 */
#ifndef SLUICE_ISOLATE_STATE_H
#define SLUICE_ISOLATE_STATE_H

#include "kernel.h"

enum { SLOT_HOST = 0, SLOT_IDLE = 1, SLOT_FIRST = 2 };
enum { PARTIES = 8 }; /* containers with packets in one NAPI poll that are distinguished; a power of two */
enum { NO_PARTY = PARTIES };
enum { NO_SECTION = 0, SECTION_NAPI_THREAD = 64 }; /* else the vector of the softirq in progress, plus one */
enum { ANCESTORS = 12 };                           /* levels of cgroups below a container */
enum { BATCH = 16 };                               /* packets of a qdisc's batch that are distinguished */

/* One container's time on one CPU, in nanoseconds since the start. Only that CPU writes it. */
struct account {
    __u64 run;           /* in the context of its tasks */
    __u64 own_network;   /* of this, its own packets in softirqs */
    __u64 for_others;    /* of this, packets of others */
    __u64 by_containers; /* its packets, in the context of other containers */
    __u64 by_host;       /* its packets, in the context of tasks in no container (ksoftirqd) */
    __u64 by_idle;       /* its packets, on an idle CPU */
    __u64 interrupts_ns; /* part of the network time that is interrupts */
    __u64 received;      /* packets that a device received; one that crosses several devices counts at each */
    __u64 transmitted;   /* packets that a softirq transmitted, not those of system calls */
    __u64 interrupts;    /* slot of the host only: all interrupts that were measured */
    __u64 measured_ns;   /* slot of the host only: the measured part of these interrupts */
    __u64 preempted;     /* times that a task of it was switched out although it could run on */
    __u64 spare[4];
};

/* Set before the programs are loaded. */
struct settings {
    __u32 cpus;           /* rows of a slot in `accounts` */
    __u32 host_namespace; /* inode of the host's network namespace */
    __u32 cpu_is_v1;      /* the cpu controller is in a hierarchy of cgroup v1 */
    __u32 spare;
};

/* Set and read while the programs run. */
struct control {
    __u64 interrupt_ns; /* the part of a network interrupt that no probe sees */
    __u64 addresses;    /* entries of the map `addresses`: without any, no packet is read */
    __u64 new_cgroups;  /* tasks ran in a cgroup that was in no map */
    __u64 crowded;      /* packets of a poll with more than PARTIES containers, charged to another of them */
    __u64 unfinished;   /* softirqs whose exit was not seen */
    __u64 cgroups_full; /* results that did not fit into the map `cgroups` */
};

/* A cgroup: hierarchy 0 is the one with the v1 cpu controller, 1 is cgroup v2. */
struct cgroup_key {
    __u64 id;
    __u64 hierarchy;
};

/* CACHED marks results of the programs, for a cgroup below a container or in none. */
struct cgroup_slot {
    __u32 slot;
    __u32 cached;
};

/* An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d. */
struct address {
    __u32 words[4];
};

/* A container with packets in the current section. */
struct party {
    __u32 slot;
    __u32 packets; /* received, transmitted and completed: its weight in shared time */
    __u32 received;
    __u32 transmitted;
    __u64 ns;
};

/* A section is a softirq, or a poll of a NAPI thread. Fields of interrupts are written by interrupts only, all others
 * with `busy` set: a snapshot, which runs in an interrupt, leaves a busy CPU alone.
 */
struct cpu {
    __u64 since; /* up to here all time is charged; 0 before the first snapshot */
    __u32 busy;
    __u32 runner;  /* slot of the current task */
    __u32 section; /* NO_SECTION, vector + 1, or SECTION_NAPI_THREAD */
    __u32 current; /* index of the party whose packet is processed, or NO_PARTY */
    __u32 parties;
    __u32 found;      /* index of the party to which the last packet was added */
    __u32 last_owner; /* of the section's last packet; before the first one, of the source that raised it */
    __u64 packets;    /* of all parties */
    __u64 shared;     /* time of the section that belongs to no single packet */
    __u64 interrupts_settled;
    /* interrupts */
    __u64 interrupt_since; /* 0 outside interrupts */
    __u64 interrupts_total; /* ns of network interrupts since the start */
    __u32 raised;           /* the current interrupt raised a network softirq */
    __u32 raiser;           /* slot of the task whose system call raised one, until it runs; else SLOT_HOST */
    __u32 interrupted;      /* slot that ran when the last network interrupt came */
    __u32 spare;
    struct party party[PARTIES];
};

const volatile struct settings settings = {.cpus = 1};
struct control control = {};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1); /* set by the loader: slots * CPUs */
    __type(key, __u32);
    __type(value, struct account);
} accounts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct cpu);
} cpus SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, struct cgroup_key);
    __type(value, struct cgroup_slot);
} cgroups SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, __u32);
} namespaces SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, struct address);
    __type(value, __u32);
} addresses SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline struct account *account_of(__u32 slot)
{
    __u32 row = slot * settings.cpus + bpf_get_smp_processor_id();
    return bpf_map_lookup_elem(&accounts, &row);
}

#endif
