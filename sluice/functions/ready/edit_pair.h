/* Connections whose two directions have different ends in the box, as another function rewrites addresses or ports (nat,
 * balance): the answer to a packet names the ends with which that left, so that the stack has another instance for it. Both
 * instances share what edit stores of the connection, which the ends as they left lead to; a part of edit.c. */
#ifndef SLUICE_EDIT_PAIR_H
#define SLUICE_EDIT_PAIR_H

#include "core/siphash.h"

enum { EDIT_PAIR_BUCKETS = 1 << 14 };

static struct edit_ends edit_ends_of(const uint8_t *frame, const struct sl_edit_places *places) {
    const uint32_t which = sl_edit_ip(places), at = places->header[which].at;
    const bool four = places->header[which].kind == SL_EDIT_IPV4;
    const uint32_t size = four ? 4 : 16, from = at + (four ? 12 : 8);
    struct edit_ends ends = {0};
    memcpy(ends.from, frame + from, size);
    memcpy(ends.to, frame + from + size, size);
    memcpy(ends.from + 16, frame + places->tcp, 2);
    memcpy(ends.to + 16, frame + places->tcp + 2, 2);
    return ends;
}

static struct edit_flow **edit_pair_bucket(struct edit *edit, const struct sl_box *box, const struct edit_ends *ends) {
    uint8_t key[16];
    sl_siphash_key(key, sl_seed(box), "edit");
    return &edit->pairs[sl_siphash(key, (const uint8_t *)ends, sizeof *ends) % EDIT_PAIR_BUCKETS];
}

/* The connection that left with these ends; NULL: none. */
static struct edit_flow *edit_pair_find(struct edit *edit, const struct sl_box *box, const struct edit_ends *ends) {
    struct edit_flow *flow = edit->pairs ? *edit_pair_bucket(edit, box, ends) : NULL;
    while (flow && memcmp(&flow->left_as, ends, sizeof *ends) != 0)
        flow = flow->next;
    return flow;
}

static void edit_pair_remove(struct edit *edit, const struct sl_box *box, struct edit_flow *flow) {
    if (!flow->paired || !edit->pairs)
        return;
    struct edit_flow **place = edit_pair_bucket(edit, box, &flow->left_as);
    while (*place != flow)
        place = &(*place)->next;
    *place = flow->next;
    flow->paired = false;
}

/* Called when a SYN leaves: notes its ends, if they are others than those with which it came. */
static void edit_pair_add(struct sl_box *box, const struct sl_frame *frame, void *of) {
    struct edit_flow *flow = of;
    struct edit *edit = SLUICE_WORKER_OF(box);
    const uint8_t *changed = sl_output_changed(box);
    if (!changed)
        return;
    const struct edit_ends came = edit_ends_of(frame->at, &edit->syn_places);
    const struct edit_ends leaves = edit_ends_of(changed, &edit->syn_places);
    if (memcmp(&came, &leaves, sizeof came) == 0)
        return;
    if (!edit->pairs && !(edit->pairs = calloc(EDIT_PAIR_BUCKETS, sizeof *edit->pairs)))
        return;
    struct edit_flow *before = edit_pair_find(edit, box, &leaves);
    if (before)
        edit_pair_remove(edit, box, before);
    edit_pair_remove(edit, box, flow);
    flow->left_as = leaves;
    struct edit_flow **bucket = edit_pair_bucket(edit, box, &leaves);
    flow->next = *bucket;
    *bucket = flow;
    flow->paired = true;
}

/* An instance does not belong to its connection any more, which ends with the last one. */
static void edit_leave(struct sl_box *box, struct edit_half *half) {
    struct edit_flow *flow = half->flow;
    struct edit *edit = SLUICE_WORKER_OF(box);
    half->flow = NULL;
    if (!flow || --flow->halves)
        return;
    sl_edits_close(box, &flow->edits);
    edit_pair_remove(edit, box, flow);
    for (unsigned side = 0; flow->scans && side < 2; side++)
        edit_free_head(edit, &flow->scans->side[side].http);
    free(flow->scans);
    sl_output_forget(box, flow);
    free(flow);
}

/* The connection of the current packet's instance, a new one at first; NULL without memory. A SYN/ACK that answers a SYN which
 * left with other ends belongs to that one's. Its sender must be the other side there, as it is unless the instance began with
 * another packet. */
static struct edit_flow *edit_join(const struct sl_event *event, struct edit_half *half, struct edit *edit) {
    const uint8_t syn = event->unit.captured >= 20 ? event->unit.at[13] & (SL_TCP_SYN | SL_TCP_ACK) : 0;
    if (syn == (SL_TCP_SYN | SL_TCP_ACK) && edit->pairs && sl_edit_find_places(event, &edit->syn_places) == SL_EDIT_NONE) {
        const struct edit_ends ends = edit_ends_of(sl_packet_frame(event)->at, &edit->syn_places);
        struct edit_ends answered;
        memcpy(answered.from, ends.to, sizeof answered.from);
        memcpy(answered.to, ends.from, sizeof answered.to);
        struct edit_flow *flow = edit_pair_find(edit, event->box, &answered);
        if (flow && flow != half->flow && flow->opener != (event->side & 1)) {
            edit_leave(event->box, half);
            half->flow = flow;
            flow->halves++;
        }
    }
    if (!half->flow && (half->flow = calloc(1, sizeof *half->flow)))
        half->flow->halves = 1;
    return half->flow;
}

/* Looks at the end of the current packet, if it is a SYN, with which ends it leaves. */
static void edit_pair_watch(const struct sl_event *event, struct edit_flow *flow) {
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    if (event->unit.captured < 20 || (event->unit.at[13] & (SL_TCP_SYN | SL_TCP_ACK)) != SL_TCP_SYN ||
        !sl_output_unclaimed(event->box) || sl_edit_find_places(event, &edit->syn_places) != SL_EDIT_NONE)
        return;
    flow->opener = event->side & 1;
    sl_output_claim(event->box, edit_pair_add, flow);
}

#endif
