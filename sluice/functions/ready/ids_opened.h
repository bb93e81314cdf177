/* TLS over TCP whose secrets are known: rules on streams are evaluated on the application data of each side, as on a stream of
 * its own, besides the records; and HTTP in it is read. */
#ifndef IDS_OPENED_H
#define IDS_OPENED_H

#include "ids_http.h"

/* The inspected data of a side: the packet may be of the other one, for whose records this one's waited. */
static struct ids_seen ids_opened_seen(const struct ids_opened *opened, unsigned number, bool within) {
    struct ids_seen seen = *opened->seen;
    seen.side = number;
    if (seen.frames)
        seen.frames = within ? &opened->flow->opened->side[number].frames : &opened->flow->side[number].frames;
    return seen;
}

static bool ids_opened_may_begin(void *user, unsigned number) {
    const struct ids_http *http = ((struct ids_opened *)user)->flow->http;
    return !http || http->side[number].state == HTTP_SEARCHING || http->side[number].state == HTTP_TUNNEL;
}

static void ids_opened_begins(void *user, unsigned number) {
    struct ids_http *http = ((struct ids_opened *)user)->flow->http;
    if (http)
        http_side_begin(&http->side[number]);
}

static void ids_opened_data(void *user, unsigned number, const uint8_t *at, uint32_t length, bool within) {
    struct ids_opened *opened = user;
    struct ids_flow *flow = opened->flow;
    struct ids_seen seen = ids_opened_seen(opened, number, within);
    if (flow->http)
        ids_http_bytes(flow->http, &seen, at, length);
    if (!within)   /* rules on streams match them as they were sent */
        return;
    SLUICE_COUNTER_OF(opened->box, ids_tls_opened) += !opened->tls->read;
    seen.http = flow->http && (flow->http->side[0].known || flow->http->side[1].known);
    if (ids_has(opened->box, IDS_STREAM) && ids_open_to(&seen))
        ids_stream_bytes(opened->box, &opened->side[number], &seen, at, length);
}

static void ids_opened_gap(void *user, unsigned number, uint64_t length, bool within) {
    struct ids_opened *opened = user;
    struct ids_seen seen = ids_opened_seen(opened, number, within);
    struct ids_side *side = &opened->side[number];
    if (opened->flow->http)
        ids_http_gap(opened->flow->http, &seen, length);
    if (within && ids_has(opened->box, IDS_STREAM))
        ids_stream_gap(opened->box, side, &seen, side->end + length);
}

/* The rest of a side is not opened. */
static void ids_opened_shut(void *user, unsigned number, enum tls_shut why) {
    struct ids_opened *opened = user;
    struct sl_box *box = opened->box;
    struct ids_side *side = &opened->side[number];
    struct ids_seen seen = ids_opened_seen(opened, number, true);
    SLUICE_COUNTER_OF(box, ids_tls_without_key) += why == TLS_SHUT_NO_KEY;
    SLUICE_COUNTER_OF(box, ids_tls_ciphers) += why == TLS_SHUT_CIPHER;
    SLUICE_COUNTER_OF(box, ids_tls_refused) += why == TLS_SHUT_REFUSED;
    SLUICE_COUNTER_OF(box, ids_tls_gaps) += why == TLS_SHUT_GAP;
    SLUICE_COUNTER_OF(box, ids_no_room) += why == TLS_SHUT_NO_MEMORY;
    if (opened->flow->http)
        ids_http_side_stop(opened->flow->http, &seen);
    if (!side->over)
        ids_block_end(box, side, &seen, true);
    ids_side_free(box, side);
}

static const struct tls_connection_owner ids_opened_owner = {ids_opened_may_begin, ids_opened_begins, ids_opened_data, ids_opened_gap,
                                                             ids_opened_shut, NULL};

/* Prepares a flow for TLS, if there are secrets. */
static void ids_opened_prepare(struct sl_box *box, struct ids_flow *flow) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (!tls_secrets_exist(&ids->secrets))
        return;
    struct ids_opened *opened = ids_take(box, sizeof *opened);
    flow->unopened = !opened;
    if (!opened)
        return;
    opened->tls = tls_connection_new(&ids_opened_owner, opened, &ids->secrets, &ids->budget, SLUICE_PARAMETER_OF(box, search));
    if (!opened->tls) {
        SLUICE_COUNTER_OF(box, ids_no_room)++;
        ids_give(box, opened, sizeof *opened);
        flow->unopened = true;
        return;
    }
    opened->box = box;
    opened->flow = flow;
    flow->opened = opened;
}

static void ids_opened_free(struct sl_box *box, struct ids_flow *flow) {
    if (!flow->opened)
        return;
    for (unsigned side = 0; side < 2; side++)
        ids_side_free(box, &flow->opened->side[side]);
    tls_connection_free(flow->opened->tls);
    ids_give(box, flow->opened, sizeof *flow->opened);
    flow->opened = NULL;
}

/* Bytes of a side, as they were sent, for HTTP and TLS. */
static void ids_pass_bytes(struct ids_flow *flow, const struct ids_seen *seen, const uint8_t *at, uint32_t length) {
    if (flow->opened) {
        flow->opened->seen = seen;
        tls_connection_bytes(flow->opened->tls, seen->side, at, length, seen->time);
    } else if (flow->http) {
        ids_http_bytes(flow->http, seen, at, length);
    }
}

static void ids_pass_gap(struct ids_flow *flow, const struct ids_seen *seen, uint64_t length) {
    if (flow->opened) {
        flow->opened->seen = seen;
        tls_connection_missing(flow->opened->tls, seen->side, length);
    } else if (flow->http) {
        ids_http_gap(flow->http, seen, length);
    }
}

#endif
