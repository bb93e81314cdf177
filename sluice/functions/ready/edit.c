/* Edits what connections of TCP say: where a side's stream has the pattern, the bytes are reported (alert), overwritten
 * (mask), taken out (remove) or replaced (replace), or the connection is reset (close). The modes are those of MiddleClick
 * (Barbette et al., 2021).
 *
 * The pattern is found however it is divided into segments, reordered or repeated: bytes that may be its beginning wait
 * for those that follow, `wait` seconds at most. In HTTP/1, the heads and the bodies are searched; where an edit changes
 * the length of a body, the body leaves in chunks (RFC 9112, 7.1), and the pattern may lie across chunks. */
#include "sluice.h"

#include "edit.h"
#include "edit_http.h"
#include "edit_match.h"
#include "endpoints.h"
#include "output_file.h"

SLUICE_INLINE
SLUICE_PARAMETER(pattern, text, "", "bytes to find; \\xHH, \\r, \\n, \\t, \\\\ and \\, stand for one")
SLUICE_PARAMETER(mode, text, "alert", "alert, mask, close, remove or replace")
SLUICE_PARAMETER(with, text, "", "bytes of mode replace, written as those of the pattern")
SLUICE_PARAMETER(nocase, flag, no, "letters of either case match")
SLUICE_PARAMETER(port, number, 0, "of the connections that are edited, at either end; 0: all")
SLUICE_PARAMETER(http, flag, yes, "in HTTP/1, search heads and bodies, and let bodies whose length may change leave in chunks")
SLUICE_PARAMETER(wait, seconds, 0.2, "that bytes wait which may be the beginning of the pattern")
SLUICE_PARAMETER(out, text, "", "file for a row for each place found; without one only mode alert writes rows, to standard output")
SLUICE_PARAMETER(connections, number, 262144, "that are edited at once, at most")

SLUICE_COUNTER(found, "places where the pattern was found")
SLUICE_COUNTER(edited, "edits that were made, of the pattern and of the framing of HTTP")
SLUICE_COUNTER(not_edited, "places that were found in a connection or body that cannot be edited")
SLUICE_COUNTER(closed, "connections that were reset")
SLUICE_COUNTER(reset_again, "packets of connections that were reset, whose senders got another reset")
SLUICE_COUNTER(waited, "times that bytes waited too long and left without the rest of the pattern")
SLUICE_COUNTER(unable_tunnel, "connections in a tunnel or with a checksum that forbids edits")
SLUICE_COUNTER(unable_fragment, "connections whose segments are in fragments")
SLUICE_COUNTER(unable_cut, "connections whose packets were not captured whole")
SLUICE_COUNTER(unable_signed, "connections with signed segments (TCP-MD5, TCP-AO)")
SLUICE_COUNTER(unable_numbers, "connections whose numbers another function changes, as nat for FTP")
SLUICE_COUNTER(unable_other, "connections that another function edits")
SLUICE_COUNTER(no_room, "edits not made, and connections not edited, at a bound")
SLUICE_COUNTER(not_mapped, "packets of edited connections dropped as their numbers could not be changed")
SLUICE_COUNTER(acknowledged, "acknowledgements sent in the receiver's place")

enum edit_mode { EDIT_ALERT, EDIT_MASK, EDIT_CLOSE, EDIT_REMOVE, EDIT_REPLACE };

struct edit_scan {
    struct edit_http http;
    uint32_t matched;                    /* bytes of the pattern with which the stream ends */
    uint64_t part_at;                    /* offset of the first of these */
    uint8_t part[EDIT_PATTERN_MOST];     /* as received */
    uint64_t from;                       /* offset up to which the output is known */
    uint64_t waits, since;               /* offset + 1 of the first byte that waits, and the time at which it came */
};

struct edit_scans {
    struct edit_scan side[2];
    struct edit_requests requests;
};

/* The ends of a segment: addresses of 4 or 16 bytes, then zeros; and ports. */
struct edit_ends { uint8_t from[18], to[18]; };

struct edit_flow {
    struct sl_edits edits;
    struct edit_scans *scans;
    bool closed;                         /* reset */
    bool paired;                         /* it is in a list of edit->pairs */
    uint8_t opener;                      /* the side whose SYN left with other ends */
    uint32_t halves;                     /* instances that have it */
    struct edit_ends left_as;            /* if `paired` */
    struct edit_flow *next;
};

/* An instance: of a connection, or, where another function rewrites its ends, of one of its directions (edit_pair.h). */
struct edit_half {
    struct edit_flow *flow;
    bool other, armed;                   /* on another port; its timer is set */
};
SLUICE_STATE(struct edit_half)

