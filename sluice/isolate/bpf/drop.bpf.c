/* Drops the packets of one container while it has used its CPU time. Loaded once for each container, and attached where a
 * drop costs others least (sluice/isolate/gates.py): every program is the same decision for another place.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

enum { TCX_PASS = -1, TCX_DROP = 2 };
enum { REASONS = 2 }; /* spent, early */

/* Written by the controller every tick. A closed gate opens when the controller stops writing. */
struct gate {
    __u64 until; /* closed up to here, in ns of the monotonic clock */
    __u32 reason;
    __u32 spare;
};

struct drops {
    __u64 packets[REASONS]; /* segments of a packet that a device would divide count each */
    __u64 bytes[REASONS];
};

struct gate gate = {};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct drops);
} drops SEC(".maps");

static __always_inline bool is_closed(__u64 packets, __u64 bytes)
{
    __u32 zero = 0;
    __u64 until = *(volatile __u64 *)&gate.until;
    if (!until || bpf_ktime_get_ns() > until)
        return false;
    struct drops *counters = bpf_map_lookup_elem(&drops, &zero);
    if (counters) {
        __u32 reason = gate.reason & (REASONS - 1);
        counters->packets[reason] += packets;
        counters->bytes[reason] += bytes;
    }
    return true;
}

static __always_inline int decide(struct __sk_buff *skb)
{
    return is_closed(skb->gso_segs > 1 ? skb->gso_segs : 1, skb->len) ? TCX_DROP : TCX_PASS;
}

SEC("tc")
int drop_tc(struct __sk_buff *skb)
{
    return decide(skb);
}

SEC("xdp")
int drop_xdp(struct xdp_md *packet)
{
    return is_closed(1, packet->data_end - packet->data) ? XDP_DROP : XDP_PASS;
}
