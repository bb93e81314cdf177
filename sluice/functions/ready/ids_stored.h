/* The state of a flow in a store: what rules have decided about it, its bits, the streams of both sides with Hyperscan's state, and
 * messages of TLS and DNS under way. Part of ids.c.
 *
 * Messages of HTTP, and what a key log has opened, are not stored: they begin again with their next bytes. */
#ifndef IDS_STORED_H
#define IDS_STORED_H

/* The state of Hyperscan's stream belongs to a database: it is not read with another one. */
static void ids_patterns_stored(struct sl_stored *stored, struct sl_box *box, struct ids_side *side)
{
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_group *group = &ids->table.groups[side->group];
    uint64_t database = 0, wanted;
    uint32_t count = 0;
    size_t bytes = 0, used = 0;
    if (!sl_stored_more(stored, side->patterns != NULL))
        return;
    if (group->database && hs_database_size(group->database, &bytes) == HS_SUCCESS)
        database = bytes << 24 ^ group->stream_size << 12 ^ group->count;
    wanted = database;
    SL_STORED(stored, database);
    stored->failed |= database != wanted || !database;
    if (!stored->reads && !stored->failed) {
        char *to = (char *)stored->at + stored->used + sizeof count;   /* after its size */
        size_t room = stored->size - stored->used;
        if (room <= sizeof count || hs_compress_stream(side->patterns, to, room - sizeof count, &used) != HS_SUCCESS) {
            stored->failed = true;
            return;
        }
        count = (uint32_t)used;
        SL_STORED(stored, count);
        stored->used += used;
        return;
    }
    SL_STORED(stored, count);
    if (stored->failed || count > stored->size - stored->used || !log_take(&ids->budget, group->stream_size)) {
        stored->failed = true;
        return;
    }
    if (hs_expand_stream(group->database, &side->patterns, (const char *)stored->at + stored->used, count) != HS_SUCCESS) {
        side->patterns = NULL;
        log_give(&ids->budget, group->stream_size);
        stored->failed = true;
        return;
    }
    stored->used += count;
}

/* A list of items, of which there are at most `most`. */
static void ids_list_stored(struct sl_stored *stored, struct sl_box *box, void **items, uint32_t *count, uint32_t *room, uint32_t most,
                            size_t size)
{
    uint32_t number = *count;
    SL_STORED(stored, number);
    if (stored->reads && number) {
        bool fits = !stored->failed && number <= most && number * size <= stored->size - stored->used;
        *items = fits ? ids_take(box, number * size) : NULL;
        if (!*items) {
            stored->failed = true;
            return;
        }
        *count = *room = number;
    }
    if (number)
        sl_stored_bytes(stored, *items, number * size);
}

static void ids_side_stored(struct sl_stored *stored, struct sl_box *box, struct ids_side *side)
{
    struct ids *ids = SLUICE_WORKER_OF(box);
    void *window = side->window, *hot = side->hot, *held = side->held;
    uint32_t used = window ? (uint32_t)(side->end - side->begin) : 0, room = 0;
    SL_STORED(stored, side->origin);
    SL_STORED(stored, side->begin);
    SL_STORED(stored, side->end);
    SL_STORED(stored, side->group);
    SL_STORED(stored, side->time);
    SL_STORED(stored, side->number);
    SL_STORED(stored, side->over);
    if (side->group >= ids->table.group_count) {
        side->group = 0;
        stored->failed = true;
    }
    ids_list_stored(stored, box, &window, &used, &room, (uint32_t)(2 * ids->block), 1);
    ids_list_stored(stored, box, &hot, &side->hot_count, &side->hot_room, IDS_HOT_MOST, sizeof *side->hot);
    ids_list_stored(stored, box, &held, &side->held_count, &side->held_room, IDS_HELD_MOST, sizeof *side->held);
    if (stored->reads) {
        side->window = window;
        side->room = room;
        side->hot = hot;
        side->held = held;
        stored->failed |= side->end < side->begin || (used && side->end - side->begin != used);
        for (uint32_t i = 0; i < side->hot_count; i++)
            stored->failed |= side->hot[i].part >= ids->table.part_count;
        if (stored->failed)
            side->hot_count = 0;
    }
    ids_patterns_stored(stored, box, side);
}

static void ids_flow_stored(struct sl_stored *stored, struct sl_box *box, struct ids_flow *flow)
{
    struct ids *ids = SLUICE_WORKER_OF(box);
    bool http = flow->http, begun = flow->opened || (flow->http && (flow->http->side[0].known || flow->http->side[1].known));
    if (flow->bits)
        sl_stored_bytes(stored, flow->bits, ids_bits_size(ids));
    for (unsigned side = 0; side < 2; side++)
        ids_side_stored(stored, box, &flow->side[side]);
    if (sl_stored_more(stored, flow->tls != NULL) && (flow->tls || (flow->tls = ids_take(box, sizeof *flow->tls)))) {
        for (unsigned side = 0; side < 2; side++)
            tls_side_stored(stored, &flow->tls->side[side], &ids->budget);
        SL_STORED(stored, flow->tls->head);
        SL_STORED(stored, flow->tls->head_used);
        for (unsigned side = 0; side < 2; side++)
            flow->tls->head_used[side] = (uint8_t)sl_min(flow->tls->head_used[side], IDS_SSL2_HEAD);
    }
    if (sl_stored_more(stored, flow->dns != NULL) && (flow->dns || (flow->dns = ids_take(box, sizeof *flow->dns)))) {
        SL_STORED(stored, *flow->dns);
        for (unsigned side = 0; side < 2; side++) {
            struct ids_dns_side *dns = &flow->dns->side[side];
            if (dns->head_used > sizeof dns->head || dns->used > IDS_DNS_STORED || dns->left > UINT16_MAX)
                *dns = (struct ids_dns_side){.lost = true};
        }
    }
    SL_STORED(stored, http);
    SL_STORED(stored, begun);
    if (stored->reads && http && !stored->failed)
        flow->http = ids_http_open(box, flow, false);
    SLUICE_COUNTER_OF(box, ids_begun_anew) += stored->reads && begun;
}

SLUICE_STORED(zero, "what rules have decided about a flow, its bits, and the streams of both sides") {
    struct log_output *log = &SLUICE_WORKER_OF(box)->log;
    struct ids_flow *flow = state->flow;
    struct log_flow ends = flow ? flow->flow : (struct log_flow){.layer = sl_layer_at(box, 0)};
    bool bits = flow && flow->bits, quic = state->quic.over || state->quic.session;
    log_path_stored(stored, log, box, &state->path);
    SL_STORED(stored, state->established);
    SL_STORED(stored, state->sent);
    SL_STORED(stored, state->left_out);
    SL_STORED(stored, state->passed);
    SL_STORED(stored, state->blocked);
    SL_STORED(stored, quic);
    if (stored->reads)
        state->quic.over = quic;
    if (!sl_stored_more(stored, flow != NULL))
        return;
    log_flow_stored(stored, log, box, &ends);
    SL_STORED(stored, bits);
    if (stored->reads && (stored->failed || !(flow = ids_flow_made(box, state, ends, bits)))) {
        stored->failed = true;
        return;
    }
    stored->failed |= bits != (flow->bits != NULL);
    if (!stored->failed)
        ids_flow_stored(stored, box, flow);
}

#endif
