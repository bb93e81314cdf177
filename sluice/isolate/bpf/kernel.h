/* The parts of the kernel's types that the programs read. CO-RE relocates every access to the running kernel's layout, so
 * that the object needs no vmlinux.h of the machine on which it is compiled.
 */
#ifndef SLUICE_ISOLATE_KERNEL_H
#define SLUICE_ISOLATE_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
    __u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
    struct cgroup *cgroup;
    struct cgroup_subsys_state *parent;
};

struct cgroup {
    struct cgroup_subsys_state self;
    struct kernfs_node *kn;
};

enum cgroup_subsys_id {
    cpu_cgrp_id = 1, /* relocated: the index depends on the kernel's configuration */
    CGROUP_SUBSYS_COUNT = 16,
};

struct css_set {
    struct cgroup_subsys_state *subsys[CGROUP_SUBSYS_COUNT];
    struct cgroup *dfl_cgrp;
};

struct task_struct {
    unsigned int flags;
    unsigned int __state;
    int pid;
    struct css_set *cgroups;
};

struct task_struct___before_5_14 {
    volatile long state;
};

struct ns_common {
    unsigned int inum;
};

struct net {
    struct ns_common ns;
};

typedef struct {
    struct net *net;
} possible_net_t;

struct net_device {
    possible_net_t nd_net;
};

struct sock_common {
    volatile unsigned char skc_state;
    possible_net_t skc_net;
};

struct sock_cgroup_data {
    struct cgroup *cgroup;
};

struct sock {
    struct sock_common __sk_common;
    struct sock_cgroup_data sk_cgrp_data;
};

struct sk_buff {
    struct sk_buff *next;
    struct net_device *dev;
    struct sock *sk;
    __be16 protocol;
    __u16 network_header;
    unsigned char *head;
    unsigned char *data;
};

struct napi_struct {
    struct net_device *dev;
};

struct Qdisc;
struct netdev_queue;
struct irqaction;

#pragma clang attribute pop

#define PF_KTHREAD 0x00200000
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD

/* Vectors of softirqs (include/linux/interrupt.h). */
enum { VECTOR_TIMER = 1, VECTOR_NET_TX = 2, VECTOR_NET_RX = 3, VECTOR_TASKLET = 6, VECTOR_HRTIMER = 8 };

#endif
