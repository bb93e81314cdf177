/* Flows by the ends that their packets have once a program has rewritten them: the answers to those come by these. The
 * flows of all contexts of a run, as the addresses of an answer may be another's. */
#include "loop.h"

enum { KEY = 5 };   /* words: two ends */

struct mos_translated {
    struct sl_instance head;
    uint64_t key[KEY];
    struct mos_flow *flow;
    struct mos_address client;   /* the client's end, as it is now */
};

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

int mos_translated_open(struct mos_run *run)
{
    const uint64_t most = 2 * (uint64_t)mos_configuration.conf.max_concurrency * run->count;   /* flows, and such as begin */
    const uint64_t seed = run->count ? run->contexts[0]->seed : 0;
    return most ? sl_table_open(&run->translated, sizeof(struct mos_translated), KEY, (uint32_t)sl_min(most, SL_TABLE_MOST), seed) : 0;
}

void mos_translated_close(struct mos_run *run)
{
    if (run->translated.instances)
        sl_table_close(&run->translated);
}

void mos_translated_forget(struct mos_flow *flow)
{
    if (flow->translated)
        sl_table_remove(&flow->context->run->translated, &flow->translated->head);
    flow->translated = NULL;
}

void mos_translated_note(struct mos_flow *flow)
{
    const struct mos_packet *packet = &flow->context->packet;
    uint64_t own[KEY], now[KEY];
    struct mos_address ends[2];
    struct sl_table *table = &flow->context->run->translated;
    if (!table->instances)
        return;
    mos_ip_ends(packet->ip, packet->tcp, ends);
    key_of(own, flow->ends);
    key_of(now, ends);
    if (memcmp(own, now, sizeof own) == 0 || (flow->translated && memcmp(flow->translated->key, now, sizeof now) == 0))
        return;
    mos_translated_forget(flow);
    uint32_t hash = sl_table_hash(table, now, KEY);
    struct sl_instance *made = sl_table_find(table, now, KEY, hash) ? NULL : sl_table_create(table, now, KEY, hash);
    flow->translated = (struct mos_translated *)(void *)made;
    if (made) {
        flow->translated->flow = flow;
        flow->translated->client = ends[flow->sender];
    }
}

struct mos_flow *mos_translated_find(struct mos_run *run, const struct mos_packet *packet, unsigned *from)
{
    uint64_t key[KEY];
    struct mos_address ends[2];
    if (!run->translated.live)
        return NULL;
    mos_ip_ends(packet->ip, packet->tcp, ends);
    key_of(key, ends);
    struct sl_instance *found = sl_table_find(&run->translated, key, KEY, sl_table_hash(&run->translated, key, KEY));
    if (!found)
        return NULL;
    const struct mos_translated *translated = (const struct mos_translated *)(const void *)found;
    *from = !same(&ends[0], &translated->client);
    return translated->flow;
}
