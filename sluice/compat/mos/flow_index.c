/* Flows of a context by their ends. The index is made when a program first looks for a flow: others pay nothing. */
#include "monitor.h"

#include <errno.h>

enum { KEY = 5 };   /* words: client, server */

struct mos_indexed {
    struct sl_instance head;
    uint64_t key[KEY];
    struct mos_flow *flow;
};

struct mos_flow_index { struct sl_table table; };

static void key_of(uint64_t *key, const struct mos_address ends[2])
{
    _Static_assert(2 * sizeof *ends <= KEY * sizeof *key, "a key has two ends");
    memset(key, 0, KEY * sizeof *key);
    memcpy(key, ends, 2 * sizeof *ends);
}

/* In tunnels several flows may have the same ends: the one that began first is found. */
void mos_flow_index_add(struct mos_flow *flow)
{
    struct mos_flow_index *index = flow->context->index;
    uint64_t key[KEY];
    if (!index)
        return;
    key_of(key, flow->ends);
    const uint32_t hash = sl_table_hash(&index->table, key, KEY);
    struct sl_instance *made =
        sl_table_find(&index->table, key, KEY, hash) ? NULL : sl_table_create(&index->table, key, KEY, hash);
    flow->indexed = (struct mos_indexed *)(void *)made;
    if (made)
        flow->indexed->flow = flow;
}

void mos_flow_index_remove(struct mos_flow *flow)
{
    if (flow->indexed)
        sl_table_remove(&flow->context->index->table, &flow->indexed->head);
    flow->indexed = NULL;
}

void mos_flow_index_close(struct mos_context *context)
{
    if (context->index)
        sl_table_close(&context->index->table);
    free(context->index);
    context->index = NULL;
}

/* Of all flows that there are. False without memory. */
static bool make_index(struct mos_context *context)
{
    const uint64_t most = (uint64_t)mos_configuration.conf.max_concurrency + 1;   /* and one that begins */
    struct mos_flow_index *index = calloc(1, sizeof *index);
    if (!index || sl_table_open(&index->table, sizeof(struct mos_indexed), KEY, (uint32_t)sl_min(most, SL_TABLE_MOST),
                                context->seed)) {
        free(index);
        return false;
    }
    context->index = index;
    const struct mos_queue *queues[] = {&context->open, &context->time_wait};
    for (unsigned i = 0; i < 2; i++)
        for (struct mos_flow *flow = queues[i]->first; flow; flow = flow->newer)
            mos_flow_index_add(flow);
    return true;
}

struct mos_flow *mos_flow_index_find(struct mos_context *context, const struct mos_address ends[2])
{
    uint64_t key[KEY];
    if (!context->index && !make_index(context)) {
        errno = ENOMEM;
        return NULL;
    }
    key_of(key, ends);
    struct sl_table *table = &context->index->table;
    const struct sl_instance *found = sl_table_find(table, key, KEY, sl_table_hash(table, key, KEY));
    errno = ENOENT;
    return found ? ((const struct mos_indexed *)(const void *)found)->flow : NULL;
}
