/* Which container a task, a socket or a packet belongs to: the slot, or SLOT_HOST. */
#ifndef SLUICE_ISOLATE_OWNER_H
#define SLUICE_ISOLATE_OWNER_H

#include "state.h"

/* A pointer that is compared with NULL and then followed: the compiler must not load it twice, as the verifier would not
 * treat the second one as checked.
 */
#define read_once(pointer)                   \
    ({                                       \
        typeof(pointer) value_ = (pointer);  \
        barrier_var(value_);                 \
        value_;                              \
    })

/* An entry of the loader is never replaced. */
static __always_inline void remember(struct cgroup_key *key, struct cgroup_slot *found)
{
    enum { EXISTS = -17 };
    long error = bpf_map_update_elem(&cgroups, key, found, BPF_NOEXIST);
    if (error && error != EXISTS)
        __sync_fetch_and_add(&control.cgroups_full, 1);
}

/* The slot of the nearest ancestor that is a container. The result is cached until the loader removes it: a cgroup of
 * which nothing is known also notifies the loader, as a new container shows first by a task that runs in it.
 */
static __always_inline __u32 slot_of_cgroup(struct cgroup *cgroup, __u64 hierarchy)
{
    struct cgroup_key key = {.id = cgroup->kn->id, .hierarchy = hierarchy};
    struct cgroup_slot *known = bpf_map_lookup_elem(&cgroups, &key);
    if (known)
        return known->slot;
    struct cgroup_key ancestor = key;
    struct cgroup_slot found = {.slot = SLOT_HOST, .cached = 1};
    for (int level = 0; level < ANCESTORS; level++) {
        struct cgroup_subsys_state *parent = cgroup->self.parent;
        if (!parent)
            break;
        cgroup = parent->cgroup;
        ancestor.id = cgroup->kn->id;
        known = bpf_map_lookup_elem(&cgroups, &ancestor);
        if (known) {
            found.slot = known->slot;
            break;
        }
    }
    remember(&key, &found);
    __sync_fetch_and_add(&control.new_cgroups, 1);
    return found.slot;
}

static __always_inline __u32 slot_of_task(struct task_struct *task)
{
    if (!task->pid)
        return SLOT_IDLE;
    if (!settings.cpu_is_v1)
        return slot_of_cgroup(task->cgroups->dfl_cgrp, 1);
    /* The index is a constant only when the program is loaded, so that the offset is calculated here. */
    __u64 offset = bpf_core_field_offset(struct css_set, subsys);
    offset += bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id) * sizeof(void *);
    struct cgroup_subsys_state *css = *(struct cgroup_subsys_state **)((void *)task->cgroups + offset);
    return css ? slot_of_cgroup(css->cgroup, 0) : SLOT_HOST;
}

/* Whether a task that is switched out waits for a CPU, or for the quota of its cgroup. */
static __always_inline bool is_runnable(struct task_struct *task)
{
    if (bpf_core_field_exists(task->__state))
        return task->__state == 0;
    return ((struct task_struct___before_5_14 *)task)->state == 0;
}

static __always_inline __u32 slot_of_namespace(__u32 inode)
{
    if (inode == settings.host_namespace)
        return SLOT_HOST;
    __u32 *slot = bpf_map_lookup_elem(&namespaces, &inode);
    return slot ? *slot : SLOT_HOST;
}

/* The container in whose cgroup a socket was made; on a machine with cgroup v1, where that is often the root, the one in
 * whose namespace. Sockets of a handshake or in TIME_WAIT have no cgroup.
 */
static __always_inline __u32 slot_of_socket(struct sock *sk)
{
    unsigned char state = sk->__sk_common.skc_state;
    if (state == TCP_NEW_SYN_RECV || state == TCP_TIME_WAIT)
        return slot_of_namespace(sk->__sk_common.skc_net.net->ns.inum);
    struct cgroup *cgroup = read_once(sk->sk_cgrp_data.cgroup);
    __u32 slot = cgroup ? slot_of_cgroup(cgroup, 1) : SLOT_HOST;
    return slot != SLOT_HOST ? slot : slot_of_namespace(sk->__sk_common.skc_net.net->ns.inum);
}

/* The container of the socket that is to receive a packet. */
static __always_inline __u32 slot_of_receiver(struct __sk_buff *skb)
{
    struct cgroup_key key = {.id = bpf_skb_cgroup_id(skb), .hierarchy = 1};
    struct cgroup_slot *known = bpf_map_lookup_elem(&cgroups, &key);
    if (known)
        return known->slot;
    struct cgroup_key ancestor = key;
    struct cgroup_slot found = {.slot = SLOT_HOST, .cached = 1};
    for (int level = 1; level < ANCESTORS; level++) {
        ancestor.id = bpf_skb_ancestor_cgroup_id(skb, level);
        known = ancestor.id ? bpf_map_lookup_elem(&cgroups, &ancestor) : NULL;
        if (known && !known->cached)
            found.slot = known->slot;
    }
    remember(&key, &found);
    return found.slot;
}

static __always_inline __u32 slot_of_address(struct address *address)
{
    __u32 *slot = bpf_map_lookup_elem(&addresses, address);
    return slot ? *slot : SLOT_HOST;
}

/* By the destination, else by the source, of the IP header. */
static __always_inline __u32 slot_of_addresses(struct sk_buff *skb, unsigned char *header)
{
    struct address source = {}, destination = {};
    if (!control.addresses)
        return SLOT_HOST;
    if (skb->protocol == bpf_htons(ETH_P_IP)) {
        source.words[2] = destination.words[2] = bpf_htonl(0xffff);
        if (bpf_probe_read_kernel(&source.words[3], 4, header + 12) ||
            bpf_probe_read_kernel(&destination.words[3], 4, header + 16))
            return SLOT_HOST;
    } else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
        if (bpf_probe_read_kernel(&source, 16, header + 8) || bpf_probe_read_kernel(&destination, 16, header + 24))
            return SLOT_HOST;
    } else {
        return SLOT_HOST;
    }
    __u32 slot = slot_of_address(&destination);
    return slot != SLOT_HOST ? slot : slot_of_address(&source);
}

/* A packet that a device received. In a container's namespace it is the container's. In the host's, a packet with a
 * socket comes from a container on this machine, which pays for its path through the host; others count by address.
 */
static __always_inline __u32 owner_of_received(struct sk_buff *skb)
{
    __u32 slot = slot_of_namespace(skb->dev->nd_net.net->ns.inum);
    struct sock *sk = read_once(skb->sk);
    if (slot == SLOT_HOST && sk)
        slot = slot_of_socket(sk);
    return slot != SLOT_HOST ? slot : slot_of_addresses(skb, skb->data);
}

/* A packet that is, or was, on its path to a device. */
static __always_inline __u32 owner_of_sent(struct sk_buff *skb)
{
    __u32 slot = SLOT_HOST;
    struct sock *sk = read_once(skb->sk);
    struct net_device *device = read_once(skb->dev);
    if (sk)
        slot = slot_of_socket(sk);
    if (slot == SLOT_HOST && device)
        slot = slot_of_namespace(device->nd_net.net->ns.inum);
    return slot != SLOT_HOST ? slot : slot_of_addresses(skb, skb->head + skb->network_header);
}

#endif
