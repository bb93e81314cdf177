/* Divides the time of a section among the containers whose packets it processed (thesis, 2.2.1). */
#ifndef SLUICE_ISOLATE_CHARGE_H
#define SLUICE_ISOLATE_CHARGE_H

#include "owner.h"

/* Charges the time since the last call to the current task; returns it. */
static __always_inline __u64 advance(struct cpu *cpu)
{
    __u64 now = bpf_ktime_get_ns();
    __u64 passed = now - cpu->since;
    struct account *account = account_of(cpu->runner);
    if (account)
        account->run += passed;
    cpu->since = now;
    return passed;
}

/* Adds the time since the last call to the packet that is processed, or to the time that packets share. */
static __always_inline void advance_section(struct cpu *cpu)
{
    __u64 passed = advance(cpu);
    __u32 current = cpu->current;
    if (current < PARTIES)
        cpu->party[current].ns += passed;
    else
        cpu->shared += passed;
}

/* Time that passed in the context of one slot is charged to another. */
static __always_inline struct account *transfer(__u32 runner, __u32 owner, __u64 ns)
{
    struct account *charged = account_of(owner);
    if (!charged)
        return NULL;
    if (runner == owner) {
        charged->own_network += ns;
        return charged;
    }
    struct account *paying = account_of(runner);
    if (!paying)
        return NULL;
    paying->for_others += ns;
    if (runner == SLOT_IDLE)
        charged->by_idle += ns;
    else if (runner == SLOT_HOST)
        charged->by_host += ns;
    else
        charged->by_containers += ns;
    return charged;
}

/* Counts a packet for its container. The last place is shared by all containers without one. */
static __always_inline struct party *add_packet(struct cpu *cpu, __u32 owner)
{
    __u32 found = cpu->current;
    cpu->last_owner = owner;
    cpu->packets++;
    if (found >= PARTIES || cpu->party[found].slot != owner) {
        for (found = 0; found < PARTIES - 1; found++)
            if (found >= cpu->parties || cpu->party[found].slot == owner)
                break;
        if (found >= cpu->parties) {
            struct party empty = {.slot = owner};
            cpu->parties = found + 1;
            cpu->party[found] = empty;
        } else if (cpu->party[found].slot != owner) {
            __sync_fetch_and_add(&control.crowded, 1);
        }
    }
    cpu->party[found].packets++;
    cpu->found = found;
    return &cpu->party[found];
}

/* The packet that is processed is found to belong to another container than by its device or addresses. */
static __always_inline void reassign(struct cpu *cpu, __u32 owner)
{
    __u32 before = cpu->current;
    if (before >= PARTIES || cpu->party[before].slot == owner || !cpu->party[before].received)
        return;
    cpu->party[before].packets--;
    cpu->party[before].received--;
    cpu->packets--;
    add_packet(cpu, owner)->received++;
    cpu->current = cpu->found;
}

static __always_inline void open_section(struct cpu *cpu, __u32 section)
{
    cpu->section = section;
    cpu->current = NO_PARTY;
    cpu->parties = 0;
    cpu->packets = 0;
    cpu->shared = 0;
    cpu->last_owner = SLOT_HOST;
}

/* Whether all time of the section is network time, even with no packet seen. */
static __always_inline bool is_network(__u32 section)
{
    return section == VECTOR_NET_RX + 1 || section == VECTOR_NET_TX + 1 || section == SECTION_NAPI_THREAD;
}

/* Without a packet: the tail of a section belongs to its last packet; a section without any to the container whose system
 * call raised it, else to the host.
 */
static __always_inline void settle_without_packets(struct cpu *cpu, __u64 interrupts)
{
    transfer(cpu->runner, cpu->last_owner, cpu->shared);
    if (interrupts) {
        struct account *charged = transfer(cpu->interrupted, cpu->last_owner, interrupts);
        if (charged)
            charged->interrupts_ns += interrupts;
    }
}

/* Charges the time since the last settlement. Time of single packets goes to their containers; shared time, and the
 * interrupts before it, is divided by packets. So is all of it if `batched`: a device's poll hands packets on in
 * lists, which the time between two packets does not show.
 */
static __always_inline void settle(struct cpu *cpu, bool batched)
{
    __u64 interrupts = 0;
    __u64 packets = cpu->packets;
    if (is_network(cpu->section)) {
        __u64 total = cpu->interrupts_total;
        interrupts = total - cpu->interrupts_settled;
        cpu->interrupts_settled = total;
        if (!packets)
            settle_without_packets(cpu, interrupts);
    }
    if (packets && batched && cpu->parties > 1) {
        for (__u32 i = 0; i < PARTIES && i < cpu->parties; i++) {
            cpu->shared += cpu->party[i].ns;
            cpu->party[i].ns = 0;
        }
    }
    __u64 shared = cpu->shared;
    for (__u32 i = 0; packets && i < PARTIES && i < cpu->parties; i++) {
        struct party *party = &cpu->party[i];
        __u64 of_interrupts = interrupts * party->packets / packets;
        __u64 of_shared = shared * party->packets / packets;
        struct account *charged = transfer(cpu->runner, party->slot, party->ns + of_shared);
        if (charged) {
            charged->received += party->received;
            charged->transmitted += party->transmitted;
        }
        if (of_interrupts) {
            charged = transfer(cpu->interrupted, party->slot, of_interrupts);
            if (charged)
                charged->interrupts_ns += of_interrupts;
        }
    }
    cpu->current = NO_PARTY;
    cpu->parties = 0;
    cpu->packets = 0;
    cpu->shared = 0;
}

#endif