struct edit {
    struct edit_pattern pattern;
    struct sl_edit_box box;
    uint8_t with[EDIT_PATTERN_MOST];
    uint32_t with_length;
    uint8_t mode;
    FILE *out;
    uint8_t *text;                       /* output of the current bytes of a body */
    size_t text_count, text_room;
    struct edit_flow **pairs;            /* by a hash of their ends; NULL: none yet */
    struct sl_edit_places syn_places;    /* of the current SYN */
};
SLUICE_WORKER(struct edit)

#include "edit_output.h"
#include "edit_message.h"
#include "edit_pair.h"

/* The connection of an event; NULL: it is not edited. */
static struct edit_flow *edit_flow_of(const struct sl_event *event) {
    const struct edit_half *half = event->instance ? SLUICE_STATE_OF(event) : NULL;
    return half && !half->other ? half->flow : NULL;
}

/* Notes which bytes wait since when, and sets the timer. */
static void edit_arm(const struct sl_event *event, struct edit_half *half) {
    struct edit_flow *flow = half->flow;
    const uint64_t now = sl_now(event->box), wait = (uint64_t)(SLUICE_PARAMETER_OF(event->box, wait) * 1e9);
    uint64_t due = UINT64_MAX;
    for (unsigned side = 0; side < 2 && flow->scans; side++) {
        struct edit_scan *scan = &flow->scans->side[side];
        if (!sl_edits_waiting(&flow->edits, side))
            continue;
        uint64_t first = sl_edits_decided(&flow->edits, side) + 1;
        if (scan->waits != first)
            scan->since = now;
        scan->waits = first;
        due = sl_min(due, scan->since + wait);
    }
    if (due == UINT64_MAX || half->armed)
        return;
    half->armed = true;
    SLUICE_ARM(event, tcp, edit_wait, due > now ? due - now : 1);
}

/* The counters of the edits, for readers of a running box. */
static void edit_count(struct sl_box *box, const struct edit *edit) {
    SLUICE_COUNTER_OF(box, edited) = edit->box.edits;
    SLUICE_COUNTER_OF(box, unable_tunnel) = edit->box.unable[SL_EDIT_TUNNEL];
    SLUICE_COUNTER_OF(box, unable_fragment) = edit->box.unable[SL_EDIT_FRAGMENT];
    SLUICE_COUNTER_OF(box, unable_cut) = edit->box.unable[SL_EDIT_CUT];
    SLUICE_COUNTER_OF(box, unable_signed) = edit->box.unable[SL_EDIT_SIGNED];
    SLUICE_COUNTER_OF(box, unable_numbers) = edit->box.unable[SL_EDIT_NUMBERS];
    SLUICE_COUNTER_OF(box, unable_other) = edit->box.unable[SL_EDIT_OTHER];
    SLUICE_COUNTER_OF(box, no_room) = edit->box.no_room;
    SLUICE_COUNTER_OF(box, not_mapped) = edit->box.not_mapped;
    SLUICE_COUNTER_OF(box, acknowledged) = edit->box.acknowledged;
    SLUICE_COUNTER_OF(box, reset_again) = edit->box.reset_again;
}

SLUICE_TIMER(tcp, edit_wait) {
    struct edit_half *half = SLUICE_STATE_OF(event);
    struct edit_flow *flow = half->flow;
    const uint64_t now = sl_now(event->box), wait = (uint64_t)(SLUICE_PARAMETER_OF(event->box, wait) * 1e9);
    half->armed = false;
    if (!flow || flow->closed)
        return;
    edit_arm(event, half);
    for (unsigned side = 0; side < 2 && flow->scans; side++) {
        struct sl_event of = *event;
        of.side = side;
        struct edit_scan *scan = &flow->scans->side[side];
        if (!sl_edits_waiting(&flow->edits, side) || now - scan->since < wait)
            continue;
        SLUICE_COUNTER_OF(event->box, waited)++;
        if (scan->http.reframes) {   /* within a body: a possible beginning is output in a chunk */
            struct edit *edit = SLUICE_WORKER_OF(event->box);
            edit->text_count = 0;   /* a connection that was reset may have left bytes */
            edit_put(edit, scan->part, scan->matched);
            edit_chunk(&of, flow, scan, sl_edits_delivered(&flow->edits, side), false);
        } else if (scan->http.head) {
            edit_opaque(&of, flow, scan);
        }
        scan->matched = 0;
        sl_edits_flush(&of, &flow->edits, side);
    }
}

