/* Helpers that programs for mOS include: which core gets a packet. Addresses and ports in network byte order.
 *
 * The core is the same for both directions of a flow, as it must be for a monitor. Some programs give in one more argument
 * in which order the bytes are; it makes no difference. */
#ifndef RSS_H
#define RSS_H

#include <netinet/in.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

uint32_t GetRSSHash(in_addr_t sip, in_addr_t dip, in_port_t sp, in_port_t dp);
int GetRSSCPUCore(in_addr_t sip, in_addr_t dip, in_port_t sp, in_port_t dp, int num_queues, ...);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
