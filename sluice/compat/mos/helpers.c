/* Helpers that programs for mOS call: cpu.h, rss.h. */
#include "cpu.h"
#include "rss.h"

#include "mos_api.h"

#include <unistd.h>

int GetNumCPUs(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

/* All contexts run in one thread, which stays where it is. */
int CoreAffinitize(int cpu) { return cpu >= 0 && cpu < GetNumCPUs() ? 0 : -1; }

int mtcp_core_affinitize(int cpu) { return CoreAffinitize(cpu); }

/* The same for both directions: the ends are added. */
uint32_t GetRSSHash(in_addr_t sip, in_addr_t dip, in_port_t sp, in_port_t dp)
{
    uint64_t a = (uint64_t)sip << 16 | sp, b = (uint64_t)dip << 16 | dp;
    uint64_t hash = (a + b) * UINT64_C(0x9e3779b97f4a7c15) ^ (a ^ b) * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (uint32_t)(hash >> 32);
}

int GetRSSCPUCore(in_addr_t sip, in_addr_t dip, in_port_t sp, in_port_t dp, int num_queues, ...)
{
    return num_queues > 0 ? (int)(GetRSSHash(sip, dip, sp, dp) % (uint32_t)num_queues) : 0;
}
