/* Finds hosts with a Trojan by the order of what they do (De Carli and others, "Beyond Pattern Matching: A
 * Concurrency Model for Stateful Deep Packet Inspection", 2014): an SSH connection, then downloads of HTML, ZIP and
 * EXE files by FTP, then IRC. In another order these are no sign of it.
 *
 * For each host a map has when each of these happened, by the logical clocks of packets, which have the order in
 * which packets came in, whichever instance processed them (CHC, 3.4.2). Protocols are recognised by what the side
 * says that opened the connection, at any port. */
#include "sluice.h"

#include "endpoints.h"
#include "output_file.h"

#include <strings.h>

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")

SLUICE_COUNTER(ssh, "connections of SSH")
SLUICE_COUNTER(downloads, "downloads by FTP of HTML, ZIP and EXE files")
SLUICE_COUNTER(irc, "connections of IRC")
SLUICE_COUNTER(trojans, "connections of IRC that complete the sequence")
SLUICE_COUNTER(unknown, "connections of IRC of which the store did not say what was before")

/* The keys of the map. */
enum trojan_step { TROJAN_SSH = 1, TROJAN_HTML, TROJAN_ZIP, TROJAN_EXE, TROJAN_IRC };

enum trojan_kind { TROJAN_UNKNOWN, TROJAN_TEXT, TROJAN_DONE };
enum { TROJAN_LINE = 54 };

/* The line that the opening side is sending: its first bytes, and its last ones, which are the extension of a file. */
struct trojan_session {
    uint8_t kind;        /* enum trojan_kind; TROJAN_DONE: nothing more is looked for */
    uint8_t length;      /* of `line` */
    uint8_t lost;        /* the line has a gap */
    uint8_t last_length; /* of `last` */
    char last[6];
    char line[TROJAN_LINE];
};

SLUICE_SHARED(arrivals, map, src, read_write, recover, "logical clocks of a host's SSH (1), HTML, ZIP, EXE (2 to 4), IRC (5)")
SLUICE_SHARED(session, struct trojan_session, flow, read_write, zero, "what a connection has said so far")

struct trojan_flow { struct sl_object *session; bool done; };
SLUICE_STATE(struct trojan_flow)

struct trojan { FILE *out; };
SLUICE_WORKER(struct trojan)

static void trojan_report(const struct sl_event *event, const int64_t *clock) {
    FILE *out = SLUICE_WORKER_OF(event->box)->out;
    uint64_t time = sl_packet_time(event);
    fputs("{\"trojan\":", out);
    sl_write_address(out, sl_address_part(event->owner), sl_event_half(event, 0));
    fprintf(out, ",\"time\":\"%llu.%09llu\",\"packet\":%llu,\"ssh\":%lld,\"html\":%lld,\"zip\":%lld,\"exe\":%lld}\n",
            (unsigned long long)(time / 1000000000), (unsigned long long)(time % 1000000000),
            (unsigned long long)sl_packet_number(event), (long long)clock[TROJAN_SSH], (long long)clock[TROJAN_HTML],
            (long long)clock[TROJAN_ZIP], (long long)clock[TROJAN_EXE]);
}

/* A connection of IRC: was the rest before it, and in order? */
static void trojan_decide(const struct sl_event *event, struct sl_object *arrivals) {
    int64_t clock[TROJAN_IRC + 1] = {0}, now = (int64_t)sl_packet_number(event);
    for (int step = TROJAN_SSH; step < TROJAN_IRC; step++) {
        enum sl_store_status status = sl_shared_map_read(arrivals, step, &clock[step]);
        if (status == SL_STORE_DONE)
            continue;
        SLUICE_COUNTER_OF(event->box, unknown) += status != SL_STORE_ABSENT;
        return;
    }
    for (int step = TROJAN_HTML; step < TROJAN_IRC; step++)
        if (clock[step] <= clock[TROJAN_SSH] || clock[step] >= now)
            return;
    SLUICE_COUNTER_OF(event->box, trojans)++;
    trojan_report(event, clock);
}

static bool trojan_begins(const struct trojan_session *session, const char *word) {
    size_t length = strlen(word);
    return session->length >= length && strncasecmp(session->line, word, length) == 0;
}

static bool trojan_ends(const struct trojan_session *session, const char *word) {
    size_t length = strlen(word);
    return session->last_length >= length && strncasecmp(session->last + session->last_length - length, word, length) == 0;
}

