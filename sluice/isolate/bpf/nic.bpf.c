/* Drops packets at an interface of the host by their destination, while the container that has this address has used its
 * CPU time. Loaded once for all containers; a packet is read up to its IP header.
 */
#include "drop.h"

#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "GPL";

enum { TAGS = 2 }; /* VLAN headers that are skipped */
enum { ETHERTYPE_IP = 0x0800, ETHERTYPE_IPV6 = 0x86dd, ETHERTYPE_VLAN = 0x8100, ETHERTYPE_QINQ = 0x88a8 };
enum { ETHERNET_HEADER = 14, TAG = 4, IP_DESTINATION = 16, IPV6_DESTINATION = 24 };

/* An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d. */
struct address {
    __u32 words[4];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, struct address);
    __type(value, struct gate);
} gates SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1); /* set by the loader: containers */
    __type(key, __u32);
    __type(value, struct drops);
} drops SEC(".maps");

/* Reads the destination of a packet that begins with an Ethernet header; false if it has none, or is too short. */
static __always_inline bool read_destination(void *data, void *end, struct address *found)
{
    unsigned char *at = data;
    if (data + ETHERNET_HEADER > end)
        return false;
    __u16 type = *(__u16 *)(at + ETHERNET_HEADER - 2);
    at += ETHERNET_HEADER;
    for (int i = 0; i < TAGS; i++) {
        if (type != bpf_htons(ETHERTYPE_VLAN) && type != bpf_htons(ETHERTYPE_QINQ))
            break;
        if ((void *)(at + TAG) > end)
            return false;
        type = *(__u16 *)(at + 2);
        at += TAG;
    }
    if (type == bpf_htons(ETHERTYPE_IP)) {
        if ((void *)(at + IP_DESTINATION + 4) > end)
            return false;
        found->words[2] = bpf_htonl(0xffff);
        found->words[3] = *(__u32 *)(at + IP_DESTINATION);
        return true;
    }
    if (type == bpf_htons(ETHERTYPE_IPV6)) {
        if ((void *)(at + IPV6_DESTINATION + 16) > end)
            return false;
        __builtin_memcpy(found, at + IPV6_DESTINATION, sizeof(*found));
        return true;
    }
    return false;
}

static __always_inline bool is_dropped(void *data, void *end, __u64 packets, __u64 bytes)
{
    struct address destination = {};
    if (!read_destination(data, end, &destination))
        return false;
    struct gate *gate = bpf_map_lookup_elem(&gates, &destination);
    if (!gate)
        return false;
    __u32 row = gate->row;
    return is_closed(gate, bpf_map_lookup_elem(&drops, &row), packets, bytes);
}

SEC("tc")
int nic_tc(struct __sk_buff *skb)
{
    return is_dropped((void *)(long)skb->data, (void *)(long)skb->data_end, segments(skb), skb->len) ? TCX_DROP : TCX_PASS;
}

SEC("xdp")
int nic_xdp(struct xdp_md *packet)
{
    void *data = (void *)(long)packet->data, *end = (void *)(long)packet->data_end;
    return is_dropped(data, end, 1, packet->data_end - packet->data) ? XDP_DROP : XDP_PASS;
}
