/* The row of a flow in a store, so far. Part of flow_log.c. */
#ifndef FLOW_LOG_STORED_H
#define FLOW_LOG_STORED_H

static void holes_stored(struct sl_stored *stored, struct flow_log *log, struct row *row)
{
    uint32_t count = row->hole_count;
    SL_STORED(stored, count);
    if (stored->reads) {
        bool fits = !stored->failed && (size_t)count * sizeof *row->holes <= stored->size - stored->used &&
                    count <= log->most_holes && log->all_holes + count <= log->most_all_holes;
        row->holes = fits && count ? malloc(count * sizeof *row->holes) : NULL;
        if (!fits || (count && !row->holes)) {
            stored->failed = true;
            return;
        }
        row->hole_count = row->hole_room = count;
        log->all_holes += count;
    }
    if (count)
        sl_stored_bytes(stored, row->holes, count * sizeof *row->holes);
    for (uint32_t i = 0; i < count; i++)
        stored->failed |= row->holes[i].side > 1;
}

static void row_stored(struct sl_stored *stored, struct flow_log *log, const struct sl_box *box, struct row *row)
{
    sl_stored_bytes(stored, &row->first, offsetof(struct row, way) - offsetof(struct row, first));
    for (unsigned side = 0; side < 2; side++) {
        sl_stored_bytes(stored, &row->way[side], offsetof(struct direction, hash));
        sl_digest_stored(stored, &row->way[side].hash, SL_SHA256);
    }
    holes_stored(stored, log, row);
    SL_STORED(stored, row->holes_left_out);
    SL_STORED(stored, row->own);
    FLOW_EXTRAS(flow_extras_stored(stored, &row->extras);)
    sl_stored_bytes(stored, row->key, 16 * row->layer->half_words + row->path_length);
    for (uint32_t i = 0; i < row->path_length; i++)
        stored->failed |= row_path(row)[i] >= sl_layer_count(box);
}

SLUICE_STORED(zero, "the row of a flow so far, and SHA-256 of its streams under way") {
    struct flow_log *log = SLUICE_WORKER_OF(box);
    SL_STORED(stored, state->first_side);
    if (!sl_stored_more(stored, state->row != NULL))
        return;
    struct row *row = state->row;
    uint32_t layer = row ? row->layer->index : 0, depth = row ? row->path_length : 0;
    uint64_t number = row ? row->turn.number : 0;
    SL_STORED(stored, layer);
    SL_STORED(stored, depth);
    SL_STORED(stored, number);
    if (stored->reads) {
        bool known = !stored->failed && layer < sl_layer_count(box) && sl_layer_at(box, layer)->oriented && depth <= SL_DEPTH_MOST;
        row = state->row = known ? row_allocate(sl_layer_at(box, layer), depth) : NULL;
        if (!row) {
            stored->failed = true;
            return;
        }
        sl_in_order_begin(&log->order, &row->turn, number);
    }
    row_stored(stored, log, box, row);
}

#endif
