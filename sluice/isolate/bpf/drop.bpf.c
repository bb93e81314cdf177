/* Drops the packets of one container while it has used its CPU time. Loaded once for each container, and attached where a
 * drop costs others least (sluice/isolate/gates.py): every program is the same decision for another place.
 */
#include "drop.h"

char LICENSE[] SEC("license") = "GPL";

struct gate gate = {};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct drops);
} drops SEC(".maps");

static __always_inline struct drops *counters(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&drops, &zero);
}

SEC("tc")
int drop_tc(struct __sk_buff *skb)
{
    return is_closed(&gate, counters(), segments(skb), skb->len) ? TCX_DROP : TCX_PASS;
}

SEC("xdp")
int drop_xdp(struct xdp_md *packet)
{
    return is_closed(&gate, counters(), 1, packet->data_end - packet->data) ? XDP_DROP : XDP_PASS;
}
