/* The streams of SCTP, for functions that read in them what TCP carries, too: the ordered messages that an end sends on a stream are
 * the bytes of one side, and those that the other end sends on the stream of the same number are its other side (RFC 3436).
 *
 * Messages are those of a layer above that of associations, whose event `data` precedes theirs. A message may be divided, and
 * several messages may be one: what is read does not depend on where they end. Of a message that is missing, the length is not
 * known. */
#ifndef LOG_SCTP_H
#define LOG_SCTP_H

#include "log_row.h"

enum {
    LOG_SCTP_READING = 1024,                     /* streams of one association that are read at once: it leaves room for others */
    LOG_SCTP_PAGE = 256,                         /* streams have numbers of 16 bits: of a page, and within it */
    LOG_SCTP_I_DATA = 64,                        /* the type of a chunk (RFC 8260, 2.1); others are DATA (RFC 9260, 3.3.1) */
    LOG_SCTP_DATA_HEAD = 16, LOG_SCTP_I_DATA_HEAD = 20,
    LOG_SCTP_END = 1, LOG_SCTP_BEGIN = 2, LOG_SCTP_UNORDERED = 4,   /* flags of a chunk */
};
#define LOG_SCTP_UNKNOWN UINT64_MAX              /* the length of a gap */

struct log_sctp_stream {
    struct log_sctp_stream *next;                /* in the list of all */
    void *user;                                  /* what the function has of it */
    uint32_t awaited[2];                         /* by side: the number of its next message */
    bool seen[2];                                /* by side: it has sent a message */
    bool over;                                   /* nothing more is read */
};

/* The streams of an association. */
struct log_sctp {
    struct log_sctp_stream **page[LOG_SCTP_PAGE];
    struct log_sctp_stream *first;
    uint32_t reading;                            /* streams that have a connection of the function's */
};

/* The association whose chunk is processed: the event `data` of its layer. Its instance is NULL if there is none. */
struct log_sctp_association { struct sl_event event; };

/* A message of an association. */
struct log_sctp_message {
    sl_bytes bytes;
    uint32_t number;                             /* within its stream */
    uint32_t mask;                               /* of such numbers */
    uint16_t stream;
    bool unordered;
};

/* Remembers the association, in the event `data` of its layer. */
static inline void log_sctp_chunk(struct log_sctp_association *association, const struct sl_event *event) { association->event = *event; }

/* The association has ended. */
static inline void log_sctp_forget(struct log_sctp_association *association, const struct sl_event *event) {
    if (association->event.instance == event->instance)
        association->event.instance = NULL;
}

/* Reads the head of the chunk that an event of a message is about, the only one of the message or its last one; `bytes`: the content of
 * the message if it has several. Returns false if there is no content. */
static inline bool log_sctp_read(const struct sl_event *event, const sl_bytes *bytes, struct log_sctp_message *message) {
    const uint8_t *at = event->unit.at;
    bool interleaved = event->unit.captured && at[0] == LOG_SCTP_I_DATA;
    uint32_t head = interleaved ? LOG_SCTP_I_DATA_HEAD : LOG_SCTP_DATA_HEAD;
    if (event->unit.captured < head)
        return false;
    bool whole = (at[1] & (LOG_SCTP_BEGIN | LOG_SCTP_END)) == (LOG_SCTP_BEGIN | LOG_SCTP_END);
    if (!bytes && !whole)
        return false;
    *message = (struct log_sctp_message){
        .bytes = bytes ? *bytes : sl_bytes_slice(event->unit, head, (uint32_t)sl_max(head, sl_load_be16(at + 2))),
        .number = (uint32_t)(interleaved ? sl_load_be32(at + 12) : sl_load_be16(at + 10)),
        .mask = interleaved ? UINT32_MAX : UINT16_MAX,
        .stream = (uint16_t)sl_load_be16(at + 8),
        .unordered = at[1] & LOG_SCTP_UNORDERED,
    };
    return message->bytes.length;
}

/* The stream of a message, which is created if there is none; NULL beyond the budget, or without memory. `*streams`: NULL at first. */
static inline struct log_sctp_stream *log_sctp_stream(struct log_sctp **streams, struct log_budget *budget, uint16_t number) {
    if (!*streams && !(*streams = log_allocate(budget, sizeof **streams)))
        return NULL;
    struct log_sctp_stream ***page = &(*streams)->page[number / LOG_SCTP_PAGE];
    if (!*page && !(*page = log_allocate(budget, LOG_SCTP_PAGE * sizeof **page)))
        return NULL;
    struct log_sctp_stream **stream = &(*page)[number % LOG_SCTP_PAGE];
    if (*stream || !(*stream = log_allocate(budget, sizeof **stream)))
        return *stream;
    (*stream)->next = (*streams)->first;
    return (*streams)->first = *stream;
}

/* The stream of a number; NULL if there is none. */
static inline struct log_sctp_stream *log_sctp_find(const struct log_sctp *streams, uint16_t number) {
    struct log_sctp_stream *const *page = streams ? streams->page[number / LOG_SCTP_PAGE] : NULL;
    return page ? page[number % LOG_SCTP_PAGE] : NULL;
}

/* Frees the streams of an association; the caller has freed what it has of them. */
static inline void log_sctp_free(struct log_sctp **streams, struct log_budget *budget) {
    struct log_sctp *all = *streams;
    if (!all)
        return;
    for (struct log_sctp_stream *stream; (stream = all->first);) {
        all->first = stream->next;
        log_give(budget, sizeof *stream);
        free(stream);
    }
    for (unsigned i = 0; i < LOG_SCTP_PAGE; i++) {
        log_give(budget, all->page[i] ? LOG_SCTP_PAGE * sizeof *all->page[i] : 0);
        free(all->page[i]);
    }
    log_give(budget, sizeof *all);
    free(all);
    *streams = NULL;
}

/* Whether a message is the next one of its side of a stream, or the first that was captured. Else some are missing. */
static inline bool log_sctp_follows(struct log_sctp_stream *stream, unsigned side, const struct log_sctp_message *message) {
    bool follows = !stream->seen[side] || stream->awaited[side] == message->number;
    stream->seen[side] = true;
    stream->awaited[side] = (message->number + 1) & message->mask;
    return follows;
}

#endif
