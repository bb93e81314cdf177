/* Flows by the ends that their packets have once a program has rewritten them: the answers to those come by these. The
 * flows of all contexts, as the addresses of an answer may be another's. */
#include "monitor.h"

struct mos_translated {
    struct sl_instance head;
    uint64_t key[2];
    struct mos_flow *flow;
    in_addr_t client;            /* the client's end, as it is now */
    in_port_t client_port;
};

static struct sl_table table;

/* Two ends, the lower one first. */
static void ends(uint64_t *key, const in_addr_t *address, const in_port_t *port)
{
    uint64_t from = (uint64_t)address[0] << 16 | port[0], to = (uint64_t)address[1] << 16 | port[1];
    key[0] = sl_min(from, to);
    key[1] = sl_max(from, to);
}

/* Source and destination of a packet. */
static void ends_of_packet(const struct mos_packet *packet, in_addr_t *address, in_port_t *port)
{
    memcpy(address, packet->ip + 12, 2 * sizeof *address);
    memcpy(port, packet->tcp, 2 * sizeof *port);
}

int mos_translated_open(uint32_t most, uint64_t seed)
{
    return table.instances ? 0 : sl_table_open(&table, sizeof(struct mos_translated), 2, most, seed);
}

void mos_translated_close(void) { sl_table_close(&table); }

void mos_translated_forget(struct mos_flow *flow)
{
    if (flow->translated)
        sl_table_remove(&table, &flow->translated->head);
    flow->translated = NULL;
}

void mos_translated_note(struct mos_flow *flow)
{
    uint64_t own[2], now[2];
    in_addr_t address[2];
    in_port_t port[2];
    ends_of_packet(&flow->context->packet, address, port);
    ends(own, flow->address, flow->port);
    ends(now, address, port);
    if (memcmp(own, now, sizeof own) == 0 || (flow->translated && memcmp(flow->translated->key, now, sizeof now) == 0))
        return;
    mos_translated_forget(flow);
    uint32_t hash = sl_table_hash(&table, now, 2);
    struct sl_instance *made = sl_table_find(&table, now, 2, hash) ? NULL : sl_table_create(&table, now, 2, hash);
    flow->translated = (struct mos_translated *)(void *)made;
    if (made) {
        flow->translated->flow = flow;
        flow->translated->client = address[flow->sender];
        flow->translated->client_port = port[flow->sender];
    }
}

struct mos_flow *mos_translated_find(const struct mos_packet *packet, unsigned *from)
{
    uint64_t key[2];
    in_addr_t address[2];
    in_port_t port[2];
    ends_of_packet(packet, address, port);
    ends(key, address, port);
    struct sl_instance *found = sl_table_find(&table, key, 2, sl_table_hash(&table, key, 2));
    if (!found)
        return NULL;
    const struct mos_translated *translated = (const struct mos_translated *)(const void *)found;
    *from = address[0] != translated->client || port[0] != translated->client_port;
    return translated->flow;
}
