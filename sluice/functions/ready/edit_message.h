/* The bytes of a stream, message by message; a part of edit.c. */
#ifndef SLUICE_EDIT_MESSAGE_H
#define SLUICE_EDIT_MESSAGE_H

/* A head is complete: searches it, and lets it leave, changed where its body will be. */
static void edit_head(const struct sl_event *event, struct edit_flow *flow, unsigned side, uint64_t end, bool possible) {
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    struct edit_scan *scan = &flow->scans->side[side];
    struct edit_http *http = &scan->http;
    struct edit_http both[2] = {flow->scans->side[0].http, flow->scans->side[1].http};
    struct edit_http_fields fields;
    const uint32_t length = edit->pattern.length;
    bool is_head = edit_http_head(both, side, &flow->scans->requests, (const char *)http->head, http->count, &fields);
    for (unsigned each = 0; each < 2; each++)
        flow->scans->side[each].http = both[each];
    if (!is_head) {
        edit_opaque(event, flow, scan);
        return;
    }
    const bool rewrites = possible && edit->mode != EDIT_ALERT, changes = rewrites && edit->mode != EDIT_CLOSE;
    const bool body = http->state == EDIT_HTTP_LENGTH;
    http->reframes = changes && (http->state == EDIT_HTTP_SIZE || (body && edit_resizes(edit) && !http->fixed));
    uint32_t begins = scan->matched = 0;
    edit->text_count = 0;
    for (uint32_t i = 0; i < http->count && !flow->closed; i++) {
        if (body && http->reframes && i >= fields.length_at && i < fields.length_end) {
            if (i == fields.length_at)
                edit_put(edit, "Transfer-Encoding: chunked\r\n", 28);
            begins = i + 1;
            scan->matched = 0;
            continue;
        }
        bool accepts = rewrites && fields.accepts && i == fields.accepts;
        edit_put(edit, accepts ? "X" : (const char *)&http->head[i], 1);   /* a compressed body could not be searched */
        scan->matched = edit_pattern_step(&edit->pattern, scan->matched, http->head[i]);
        if (scan->matched < length || i + 1 < begins + length)
            continue;
        scan->matched = 0;
        if (!edit_found(event, flow, scan->from + i + 1 - length, possible))
            continue;
        edit->text_count -= sl_min(edit->text_count, length);
        for (uint32_t k = 0; edit->mode == EDIT_MASK && k < length; k++)
            edit_put(edit, "*", 1);
        edit_put(edit, edit->with, edit->with_length);
    }
    scan->matched = 0;
    if (rewrites && !flow->closed && (edit->text_count != http->count || memcmp(edit->text, http->head, http->count)) &&
        !sl_edits_replace(&flow->edits, side, scan->from, http->count, edit->text, (uint32_t)edit->text_count))
        http->reframes = false;
    http->fixed = http->fixed || !http->reframes;   /* the head that leaves names the length */
    sl_edits_decide(&flow->edits, side, end);
    scan->from = end;
    edit->text_count = 0;
    edit_free_head(edit, http);
}

/* Collects bytes of a head. Returns how many were of it. */
static uint32_t edit_collect(const struct sl_event *event, struct edit_flow *flow, unsigned side, uint64_t offset,
                             const uint8_t *at, uint32_t count, bool possible) {
    struct edit_scan *scan = &flow->scans->side[side];
    struct edit_http *http = &scan->http;
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    const size_t room = http->room;
    const bool fits = edit->box.held <= sl_edit_held_most &&
                      sl_edit_reserve(&http->head, &http->room, sl_min(http->count + count, EDIT_HEAD_MOST));
    edit->box.held += http->room - room;
    if (!fits) {
        edit->box.no_room++;
        edit_opaque(event, flow, scan);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = http->count;
        if (n == EDIT_HEAD_MOST || (n < 24 && !edit_http_begins(http->head, n, side == 0))) {
            edit_opaque(event, flow, scan);
            return i;
        }
        http->head[http->count++] = at[i];
        bool empty = at[i] == '\n' && n && (http->head[n - 1] == '\n' || (n > 1 && http->head[n - 1] == '\r' && http->head[n - 2] == '\n'));
        if (empty) {
            edit_head(event, flow, side, offset + i + 1, possible);
            return i + 1;
        }
    }
    if (!edit_http_begins(http->head, (uint32_t)sl_min(http->count, 24), side == 0))
        edit_opaque(event, flow, scan);
    return count;
}

/* Searches delivered bytes of a side. possible: the connection can be edited. */
static void edit_bytes(const struct sl_event *event, struct edit_flow *flow, unsigned side, uint64_t offset, const uint8_t *at,
                       uint32_t count, bool possible) {
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    struct edit_scan *scan = &flow->scans->side[side];
    bool framed = false;
    edit->text_count = 0;
    for (uint32_t done = 0; done < count && !flow->closed;) {
        const uint32_t left = count - done;
        if (scan->http.state == EDIT_HTTP_NONE) {
            edit_plain(event, flow, scan, offset + done, at + done, left, possible);
            return;
        }
        if (scan->http.state == EDIT_HTTP_HEAD) {
            done += edit_collect(event, flow, side, offset + done, at + done, left, possible);
            continue;
        }
        bool body, ended, reframes = scan->http.reframes;
        uint32_t here = edit_http_next(&scan->http, at + done, left, &body, &ended);
        if (scan->http.state == EDIT_HTTP_NONE && reframes) {   /* no receiver could parse the rest */
            edit_reset(event, flow);
            return;
        }
        scan->http.doubtful |= scan->http.state == EDIT_HTTP_NONE;
        if (reframes && body)
            edit_body(event, flow, scan, offset + done, at + done, here);
        else if (!reframes && body)
            edit_plain(event, flow, scan, offset + done, at + done, here, possible);
        else if (!reframes)
            sl_edits_decide(&flow->edits, side, offset + done + here);
        done += here;
        framed = reframes;
        if (ended) {
            if (reframes) {
                edit_put(edit, scan->part, scan->matched);
                scan->matched = 0;
                edit_chunk(event, flow, scan, offset + done, true);
            }
            sl_edits_decide(&flow->edits, side, offset + done);
            scan->matched = 0;
            scan->from = offset + done;
            scan->http.reframes = framed = false;
        }
    }
    if (framed && !flow->closed)
        edit_chunk(event, flow, scan, scan->matched ? scan->part_at : offset + count, false);
}

#endif
