/* The replacement of the pattern in a stream: single edits, or the chunks of a body; a part of edit.c. */
#ifndef SLUICE_EDIT_OUTPUT_H
#define SLUICE_EDIT_OUTPUT_H

static void edit_put(struct edit *edit, const void *bytes, size_t count) {
    if (!count)
        return;
    if (sl_edit_reserve(&edit->text, &edit->text_room, edit->text_count + count)) {
        memcpy(edit->text + edit->text_count, bytes, count);
        edit->text_count += count;
    }
}

/* Forgets the bytes of a head. */
static void edit_free_head(struct edit *edit, struct edit_http *http) {
    edit->box.held -= http->room;
    free(http->head);
    http->head = NULL;
    http->room = http->count = 0;
}

static void edit_report(const struct sl_event *event, const struct edit *edit, uint64_t offset, const char *done) {
    static const char *const modes[] = {"alert", "mask", "close", "remove", "replace"};
    if (!edit->out)
        return;
    fprintf(edit->out, "{\"packet\":%llu,", (unsigned long long)sl_packet_number(event));
    sl_write_endpoints(edit->out, event->owner, sl_event_half(event, event->side), sl_event_half(event, event->side ^ 1));
    fprintf(edit->out, ",\"offset\":%llu,\"mode\":\"%s\",\"done\":%s}\n", (unsigned long long)offset, modes[edit->mode], done);
}

/* Resets the connection: its streams cannot go on. */
static void edit_reset(const struct sl_event *event, struct edit_flow *flow) {
    flow->closed = true;
    SLUICE_COUNTER_OF(event->box, closed)++;
    if (!sl_edits_reset(event, &flow->edits))
        SLUICE_RESET(event->box);
}

/* The pattern was found at `offset`. Returns whether its bytes are to be changed. */
static bool edit_found(const struct sl_event *event, struct edit_flow *flow, uint64_t offset, bool possible) {
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    SLUICE_COUNTER_OF(event->box, found)++;
    bool changes = edit->mode != EDIT_ALERT && edit->mode != EDIT_CLOSE;
    SLUICE_COUNTER_OF(event->box, not_edited) += changes && !possible;
    edit_report(event, edit, offset, !changes || possible ? "true" : "false");
    if (edit->mode == EDIT_CLOSE && !flow->closed)
        edit_reset(event, flow);
    return changes && possible;
}

/* Does an edit of the pattern change the length? */
static bool edit_resizes(const struct edit *edit) {
    return edit->mode == EDIT_REMOVE || (edit->mode == EDIT_REPLACE && edit->with_length != edit->pattern.length);
}

/* Searches bytes that leave as they are but for the pattern; `offset` is that of the first one. */
static void edit_plain(const struct sl_event *event, struct edit_flow *flow, struct edit_scan *scan, uint64_t offset,
                       const uint8_t *at, uint32_t count, bool possible) {
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    const uint32_t length = edit->pattern.length;
    uint8_t mask[EDIT_PATTERN_MOST];
    memset(mask, '*', length);
    for (uint32_t i = 0; i < count && !flow->closed; i++) {
        scan->matched = edit_pattern_step(&edit->pattern, scan->matched, at[i]);
        if (scan->matched < length)
            continue;
        scan->matched = 0;
        uint64_t begin = offset + i + 1 - length;
        bool masks = edit->mode == EDIT_MASK, changes = edit->mode != EDIT_ALERT && edit->mode != EDIT_CLOSE;
        bool free = !scan->http.fixed || scan->http.state == EDIT_HTTP_NONE || scan->http.state == EDIT_HTTP_CLOSE;
        bool done = possible && (!edit_resizes(edit) || (free && !scan->http.doubtful));
        if (changes && done)   /* first, as it fails at a bound */
            done = sl_edits_replace(&flow->edits, event->side, begin, length, masks ? mask : edit->with,
                                    masks ? length : edit->with_length);
        edit_found(event, flow, begin, done);
    }
    sl_edits_decide(&flow->edits, event->side, offset + count - scan->matched);
    scan->from = offset + count;
}

/* Searches bytes of a body that leaves in chunks of ours, and puts the output together. */
static void edit_body(const struct sl_event *event, struct edit_flow *flow, struct edit_scan *scan, uint64_t offset,
                      const uint8_t *at, uint32_t count) {
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    for (uint32_t i = 0; i < count && !flow->closed; i++) {
        uint32_t before = scan->matched;
        scan->matched = edit_pattern_step(&edit->pattern, before, at[i]);
        if (!before && !scan->matched) {
            edit_put(edit, at + i, 1);
            continue;
        }
        if (!before)
            scan->part_at = offset + i;
        uint32_t gone = before + 1 - scan->matched;   /* bytes that are no beginning of it */
        scan->part[before < EDIT_PATTERN_MOST ? before : 0] = at[i];
        edit_put(edit, scan->part, gone);
        if (gone)
            scan->part_at = scan->matched ? offset + i + 1 - scan->matched : offset + i + 1;
        memmove(scan->part, scan->part + gone, scan->matched);
        if (scan->matched == edit->pattern.length) {
            scan->matched = 0;
            if (!edit_found(event, flow, scan->part_at, true))
                edit_put(edit, scan->part, edit->pattern.length);
            else if (edit->mode == EDIT_MASK)
                for (uint32_t k = 0; k < edit->pattern.length; k++)
                    edit_put(edit, "*", 1);
            else
                edit_put(edit, edit->with, edit->with_length);
        }
    }
}

/* The output of a body up to `to` is known: it becomes a chunk. `ends`: the message ends there. */
static void edit_chunk(const struct sl_event *event, struct edit_flow *flow, struct edit_scan *scan, uint64_t to, bool ends) {
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    char head[24];
    size_t body = edit->text_count, n = body ? (size_t)snprintf(head, sizeof head, "%zx\r\n", body) : 0;
    edit_put(edit, "................................", n);   /* room for the prefix */
    if (edit->text_count != body + n) {
        flow->closed = true;
        SLUICE_DROP(event->box);
        return;
    }
    if (n) {
        memmove(edit->text + n, edit->text, body);
        memcpy(edit->text, head, n);
        edit_put(edit, "\r\n", 2);
    }
    if (ends)
        edit_put(edit, "0\r\n\r\n", 5);
    if (to > scan->from && !sl_edits_replace(&flow->edits, event->side, scan->from, (uint32_t)(to - scan->from), edit->text,
                                             (uint32_t)edit->text_count))
        edit_reset(event, flow);   /* at a bound: the message cannot go on */
    sl_edits_decide(&flow->edits, event->side, to);
    scan->from = to;
    edit->text_count = 0;
}

/* Disables HTTP for the rest of a side. Its bytes so far leave as they are. If it may be HTTP, no more lengths change. */
static void edit_opaque(const struct sl_event *event, struct edit_flow *flow, struct edit_scan *scan) {
    const bool request = scan == &flow->scans->side[0];
    scan->http.doubtful |= scan->http.known || edit_http_looks(scan->http.head, scan->http.count, request);
    scan->http.state = EDIT_HTTP_NONE;
    scan->http.reframes = false;
    scan->matched = 0;
    if (scan->http.count)
        edit_plain(event, flow, scan, scan->from, scan->http.head, scan->http.count, flow->edits.open != NULL);
    edit_free_head(SLUICE_WORKER_OF(event->box), &scan->http);
}

#endif
