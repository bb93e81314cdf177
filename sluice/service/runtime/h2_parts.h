/* Shared by the files of HTTP/2. */
#ifndef SERVICE_H2_PARTS_H
#define SERVICE_H2_PARTS_H

#include <nghttp2/nghttp2.h>

#include "h2.h"
#include "message.h"

enum {
    SERVICE_H2_METHOD = 32,
    SERVICE_H2_AUTHORITY = 272, /* a name of 253 bytes, and a port */
    SERVICE_H2_FIELDS = 256,    /* of a request or response */
    SERVICE_H2_REPEATS = 16,    /* of a request that a backend has not processed */
    SERVICE_H2_USELESS = 1000,  /* useless frames, beyond the credit of answered requests */
};

enum service_h2_state { SERVICE_H2_HEAD, SERVICE_H2_BODY, SERVICE_H2_DONE };

/* A stream, and a pair of sockets by which it has the form of HTTP/1.1 for an instance of the program. Of a client's connection
 * the next stream uses the pair after it; of a backend's, the pair is a channel's connection, and each request on it is a
 * stream of any connection to that backend.
 */
struct service_h2_stream {
    struct service_h2 *h2;           /* null: of a backend, and no request is there */
    struct service_lane *lane;       /* whose buffers it uses */
    struct service_h2_stream *next, *before; /* of the same client's connection; of the backends of a lane */
    struct service_h2_stream *ready; /* that have something to do */
    struct service_h2_stream *waits_before, *waits_after; /* that wait for room on the same connection to a backend */
    int32_t id;                      /* 0: none */
    int fd;                          /* of this side; -1: none */
    struct service_buffer *head;     /* received from HTTP/2: a head, as it is sent to the program */
    struct service_buffer *body;     /* and bytes that are not sent yet */
    struct service_buffer *input;    /* received from the program: bytes that are not forwarded yet */
    uint64_t left;                   /* bytes of its body whose end is known */
    struct service_tail tail;        /* parts of it that follow */
    uint32_t chunk;                  /* bytes of the current chunk to the program that are not sent yet */
    char mark[16];                   /* the frame of that chunk */
    uint8_t mark_at, mark_size;
    uint32_t slow_since, slow_bytes; /* the second since which the client has opened no window; 0: it has; sent since then */
    uint8_t state;                   /* enum service_h2_state, of the message of the program */
    bool queued, readable, writable;
    bool waits, admitted;            /* its request waits for room; it has waited, and there is room */
    bool over;                       /* the message of HTTP/2 is here as a whole */
    bool sent;                       /* and was sent */
    bool chunked;
    bool bodiless;                   /* its response has no body: it is one to HEAD */
    bool ended;                      /* the program has ended its output */
    bool closes;                     /* the pair is closed after the response */
    bool informs;                    /* an interim response waits to be sent: nothing is read before that */
    bool deferred;                   /* nghttp2 waits for more of the body */
    struct service_h2_request *request; /* of a backend: the one that is going on */
    uint32_t backend;                   /* the number of that backend */
};

/* A request to a backend. */
struct service_h2_request {
    bool asked;    /* its head was sent: the backend may have processed it */
    bool answered; /* a head has come */
    bool old;      /* it is one of HTTP/1.0 */
    bool shut;     /* the output to the program is shut */
    uint8_t tries; /* how often it was sent */
    uint32_t line, size; /* bytes of its first line, and of its fields */
    uint8_t head[];      /* of one without a body, until it is answered; else it has no bytes */
};

/* A connection. */
struct service_h2 {
    struct service_instance *self;
    struct service_channel *peer; /* the client, or the backend */
    nghttp2_session *session;
    struct service_h2_stream *streams, *ready; /* `streams`: of a client */
    struct service_h2_stream *waiting, *waiting_last; /* of a backend: those whose requests wait for room, the oldest first */
    const uint8_t *pending; /* output of nghttp2 for which `out` had no room */
    size_t pending_size;
    struct service_buffer *path, *fields, *cookie; /* of the head that is coming */
    char method[SERVICE_H2_METHOD], authority[SERVICE_H2_AUTHORITY];
    uint32_t field_count, useless;
    bool length;    /* that head has a Content-Length */
    bool too_large; /* it exceeds a bound */
    bool no_buffer; /* the pool had none for it */
    bool goaway;    /* GOAWAY was sent, or received of a backend: no more streams are opened */
    bool failed;    /* GOAWAY with an error code was sent */
    bool uplink;    /* it leads to a backend */
    bool pinged;    /* of a backend: it was sent a ping since it has sent anything */
    bool heard;     /* it has sent something */
    char status[4]; /* of the response whose head is coming */
    uint32_t active, heard_at; /* streams; the second in which it has sent something last */
    struct service_h2 *next;   /* of the same backend */
};

/* Memory within the bound, set to 0; null if there is none. */
void *service_h2_allocate(size_t size);
void service_h2_release(void *memory);

/* The same for nghttp2. */
nghttp2_mem service_h2_allocator(void);

/* What the session of a connection reports. */
struct service_h2_reports {
    nghttp2_on_begin_headers_callback head_begins;
    nghttp2_on_header_callback field;
    nghttp2_on_frame_recv_callback frame;
    nghttp2_on_data_chunk_recv_callback data;
    nghttp2_on_invalid_frame_recv_callback refused;
    nghttp2_on_frame_send_callback sent;
    nghttp2_on_stream_close_callback closed;
};

/* Makes the session of a connection, with one setting besides those that clients and backends are sent. False if there is no
 * memory. */
bool service_h2_open(struct service_h2 *h2, const struct service_h2_reports *reports, nghttp2_settings_entry setting);

