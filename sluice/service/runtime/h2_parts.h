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
    SERVICE_H2_USELESS = 1000,  /* useless frames, beyond the credit of answered requests */
};

enum service_h2_state { SERVICE_H2_HEAD, SERVICE_H2_BODY, SERVICE_H2_DONE };

/* A stream, and the pair of sockets that the next stream of the connection uses after it. */
struct service_h2_stream {
    struct service_h2 *h2;
    struct service_h2_stream *next;  /* of the same connection */
    struct service_h2_stream *ready; /* that have something to do */
    int32_t id;                      /* 0: none */
    int fd;                          /* of this side; -1: none */
    struct service_buffer *head;     /* of the request, until it is sent */
    struct service_buffer *body;     /* of the request: received bytes that are not sent yet */
    struct service_buffer *response; /* received bytes that are not forwarded yet */
    uint64_t left;                   /* bytes of the response's body whose end is known */
    struct service_tail tail;        /* parts of it that follow */
    uint32_t chunk;                  /* bytes of the request's current chunk that are not sent yet */
    char mark[16];                   /* the frame of a chunk of the request */
    uint8_t mark_at, mark_size;
    uint32_t slow_since, slow_bytes; /* the second since which the client has opened no window; 0: it has; sent since then */
    uint8_t state;                   /* enum service_h2_state, of the response */
    bool queued, readable, writable;
    bool over;                       /* the request is here as a whole */
    bool sent;                       /* and was sent */
    bool chunked;
    bool bodiless;                   /* its response has no body: it is one to HEAD */
    bool ended;                      /* the program has ended its output */
    bool closes;                     /* the program ends the connection after the response */
    bool informs;                    /* an interim response waits to be sent: nothing is read before that */
    bool deferred;                   /* nghttp2 waits for more of the body */
};

/* A connection. */
struct service_h2 {
    struct service_instance *self;
    struct service_channel *client;
    nghttp2_session *session;
    struct service_h2_stream *streams, *ready;
    const uint8_t *pending; /* output of nghttp2 for which `out` had no room */
    size_t pending_size;
    struct service_buffer *path, *fields, *cookie; /* of the request whose head is coming */
    char method[SERVICE_H2_METHOD], authority[SERVICE_H2_AUTHORITY];
    uint32_t field_count, useless;
    bool length;    /* that request has a Content-Length */
    bool too_large; /* it exceeds a bound */
    bool no_buffer; /* the pool had none for it */
    bool goaway;    /* GOAWAY was sent: the client opens no more streams */
    bool failed;    /* GOAWAY with an error code was sent */
};

/* Memory within the bound, set to 0; null if there is none. */
void *service_h2_allocate(size_t size);
void service_h2_release(void *memory);

/* The same for nghttp2. */
nghttp2_mem service_h2_allocator(void);

/* Puts a stream among those that have something to do. */
void service_h2_ready(struct service_h2_stream *stream);

/* --- h2_session.c */

/* The session of a connection. False if there is no memory. */
bool service_h2_make_session(struct service_h2 *h2);

/* The buffers of a stream go back to the pool; its pair of sockets is closed. */
void service_h2_give_back(struct service_h2_stream *stream);
void service_h2_close_pair(struct service_h2_stream *stream);

/* Ends a stream before its time. */
void service_h2_reset(struct service_h2_stream *stream, uint32_t error, enum service_counter reason);

/* --- h2_request.c: from frames to HTTP/1.1 */

/* A field of the request whose head is coming. */
void service_h2_field(struct service_h2 *h2, struct service_text name, struct service_text value);

/* The head is here: writes it as one of HTTP/1.1. False if the stream cannot go on; it has an answer then. */
bool service_h2_write_head(struct service_h2_stream *stream, bool whole);

/* Releases the memory that only the head needs. */
void service_h2_forget_head(struct service_h2 *h2);

/* Sends a request, as far as the program accepts it. False if it accepts no more. */
bool service_h2_send(struct service_h2_stream *stream);

/* --- h2_response.c: from HTTP/1.1 to frames */

/* Continues with the response. False if it is none, or its end is missing. */
bool service_h2_answer(struct service_h2_stream *stream);

#endif
