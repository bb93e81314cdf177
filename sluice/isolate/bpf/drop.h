/* Shared by the programs that drop packets: reasons, deadlines, and counters of drops. */
#ifndef SLUICE_ISOLATE_DROP_H
#define SLUICE_ISOLATE_DROP_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

enum { TCX_PASS = -1, TCX_DROP = 2 };
enum { REASONS = 2 }; /* spent, early */

/* Written by the controller every tick. A closed gate opens when the controller stops writing. */
struct gate {
    __u64 until; /* closed up to here, in ns of the monotonic clock */
    __u32 reason;
    __u32 row; /* of `drops` */
};

struct drops {
    __u64 packets[REASONS]; /* segments of a packet that a device would divide count each */
    __u64 bytes[REASONS];
};

static __always_inline bool is_closed(const volatile struct gate *gate, struct drops *counters, __u64 packets,
                                      __u64 bytes)
{
    __u64 until = gate->until;
    if (!until || bpf_ktime_get_ns() > until)
        return false;
    if (counters) {
        __u32 reason = gate->reason & (REASONS - 1);
        counters->packets[reason] += packets;
        counters->bytes[reason] += bytes;
    }
    return true;
}

static __always_inline __u64 segments(const struct __sk_buff *skb)
{
    return skb->gso_segs > 1 ? skb->gso_segs : 1;
}

#endif
