/* Cellular accounting: counts the bytes for which each subscriber is charged.
 *
 * As in the mOS slides, new bytes of TCP are charged, and retransmitted bytes are not. A retransmission whose content
 * differs from the first transmission is reported, because it can tunnel data without being charged (Go et al., NDSS
 * 2014). The subscriber is the side that opened the connection.
 *
 * In an isolated chain, a connection's sums are in the store until it ends; those of subscribers are an instance's own. With
 * `partial` there are none. */
#include "sluice.h"

#include "endpoints.h"
#include "output_file.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(subscribers, number, 1048576, "that have an account of their own; further ones share one")
SLUICE_PARAMETER(partial, flag, no,
                 "write a row for each connection when it ends, instead of one for each subscriber at the end: they add up")
SLUICE_PARAMETER(reports, number, 65536, "reports of abuse that are written at most; further ones are counted")

SLUICE_COUNTER(charged_bytes, "bytes that are charged")
SLUICE_COUNTER(uncharged_bytes, "bytes that are not charged, as they were sent before")
SLUICE_COUNTER(abused_bytes, "bytes sent again with another content")
SLUICE_COUNTER(abuses, "packets in which such bytes came")

/* Delivered bytes are stored to compare retransmissions with them. The size exceeds the window of most connections. */
SLUICE_KEEP(tcp, 65536)

struct account {
    uint64_t connections, charged[2], retransmitted, abused;   /* `charged`: by the subscriber, by the other side */
};

struct account_subscriber {
    struct sl_instance head;
    uint64_t key[3];            /* the number of bits of the address, and its words */
    struct account sum;
};

struct accounting {
    FILE *out;
    struct sl_table all;        /* struct account_subscriber */
    struct account_subscriber others;   /* the shared account */
    uint64_t reports;
    /* the current packet */
    uint64_t packet, known;     /* its number, and how many of its bytes were sent before */
    bool changed;               /* the content of these bytes differs from the first transmission */
};
SLUICE_WORKER(struct accounting)

/* The accounts of all workers are merged here at the end: a subscriber's connections may be on several of them. */
struct account_all {
    struct sl_table all;
    struct account_subscriber others;
    uint32_t closed;            /* workers that have added theirs */
};
SLUICE_COMMON(struct account_all)

/* What a connection adds to the account of its subscriber when it ends. */
SLUICE_STATE(struct account)
SLUICE_STORED(zero, "what a connection adds to the account of its subscriber") { SL_STORED(stored, *state); }

/* --- subscribers --- */

/* The account by its key; `others` where there is no room for one more. */
static struct account_subscriber *account_at(struct sl_table *all, struct account_subscriber *others, const uint64_t *key)
{
    uint32_t hash = sl_table_hash(all, key, 3);
    struct sl_instance *found = sl_table_find(all, key, 3, hash);
    if (!found && (found = sl_table_create(all, key, 3, hash)))
        ((struct account_subscriber *)(void *)found)->sum = (struct account){0};
    return found ? (struct account_subscriber *)(void *)found : others;
}

/* The key of a subscriber's account; false: its address is longer than those of IPv6. */
static bool account_key(const struct sl_event *event, uint64_t key[3])
{
    const struct sl_key_part *part = sl_address_part(event->owner);
    const uint64_t *half = sl_event_half(event, 0);
    memcpy(key, (uint64_t[3]){part->bits}, 3 * sizeof *key);
    if (part->bits > 128)
        return false;
    if (part->bits <= 64)
        key[1] = sl_part_number(part, half);
    else
        memcpy(&key[1], half + part->word, (part->bits + 63) / 64 * sizeof *key);
    return true;
}

static void account_add(struct account *to, const struct account *from)
{
    to->connections += from->connections;
    to->charged[0] += from->charged[0];
    to->charged[1] += from->charged[1];
    to->retransmitted += from->retransmitted;
    to->abused += from->abused;
}

static void account_write(FILE *out, const uint64_t *key, const struct account *sum)
{
    struct sl_key_part address = {"src", (uint32_t)key[0], 0, 0};
    fputs("{\"subscriber\":", out);
    if (address.bits)
        sl_write_address(out, &address, &key[1]);
    else
        fputs("null", out);
    fprintf(out, ",\"connections\":%llu,\"up\":%llu,\"down\":%llu,\"retransmitted\":%llu,\"abuse\":%llu}\n",
            (unsigned long long)sum->connections, (unsigned long long)sum->charged[0], (unsigned long long)sum->charged[1],
            (unsigned long long)sum->retransmitted, (unsigned long long)sum->abused);
}

/* Rows of subscribers are in the order of their first connections. */
SLUICE_ON(tcp, created) {
    if (!event->instance)
        return;
    struct accounting *accounting = SLUICE_WORKER_OF(event->box);
    uint64_t key[3];
    SLUICE_STATE_OF(event)->connections = 1;
    if (!SLUICE_PARAMETER_OF(event->box, partial) && account_key(event, key))
        account_at(&accounting->all, &accounting->others, key);
}

SLUICE_ON(tcp, end) {
    (void)data;
    if (!event->instance)
        return;
    struct accounting *accounting = SLUICE_WORKER_OF(event->box);
    uint64_t key[3];
    bool known = account_key(event, key);
    if (SLUICE_PARAMETER_OF(event->box, partial))
        account_write(accounting->out, known ? key : (const uint64_t[3]){0}, SLUICE_STATE_OF(event));
    else
        account_add(known ? &account_at(&accounting->all, &accounting->others, key)->sum : &accounting->others.sum,
                    SLUICE_STATE_OF(event));
}

