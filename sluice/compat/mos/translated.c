/* Flows by the ends that their packets have once a program has rewritten them: the answers to those come by these. The
 * flows of all contexts, as the addresses of an answer may be another's. */
#include "monitor.h"

enum { KEY = 5 };   /* words: two ends */

struct mos_translated {
    struct sl_instance head;
    uint64_t key[KEY];
    struct mos_flow *flow;
    struct mos_address client;   /* the client's end, as it is now */
};

static struct sl_table table;

static bool same(const struct mos_address *a, const struct mos_address *b) { return memcmp(a, b, sizeof *a) == 0; }

/* Two ends, the lower one first. */
static void key_of(uint64_t *key, const struct mos_address *ends)
{
    const unsigned lower = memcmp(&ends[0], &ends[1], sizeof *ends) > 0;
    _Static_assert(2 * sizeof *ends <= KEY * sizeof *key, "a key has two ends");
    memset(key, 0, KEY * sizeof *key);
    memcpy(key, &ends[lower], sizeof *ends);
    memcpy((uint8_t *)key + sizeof *ends, &ends[lower ^ 1], sizeof *ends);
}

int mos_translated_open(uint32_t most, uint64_t seed)
{
    return table.instances ? 0 : sl_table_open(&table, sizeof(struct mos_translated), KEY, most, seed);
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
    const struct mos_packet *packet = &flow->context->packet;
    uint64_t own[KEY], now[KEY];
    struct mos_address ends[2];
    mos_ip_ends(packet->ip, packet->tcp, ends);
    key_of(own, flow->ends);
    key_of(now, ends);
    if (memcmp(own, now, sizeof own) == 0 || (flow->translated && memcmp(flow->translated->key, now, sizeof now) == 0))
        return;
    mos_translated_forget(flow);
    uint32_t hash = sl_table_hash(&table, now, KEY);
    struct sl_instance *made = sl_table_find(&table, now, KEY, hash) ? NULL : sl_table_create(&table, now, KEY, hash);
    flow->translated = (struct mos_translated *)(void *)made;
    if (made) {
        flow->translated->flow = flow;
        flow->translated->client = ends[flow->sender];
    }
}

struct mos_flow *mos_translated_find(const struct mos_packet *packet, unsigned *from)
{
    uint64_t key[KEY];
    struct mos_address ends[2];
    mos_ip_ends(packet->ip, packet->tcp, ends);
    key_of(key, ends);
    struct sl_instance *found = sl_table_find(&table, key, KEY, sl_table_hash(&table, key, KEY));
    if (!found)
        return NULL;
    const struct mos_translated *translated = (const struct mos_translated *)(const void *)found;
    *from = !same(&ends[0], &translated->client);
    return translated->flow;
}
