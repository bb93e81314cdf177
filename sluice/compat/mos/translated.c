/* Flows by the ends that their packets have once a program has rewritten them: the answers to those have these ends. One table
 * for the flows of all contexts, as the addresses of an answer may be another's: the thread that receives packets looks
 * there for the context that gets one. A flow is its own run's. */
#include "loop.h"

#include "function/checksum_fix.h"

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

static struct sl_table table;
static unsigned live;   /* entries: nearly always there are none, and nothing is locked */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int mos_translated_open(struct mos_context *const *contexts, unsigned count)
{
    const uint64_t most = 2 * (uint64_t)mos_configuration.conf.max_concurrency * count;   /* flows, and such as begin */
    const uint64_t seed = count ? contexts[0]->seed : 0;
    return most ? sl_table_open(&table, sizeof(struct mos_translated), KEY, (uint32_t)sl_min(most, SL_TABLE_MOST), seed) : 0;
}

void mos_translated_close(void)
{
    if (table.instances)
        sl_table_close(&table);
    table = (struct sl_table){0};
}

/* The three that follow are with the lock. */
static void entries_changed(void) { __atomic_store_n(&live, (unsigned)table.live, __ATOMIC_RELEASE); }

static void forget(struct mos_flow *flow)
{
    if (flow->translated)
        sl_table_remove(&table, &flow->translated->head);
    flow->translated = NULL;
}

static const struct mos_translated *find(const struct mos_address *ends)
{
    uint64_t key[KEY];
    key_of(key, ends);
    return (const struct mos_translated *)(const void *)sl_table_find(&table, key, KEY, sl_table_hash(&table, key, KEY));
}

void mos_translated_forget(struct mos_flow *flow)
{
    if (!flow->translated)
        return;
    pthread_mutex_lock(&lock);
    forget(flow);
    entries_changed();
    pthread_mutex_unlock(&lock);
}

void mos_translated_note(struct mos_flow *flow)
{
    const struct mos_packet *packet = &flow->context->packet;
    uint64_t own[KEY], now[KEY];
    struct mos_address ends[2];
    mos_ip_ends(packet->ip, packet->tcp, ends);
    key_of(own, flow->ends);
    key_of(now, ends);
    if (!table.instances || memcmp(own, now, sizeof own) == 0)
        return;
    pthread_mutex_lock(&lock);
    if (!flow->translated || memcmp(flow->translated->key, now, sizeof now) != 0) {
        forget(flow);
        uint32_t hash = sl_table_hash(&table, now, KEY);
        struct sl_instance *made = sl_table_find(&table, now, KEY, hash) ? NULL : sl_table_create(&table, now, KEY, hash);
        flow->translated = (struct mos_translated *)(void *)made;
        if (made) {
            flow->translated->flow = flow;
            flow->translated->client = ends[flow->sender];
        }
        entries_changed();
    }
    pthread_mutex_unlock(&lock);
}

struct mos_flow *mos_translated_find(const struct mos_run *run, const struct mos_packet *packet, unsigned *from)
{
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return NULL;
    struct mos_address ends[2];
    mos_ip_ends(packet->ip, packet->tcp, ends);
    pthread_mutex_lock(&lock);
    const struct mos_translated *found = find(ends);
    struct mos_flow *flow = found && found->flow->context->run == run ? found->flow : NULL;
    *from = flow && !same(&ends[0], &found->client);
    pthread_mutex_unlock(&lock);
    return flow;
}

struct mos_run *mos_translated_run(const struct sl_frame *frame)
{
    struct sl_ip_place place;
    bool is_ip;
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return NULL;
    const uint32_t ip = sl_frame_ip(frame, &is_ip);
    if (!is_ip || !sl_ip_read(frame, ip, &place) || place.protocol != IPPROTO_TCP || !place.first ||
        place.payload + 4 > frame->captured)
        return NULL;
    struct mos_address ends[2];
    mos_ip_ends(frame->at + place.ip, frame->at + place.payload, ends);
    pthread_mutex_lock(&lock);
    const struct mos_translated *found = find(ends);
    struct mos_run *run = found ? found->flow->context->run : NULL;
    pthread_mutex_unlock(&lock);
    return run;
}