/* --- charging --- */

/* The worker's state, reset at the first event of a packet. */
static struct accounting *account_packet(const struct sl_event *event)
{
    struct accounting *accounting = SLUICE_WORKER_OF(event->box);
    if (accounting->packet != sl_packet_number(event)) {
        accounting->packet = sl_packet_number(event);
        accounting->known = 0;
        accounting->changed = false;
    }
    return accounting;
}

SLUICE_ON(tcp, rexmit) { account_packet(event)->known += data->length; }

/* A retransmission whose content differs from the first transmission. */
SLUICE_EVENT(tcp, fake_rexmit, rexmit) {
    uint32_t both = (uint32_t)sl_min(data->old.captured, data->new_bytes.captured);
    return both && memcmp(data->old.at, data->new_bytes.at, both) != 0;
}

static void account_report(struct accounting *accounting, const struct sl_event *event, uint64_t offset, uint64_t length)
{
    uint64_t time = sl_packet_time(event);
    fprintf(accounting->out, "{\"abuse\":{");
    sl_write_endpoints(accounting->out, event->owner, sl_event_half(event, event->side), sl_event_half(event, event->side ^ 1));
    fprintf(accounting->out, ",\"time\":\"%llu.%09llu\",\"packet\":%llu,\"offset\":%llu,\"length\":%llu}}\n",
            (unsigned long long)(time / 1000000000), (unsigned long long)(time % 1000000000),
            (unsigned long long)sl_packet_number(event), (unsigned long long)offset, (unsigned long long)length);
}

SLUICE_ON(tcp, fake_rexmit) {
    struct accounting *accounting = account_packet(event);
    SLUICE_COUNTER_OF(event->box, abuses) += !accounting->changed;
    accounting->changed = true;
    if (event->instance && accounting->reports++ < SLUICE_PARAMETER_OF(event->box, reports))
        account_report(accounting, event, data->offset, data->length);
}

/* Bytes in a segment with RST are not part of the stream. */
static bool account_resets(const struct sl_event *event) { return event->unit.captured > 13 && event->unit.at[13] & 4; }

SLUICE_ON(tcp, packet) {
    struct accounting *accounting = account_packet(event);
    struct account *sum = event->instance ? SLUICE_STATE_OF(event) : &accounting->others.sum;
    uint64_t known = sl_min(accounting->known, data->length), fresh = account_resets(event) ? 0 : data->length - known;
    sum->charged[event->side] += fresh;
    SLUICE_COUNTER_OF(event->box, charged_bytes) += fresh;
    if (accounting->changed) {
        sum->abused += known;
        SLUICE_COUNTER_OF(event->box, abused_bytes) += known;
    } else {
        sum->retransmitted += known;
        SLUICE_COUNTER_OF(event->box, uncharged_bytes) += known;
    }
    accounting->packet = 0;   /* another TCP layer in this packet, for example in a tunnel, starts at 0 */
}

/* --- opening and closing --- */

SLUICE_OPEN {
    struct accounting *accounting = SLUICE_WORKER_OF(box);
    uint32_t most = (uint32_t)sl_min(sl_max(SLUICE_PARAMETER_OF(box, subscribers), 1), SL_TABLE_MOST);
    if (sl_table_open(&accounting->all, sizeof(struct account_subscriber), 3, most, sl_seed(box)))
        return -1;
    accounting->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    if (!accounting->out) {
        sl_table_close(&accounting->all);
        return -1;
    }
    return 0;
}

/* Adds this worker's accounts to those of the others; its own table is released. */
static void account_together(struct account_all *common, struct accounting *accounting)
{
    if (!common->closed++) {
        common->all = accounting->all;
        common->others = accounting->others;
        return;
    }
    for (uint32_t slot = 0; slot < accounting->all.high_water; slot++) {
        const struct sl_instance *instance = sl_table_at(&accounting->all, slot);
        const struct account_subscriber *own = (const struct account_subscriber *)(const void *)instance;
        if (own)
            account_add(&account_at(&common->all, &common->others, own->key)->sum, &own->sum);
    }
    account_add(&common->others.sum, &accounting->others.sum);
    sl_table_close(&accounting->all);
}

static void write_accounts(FILE *out, struct account_all *common)
{
    for (uint32_t slot = 0; slot < common->all.high_water; slot++) {
        struct sl_instance *instance = sl_table_at(&common->all, slot);
        const struct account_subscriber *subscriber = (const struct account_subscriber *)(const void *)instance;
        if (subscriber)
            account_write(out, subscriber->key, &subscriber->sum);
    }
    const struct account *others = &common->others.sum;   /* includes packets without an instance */
    if (others->connections || others->charged[0] || others->charged[1] || others->retransmitted || others->abused)
        account_write(out, common->others.key, others);
    sl_table_close(&common->all);
}

SLUICE_CLOSE {
    struct accounting *accounting = SLUICE_WORKER_OF(box);
    struct account_all *common = SLUICE_COMMON_OF(box);
    SLUICE_LOCK(box);
    account_together(common, accounting);
    if (common->closed == SLUICE_WORKERS(box))
        write_accounts(accounting->out, common);
    SLUICE_UNLOCK(box);
    sl_rows_close(box, accounting->out, "account");
}