/* A whole line of the opening side. */
static void trojan_line(const struct sl_event *event, struct trojan_session *session) {
    static const char *const first[] = {"USER ", "PASS ", "AUTH ", "FEAT", "OPTS ", "HOST ", "SYST", "CAP ", "NICK "};
    struct sl_object *arrivals = SLUICE_SHARED_OF(event, arrivals);
    int64_t now = (int64_t)sl_packet_number(event);
    if (session->kind == TROJAN_UNKNOWN) {
        session->kind = TROJAN_DONE;
        if (trojan_begins(session, "SSH-")) {
            SLUICE_COUNTER_OF(event->box, ssh)++;
            sl_shared_map_minimum(arrivals, TROJAN_SSH, now, NULL);
            return;
        }
        for (unsigned i = 0; i < sizeof first / sizeof *first; i++)
            if (trojan_begins(session, first[i]))
                session->kind = TROJAN_TEXT;
    }
    if (session->kind != TROJAN_TEXT)
        return;
    if (trojan_begins(session, "NICK ") || trojan_begins(session, "JOIN ")) {
        SLUICE_COUNTER_OF(event->box, irc)++;
        session->kind = TROJAN_DONE;
        trojan_decide(event, arrivals);
        sl_shared_map_maximum(arrivals, TROJAN_IRC, now, NULL);
    } else if (trojan_begins(session, "RETR ")) {
        int step = trojan_ends(session, ".html") || trojan_ends(session, ".htm") ? TROJAN_HTML
                   : trojan_ends(session, ".zip")                                ? TROJAN_ZIP
                   : trojan_ends(session, ".exe")                                ? TROJAN_EXE
                                                                                 : 0;
        SLUICE_COUNTER_OF(event->box, downloads) += step != 0;
        if (step)
            sl_shared_map_maximum(arrivals, step, now, NULL);
    }
}

/* Adds a byte to the line. */
static void trojan_byte(const struct sl_event *event, struct trojan_session *session, char byte) {
    if (byte == '\r')
        return;
    if (byte == '\n') {
        if (!session->lost)
            trojan_line(event, session);
        session->length = session->last_length = session->lost = 0;
        return;
    }
    if (session->length < TROJAN_LINE)
        session->line[session->length++] = byte;
    if (session->last_length == sizeof session->last)
        memmove(session->last, session->last + 1, --session->last_length);
    session->last[session->last_length++] = byte;
}

/* The session of a connection; NULL: it is not looked at any more, or there is no room for it. begins: these are the first
 * bytes of the stream. A session that is not there, of a stream that has begun, has ended at another instance. */
static struct trojan_session *trojan_session(const struct sl_event *event, struct trojan_flow *flow, bool begins) {
    if (flow->done)
        return NULL;
    if (!flow->session) {
        flow->session = SLUICE_SHARED_OF(event, session);
        flow->done = !flow->session || (!begins && !sl_shared_present(flow->session));
        if (flow->done) {
            sl_shared_drop(flow->session);
            flow->session = NULL;
            return NULL;
        }
        if (!sl_shared_present(flow->session))
            return sl_object_bytes_of(flow->session);
    }
    return sl_shared_struct(flow->session);
}

/* Stores the session, or gives it up where nothing more is looked for. */
static void trojan_store(struct trojan_flow *flow, const struct trojan_session *session) {
    flow->done = session->kind == TROJAN_DONE;
    if (!flow->done) {
        sl_shared_put(flow->session);
        return;
    }
    sl_shared_drop(flow->session);
    flow->session = NULL;
}

SLUICE_ON(tcp, data) {
    if (!event->instance || event->side != 0)
        return;
    struct trojan_flow *flow = SLUICE_STATE_OF(event);
    struct trojan_session *session = trojan_session(event, flow, data->offset == 0);
    if (!session)
        return;
    for (uint32_t i = 0; i < data->bytes.captured && session->kind != TROJAN_DONE; i++) {
        trojan_byte(event, session, (char)data->bytes.at[i]);
        if (session->kind == TROJAN_UNKNOWN && session->length == TROJAN_LINE) {
            trojan_line(event, session);   /* its beginning suffices */
            session->lost = 1;
        }
    }
    session->lost |= data->bytes.captured < data->bytes.length;
    trojan_store(flow, session);
}

SLUICE_ON(tcp, gap) {
    struct trojan_flow *flow = event->instance && event->side == 0 ? SLUICE_STATE_OF(event) : NULL;
    struct trojan_session *session = flow ? trojan_session(event, flow, data->offset == 0) : NULL;
    if (session) {
        session->lost = 1;
        trojan_store(flow, session);
    }
}

SLUICE_ON(tcp, end) {
    struct trojan_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && data->reason != SL_END_EOF) {
        if (!flow->session && !flow->done)   /* another instance may have stored one */
            flow->session = SLUICE_SHARED_OF(event, session);
        sl_shared_drop(flow->session);
        flow->session = NULL;
        flow->done = true;
    }
}

SLUICE_OPEN {
    struct trojan *trojan = SLUICE_WORKER_OF(box);
    trojan->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return trojan->out ? 0 : -1;
}

SLUICE_CLOSE { sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "trojan"); }