/* A field for nghttp2, which copies it. */
static inline nghttp2_nv service_h2_field_of(const char *name, struct service_text value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value.at, strlen(name), value.length,
                        NGHTTP2_NV_FLAG_NONE};
}

/* The stream of a number; null if there is none. */
static inline struct service_h2_stream *service_h2_stream_of(const struct service_h2 *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2->session, id);
}

/* Puts a stream among those that have something to do. */
void service_h2_ready(struct service_h2_stream *stream);

/* --- h2_session.c */

/* The session of a connection. False if there is no memory. */
bool service_h2_make_session(struct service_h2 *h2);

/* Opens a pair of sockets, of which the stream has one: the other one, or -1 if there is none. `tag`: of the events. */
int service_h2_open_pair(struct service_h2_stream *stream, enum service_tag tag);

/* The buffers of a stream go back to the pool; its pair of sockets is closed. */
void service_h2_give_back(struct service_h2_stream *stream);
void service_h2_close_pair(struct service_h2_stream *stream);

/* Ends a stream of a client before its time. */
void service_h2_reset(struct service_h2_stream *stream, uint32_t error, enum service_counter reason);

/* A frame that brings nothing. Too many of them end the connection (RFC 9113, section 10.5). */
void service_h2_useless(struct service_h2 *h2, uint32_t weight);

/* A response has ended: it outweighs some of these frames. */
void service_h2_answered(struct service_h2 *h2);

/* A frame was sent: with a GOAWAY that has an error the connection fails, unless it has failed for another reason. */
void service_h2_note_goaway(struct service_h2 *h2, const nghttp2_frame *frame);

/* --- h2_request.c: from frames to HTTP/1.1 */

/* Appends bytes to a buffer of the pool, for the head that is coming. */
void service_h2_append(struct service_h2 *h2, struct service_buffer **buffer, const void *bytes, uint32_t size);

/* Appends `name: value`. */
void service_h2_append_field(struct service_h2 *h2, struct service_text name, struct service_text value);

/* A field of the request whose head is coming. */
void service_h2_field(struct service_h2 *h2, struct service_text name, struct service_text value);

/* The head is here: writes it as one of HTTP/1.1. False if the stream cannot go on; it has an answer then. */
bool service_h2_write_head(struct service_h2_stream *stream, bool whole);

/* Releases the memory that only the head needs. */
void service_h2_forget_head(struct service_h2 *h2);

/* --- h2_body.c: bytes between the sockets of a stream and its frames */

/* Appends received data to the bytes that are sent to the program. False if there is no buffer. */
bool service_h2_take(struct service_h2_stream *stream, const uint8_t *data, size_t size);

/* Sends a message to the program, as far as it accepts it. False if it accepts no more. */
bool service_h2_send(struct service_h2_stream *stream);

/* Reads the program's output. False at its end. */
bool service_h2_fill(struct service_h2_stream *stream);

/* Gives the buffer of the program's output back if it is empty. */
void service_h2_drop_input(struct service_h2_stream *stream);

/* A head of HTTP/1.1 that the program has sent: `line` bytes of its first line, and `size` of its fields. */
struct service_h2_head {
    uint8_t *at;
    uint64_t line, size;
};

/* Reads the program's output as far as a head. SERVICE_MORE: the rest comes later; malformed is also one that the program has
 * ended, or that no buffer has room for. */
enum service_parsed service_h2_find_head(struct service_h2_stream *stream, struct service_h2_head *head);

/* The head is not needed any more. */
void service_h2_drop_head(struct service_h2_stream *stream, const struct service_h2_head *head);

/* A callback of nghttp2 for the body of the program's message. */
ssize_t service_h2_read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                             nghttp2_data_source *source, void *argument);

/* The fields of a head of HTTP/1.1 without those of the connection and, of a request, Host; their names are lower case then.
 * They follow the first `count`: the number of all; -1 if there are more than SERVICE_H2_FIELDS. */
int service_h2_read_fields(uint8_t *at, uint64_t size, nghttp2_nv *fields, int count, bool request);

/* --- h2_response.c: from HTTP/1.1 to frames */

/* Continues with the response. False if it is none, or its end is missing. */
bool service_h2_answer(struct service_h2_stream *stream);

/* --- h2_uplink.c: connections to backends, and the pairs of sockets */

/* Whether the backend is connected, by TLS as HTTP/2. False also if it cannot be: the fault is set then. */
bool service_h2_reached(struct service_h2 *h2);

/* As service_h2_end(). */
void service_h2_end_uplink(struct service_h2 *h2);

/* Lets as many waiting requests go on as the backend has room for streams; all, if the connection accepts no more. */
void service_h2_admit(struct service_h2 *h2);

/* What a stream to a backend has to do, which was in the list of a connection. */
void service_h2_run_pair(const struct service_h2 *h2, struct service_h2_stream *stream);

/* A response was passed: the pair waits for the next request, or for its end. */
void service_h2_settle(struct service_h2_stream *stream);

/* A stream ends before its time: the program sees a connection that ends. The stream is not used after it. */
void service_h2_break(struct service_h2_stream *stream);

/* Releases the memory of a stream, unless something refers to it yet. */
void service_h2_free(struct service_h2_stream *stream);

/* A stream that the backend has not processed: its request is sent again. False if it cannot be. */
bool service_h2_repeat(struct service_h2_stream *stream);

/* --- h2_uplink_session.c */

/* The session of a connection to a backend. False if there is no memory. */
bool service_h2_make_uplink(struct service_h2 *h2);

/* Sends a request. False if it cannot be sent. */
bool service_h2_ask(struct service_h2_stream *stream, const struct service_h2_head *head);

static inline void service_h2_progress(struct service_h2_stream *stream)
{
    if (stream->h2)
        stream->h2->self->progressed = true;
}

#endif
