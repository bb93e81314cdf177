/* HTTP/3 in the events of QUIC, for functions that read it: streams are instances of a layer above that of connections, and their
 * events follow that of the connection's packet. QUIC delivers the bytes of its streams in the clear if it has the keys.
 *
 * A session is an HTTP/3 connection. It lasts until its instance, and those of its streams, have ended. */
#ifndef HTTP3_QUIC_H
#define HTTP3_QUIC_H

#include "http3_stream.h"
#include "log_quic.h"

struct http3_session;

/* The callbacks of a session's owner. */
struct http3_session_owner {
    const struct http3_owner *http;
    /* Sets `session->http.user`. Returns false if the session is not read; the reason was counted. */
    bool (*begin)(struct sl_box *box, struct http3_session *session);
    void (*no_memory)(struct sl_box *box);
    /* The event of a stream was processed. NULL: not needed. */
    void (*settle)(struct http3_session *session);
    /* The last of its streams has ended: frees what the user has allocated. */
    void (*end)(struct http3_session *session);
};

struct http3_session {
    struct http3_connection http;
    const struct http3_session_owner *owner;
    struct log_flow flow;
    uint64_t attempt;          /* of its handshake */
    bool discarded;            /* the handshake has restarted, and its earlier data is sent again (RFC 9000, 17.2.5.2) */
    uint32_t references;       /* its instance, and those of its streams */
};

/* The state of an instance: of a connection, or of a direction of a stream. */
struct http3_state {
    struct http3_session *session;
    struct http3_stream *stream;
    bool over;                 /* of a connection: nothing more is read */
};

static inline struct http3_session *http3_session_of(const struct http3_stream *stream) {
    return (struct http3_session *)stream->connection;   /* its first member */
}

/* An instance of a session has ended. */
static inline void http3_release(struct http3_session *session) {
    struct log_budget *budget = session->http.budget;
    if (--session->references)
        return;
    session->owner->end(session);
    http3_close(&session->http);
    log_give(budget, sizeof *session);
    free(session);
}

/* The session of a stream that begins; NULL: it is not read. `of`, `flow`: of its connection. */
static inline struct http3_session *http3_session(const struct sl_event *event, struct http3_state *of, const struct log_flow *flow,
                                                  const struct http3_session_owner *owner, struct http3_library *qpack,
                                                  struct log_budget *budget) {
    uint64_t attempt = log_quic_part(event, "attempt");
    if (of->over)
        return NULL;
    if (of->session && of->session->attempt != attempt) {
        of->session->discarded = true;
        http3_release(of->session);
        of->session = NULL;
    }
    if (of->session)
        return of->session;
    struct http3_session *session = log_allocate(budget, sizeof *session);
    if (!session) {
        owner->no_memory(event->box);
        of->over = true;
        return NULL;
    }
    session->http = (struct http3_connection){.owner = owner->http, .qpack = qpack, .budget = budget};
    session->owner = owner;
    session->flow = *flow;
    session->attempt = attempt;
    session->references = 1;
    if (!owner->begin(event->box, session)) {
        log_give(budget, sizeof *session);
        free(session);
        of->over = true;
        return NULL;
    }
    return of->session = session;
}

/* --- events of streams; `state`: of their instance --- */

/* Begins a direction of a stream. Without memory, it is not read. `user`: of the stream. */
static inline void http3_on_created(const struct sl_event *event, struct http3_state *state, struct http3_session *session, void *user) {
    struct http3_stream *stream = log_allocate(session->http.budget, sizeof *stream);
    if (!stream) {
        session->owner->no_memory(event->box);
        return;
    }
    state->stream = stream;
    session->references++;
    http3_begin(stream, &session->http, log_quic_part(event, "stream"), log_quic_sender(event));
    stream->user = user;
}

/* A stream of which something is to be read; NULL: it is over. */
static inline struct http3_stream *http3_open(const struct http3_state *state) {
    struct http3_stream *stream = state->stream;
    if (!stream || stream->stage == HTTP3_OVER)
        return NULL;
    if (!http3_session_of(stream)->discarded)
        return stream;
    http3_over(stream);
    return NULL;
}

static inline void http3_settle(const struct http3_stream *stream) {
    struct http3_session *session = http3_session_of(stream);
    if (session->owner->settle)
        session->owner->settle(session);
}

/* Ends a stream if all its bytes up to its end were delivered. */
static inline void http3_look_for_end(const struct sl_event *event, struct http3_stream *stream) {
    bool ended = sl_field_value(event->instance, sl_layer_field(event->owner, "ended"));
    if (ended && stream->received == sl_field_value(event->instance, sl_layer_field(event->owner, "size")))
        http3_end(stream);
}

/* The code of a RESET_STREAM frame (RFC 9000, 19.4). Event `reset` of the layer has it as well, but a function for stacks without
 * QUIC can only have handlers of built-in events. */
static inline uint64_t http3_reset_code(const struct sl_event *event) {
    const uint8_t *at = event->unit.at + 1;
    uint32_t length = event->unit.captured ? event->unit.captured - 1 : 0;
    uint64_t number, code;
    return http3_take(&at, &length, &number) && http3_take(&at, &length, &code) ? code : 0;
}

/* The state of the layer has changed to number `after`. A frame may have no bytes but the end. */
static inline void http3_on_state(const struct sl_event *event, const struct http3_state *state, uint32_t after) {
    struct http3_stream *stream = http3_open(state);
    if (!stream)
        return;
    if (!strcmp(event->owner->state[after].name, "RESET"))
        http3_reset(stream, http3_reset_code(event));
    else
        http3_look_for_end(event, stream);
    http3_settle(stream);
}

static inline void http3_on_data(const struct sl_event *event, const struct http3_state *state, uint64_t offset, sl_bytes bytes) {
    struct http3_stream *stream = http3_open(state);
    if (!stream)
        return;
    if (stream->stage != HTTP3_EARLY || !stream->received)
        stream->time = sl_box_time(event->box);
    stream->received = offset + bytes.captured;
    http3_bytes(stream, bytes.at, bytes.captured);
    http3_look_for_end(event, stream);
    http3_settle(stream);
}

static inline void http3_on_gap(const struct http3_state *state, uint64_t offset, uint64_t length) {
    struct http3_stream *stream = http3_open(state);
    if (!stream)
        return;
    stream->received = offset + length;
    http3_gap(stream, length);
    http3_settle(stream);
}

/* Frees the state of a stream. */
static inline void http3_stream_free(struct http3_state *state) {
    struct http3_stream *stream = state->stream;
    if (!stream)
        return;
    struct http3_session *session = http3_session_of(stream);
    http3_over(stream);
    log_give(session->http.budget, sizeof *stream);
    free(stream);
    state->stream = NULL;
    http3_release(session);
}

static inline void http3_on_end(const struct sl_event *event, struct http3_state *state) {
    struct http3_stream *stream = http3_open(state);
    if (stream) {
        http3_look_for_end(event, stream);   /* after a gap, the machine is not DONE */
        http3_stream_close(stream, "EOF");
        http3_settle(stream);
    }
    http3_stream_free(state);
}

/* --- a connection's --- */

/* A connection, or its instance, has ended. */
static inline void http3_session_end(struct http3_state *state) {
    if (state->session)
        http3_release(state->session);
    state->session = NULL;
    state->over = true;
}

#endif