SLUICE_ON(tcp, packet) {
    struct edit_half *half = SLUICE_STATE_OF(event);
    struct edit *edit = SLUICE_WORKER_OF(event->box);
    uint64_t port = SLUICE_PARAMETER_OF(event->box, port);
    if (!event->instance || half->other)
        return;
    if (port && port != (uint64_t)sl_load_be16(event->unit.at) && port != (uint64_t)sl_load_be16(event->unit.at + 2)) {
        half->other = true;
        return;
    }
    struct edit_flow *flow = edit_join(event, half, edit);
    if (!flow) {
        edit->box.no_room++;
        return;
    }
    const bool whole = event->unit.captured >= 20, opens = whole && event->unit.at[13] & SL_TCP_SYN;
    const bool closing = flow->closed && !opens;   /* a SYN may open the next connection on the same ports */
    sl_edits_packet(event, &flow->edits, &edit->box);
    if (closing && !sl_edits_resets(&flow->edits, event->box)) {
        if (!flow->edits.open && whole && !(event->unit.at[13] & SL_TCP_RST))
            edit->box.reset_again += SLUICE_RESET(event->box);   /* else sl_edit_reset_again does it */
        SLUICE_DROP(event->box);
    }
    edit_pair_watch(event, flow);
    edit_count(event->box, edit);
}

SLUICE_ON(tcp, out_of_wnd) {
    const struct edit_flow *flow = edit_flow_of(event);
    sl_edits_outside(event, flow ? &flow->edits : NULL);
}

SLUICE_ON(tcp, data) {
    struct edit_flow *flow = edit_flow_of(event);
    if (!flow || flow->closed)
        return;
    if (!flow->scans && !(flow->scans = calloc(1, sizeof *flow->scans)))
        return;
    bool possible = sl_edits_data(event, &flow->edits, data->offset, data->bytes);
    struct edit_scan *scan = &flow->scans->side[event->side & 1];
    if (!data->offset && !SLUICE_PARAMETER_OF(event->box, http))
        scan->http.state = EDIT_HTTP_NONE;
    edit_bytes(event, flow, event->side & 1, data->offset, data->bytes.at, data->bytes.captured, possible);
    edit_arm(event, SLUICE_STATE_OF(event));
}

SLUICE_ON(tcp, gap) {
    struct edit_flow *flow = edit_flow_of(event);
    if (!flow || !flow->scans || flow->closed)
        return;
    if (flow->scans->side[event->side & 1].http.reframes) {   /* the receiver cannot find the next chunk */
        edit_reset(event, flow);
    } else {
        sl_edits_flush(event, &flow->edits, event->side);
        edit_opaque(event, flow, &flow->scans->side[event->side & 1]);
    }
}

SLUICE_DESTROY {
    edit_leave(box, state);
}

SLUICE_OPEN {
    static const char *const modes[] = {"alert", "mask", "close", "remove", "replace"};
    struct edit *edit = SLUICE_WORKER_OF(box);
    const char *mode = SLUICE_PARAMETER_OF(box, mode), *with = SLUICE_PARAMETER_OF(box, with);
    while (edit->mode < 5 && strcmp(mode, modes[edit->mode]))
        edit->mode++;
    if (edit->mode == 5) {
        fprintf(stderr, "edit: mode=%s: give alert, mask, close, remove or replace\n", mode);
        return -1;
    }
    if (!edit_pattern_open(&edit->pattern, SLUICE_PARAMETER_OF(box, pattern), SLUICE_PARAMETER_OF(box, nocase))) {
        fprintf(stderr, "edit: pattern=BYTES: give from 1 to 256, in which \\ begins \\xHH, \\r, \\n, \\t, \\\\ or \\,\n");
        return -1;
    }
    edit->with_length = edit->mode == EDIT_REPLACE ? edit_text(with, edit->with, EDIT_PATTERN_MOST) : 0;
    if (edit->mode == EDIT_REPLACE && *with && !edit->with_length) {
        fprintf(stderr, "edit: with=BYTES: give at most 256, written as those of the pattern\n");
        return -1;
    }
    edit->box.open_most = SLUICE_PARAMETER_OF(box, connections);
    if (edit->mode == EDIT_ALERT || *SLUICE_PARAMETER_OF(box, out)) {
        edit->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
        return edit->out ? 0 : -1;
    }
    return 0;
}

SLUICE_CLOSE {
    struct edit *edit = SLUICE_WORKER_OF(box);
    edit_count(box, edit);
    free(edit->box.bytes);
    free(edit->text);
    free(edit->pairs);
    edit->pairs = NULL;
    if (edit->out)
        sl_rows_close(box, edit->out, "edit");
}
