/* Bodies of HTTP as files: pairs responses of HTTP/1 with requests for their names. Messages are parsed by http_side.h; HTTP/2 by
 * file_http2.h. */
#ifndef FILE_HTTP_H
#define FILE_HTTP_H

#include "file_http2.h"
#include "http_stored.h"
#include "tls_connection.h"

enum { FILE_REQUESTS = 256 };   /* requests of a connection without a response, at most */

struct file_request {
    struct file_request *next;
    uint8_t method;
    uint32_t length;
    uint8_t path[];
};

struct file_http {
    struct http_side side[2];
    struct http_message message[2];
    struct file_body *file[2];
    struct log_text disposition[2];   /* Content-Disposition of the current message */
    bool in_disposition[2];
    char name[2][24];                 /* of the current header */
    uint8_t name_length[2];
    struct file_request *first;
    uint32_t requests;
    bool from_start, answered;        /* `answered`: the response for which the requests wait was parsed */
    struct sl_box *box;
    struct file_box *files;
    const struct log_flow *flow;
    struct http2_library *library;    /* without one, HTTP/2 is not read */
    struct file_http2 *two;           /* NULL until HTTP/2 begins */
    bool upgraded;                    /* to HTTP/2, after messages of HTTP/1 */
    struct tls_connection *tls;       /* that may begin in a tunnel; NULL without secrets */
};

static inline unsigned file_http_side(const struct file_http *http, const struct http_side *side) { return side == &http->side[1]; }

static inline struct http_message *file_http_begin(struct http_side *side) {
    struct file_http *http = side->user;
    unsigned number = file_http_side(http, side);
    if (side->response && !http->first && http->from_start && !side->alone)
        return NULL;   /* wait for its request, which has the name */
    http_message_free(&http->message[number], side->budget);
    http->message[number] = (struct http_message){.begun = true};
    http->disposition[number].used = 0;
    http->in_disposition[number] = false;
    http->name_length[number] = 0;
    return &http->message[number];
}

static inline void file_http_pop(struct file_http *http) {
    struct file_request *first = http->first;
    if (!first)
        return;
    http->first = first->next;
    http->requests--;
    log_give(&http->files->budget, sizeof *first + first->length);
    free(first);
}

/* --- HTTP/2 --- */

/* Begins HTTP/2. Returns false without memory. */
static inline bool file_http_two(struct file_http *http) {
    if (http->two)
        return true;
    http->two = log_allocate(&http->files->budget, sizeof *http->two);
    if (!http->two) {
        http->files->no_memory++;
        return false;
    }
    http->two->library = http->library;
    http->two->streams = (struct file_streams){.box = http->box, .files = http->files, .flow = http->flow};
    return true;
}

/* Bytes of a side, from its first frame, or preface, on. */
static inline void file_http_frames(struct http_side *side, const uint8_t *at, uint32_t length) {
    struct file_http *http = side->user;
    if (!file_http_two(http)) {
        http_stop(side, NULL);
        return;
    }
    unsigned number = file_http_side(http, side);
    if (file_2_read(http->two, number, side->response, at, length))
        return;
    file_2_side_end(http->two, number);
    http_stop(side, http->two->side[number].error);
}

/* The connection continues with HTTP/2. The response to the request that caused this is that of stream 1. */
static inline bool file_http_upgrade(struct file_http *http) {
    struct file_stream *stream = file_http_two(http) ? file_2_stream(http->two, 1, true) : NULL;
    if (!stream)
        return false;
    if (http->first)
        file_name(&stream->path, http->first->path, http->first->length);
    stream->part[0].begun = stream->part[0].headed = stream->part[0].over = true;
    for (unsigned i = 0; i < 2; i++)
        if (http->side[i].response)
            http->side[i].state = HTTP_FRAMES;
    http->upgraded = true;
    return true;
}

static inline int file_http_headed(struct http_side *side) {
    struct file_http *http = side->user;
    struct http_message *message = side->message;
    if (!side->response) {
        uint32_t length = (uint32_t)message->path.used;
        bool room = http->requests < FILE_REQUESTS && log_take(&http->files->budget, sizeof(struct file_request) + length);
        struct file_request *request = room ? malloc(sizeof *request + length) : NULL, **last = &http->first;
        if (!request) {
            if (room)
                log_give(&http->files->budget, sizeof *request + length);
            http->files->left_out++;
            http_stop(side, NULL);
            return -1;
        }
        *request = (struct file_request){NULL, message->method, length};
        if (length)
            memcpy(request->path, message->path.at, length);
        while (*last)
            last = &(*last)->next;
        *last = request;
        http->requests++;
        return 0;
    }
    if (http_is_h2c(side, message) || (http->first && http->first->method == HTTP_CONNECT && message->status / 100 == 2))
        return 2;
    return http->first && http->first->method == HTTP_HEAD && message->status / 100 != 1;
}

/* The name of a file: of Content-Disposition (RFC 6266), else the last part of the path. */
static inline void file_http_name(struct file_http *http, unsigned number, struct log_text *name) {
    const struct log_text *disposition = &http->disposition[number];
    char text[FILE_NAME + 1];
    size_t length = disposition->used ? mime_parameter(disposition->at, disposition->used, "filename", text, sizeof text) : 0;
    if (length) {
        file_name(name, (const uint8_t *)text, length);
        return;
    }
    const struct http_message *own = &http->message[number];
    bool response = http->side[number].response;
    const uint8_t *path = response ? (http->first ? http->first->path : NULL) : (const uint8_t *)own->path.at;
    file_name_of_path(name, path, response ? (http->first ? http->first->length : 0) : own->path.used);
}

static inline void file_http_piece(struct http_side *side, enum http_piece piece, const char *at, size_t length) {
    struct file_http *http = side->user;
    unsigned number = file_http_side(http, side);
    static const char disposition[] = "content-disposition";
    switch (piece) {
    case HTTP_NAME_BYTES:
        for (size_t i = 0; i < length && http->name_length[number] < sizeof http->name[0]; i++)
            http->name[number][http->name_length[number]++] = at[i];
        break;
    case HTTP_VALUE_BYTES:
        if (http->name_length[number] == sizeof disposition - 1 && !strncasecmp(http->name[number], disposition, sizeof disposition - 1))
            file_name(&http->disposition[number], (const uint8_t *)at, length);
        break;
    case HTTP_VALUE_END: http->name_length[number] = 0; break;
    default: {
        struct file_body *file = http->file[number];
        const struct http_message *message = &http->message[number];
        if (!file && (side->response ? message->status / 100 != 1 : true)) {
            file = http->file[number] = file_begin(http->box, http->files, http->flow, number, "http");
            if (file) {
                file_http_name(http, number, &file->name);
                file_name(&file->declared, (const uint8_t *)message->header[HTTP_TYPE].at, message->header[HTTP_TYPE].used);
                file->has_expected = message->has_length;
                file->expected = message->length;
                /* bytes before the first one that is there */
                file->missing = message->missing;
            }
        }
        if (file)
            file_bytes(http->box, http->files, file, (const uint8_t *)at, length);
    }
    }
}

static inline void file_http_file_end(struct file_http *http, unsigned number, bool complete) {
    struct file_body *file = http->file[number];
    if (!file)
        return;
    file->missing = sl_max(file->missing, http->message[number].missing);
    http->file[number] = NULL;
    file_end(http->box, http->files, file, "http", complete);
}

static inline void file_http_complete(struct http_side *side) {
    struct file_http *http = side->user;
    unsigned number = file_http_side(http, side);
    const struct http_message *message = side->message;
    file_http_file_end(http, number, message->complete);
    bool final = message->status / 100 != 1 || message->status == 101;
    if (!side->response || !final)
        return;
    bool connected = http->first && http->first->method == HTTP_CONNECT && message->status / 100 == 2;
    bool upgraded = http_is_h2c(side, message) && file_http_upgrade(http);
    if ((message->status == 101 && !upgraded) || connected) {
        http->side[0].state = http->side[1].state = HTTP_TUNNEL;
        if (http->tls)
            tls_connection_look_again(http->tls);
    }
    file_http_pop(http);
    http->answered = true;
}

/* Bytes after the messages of CONNECT. Those of a proxy within TLS have been opened already, and are not read. */
static inline void file_http_tunnelled(struct http_side *side, const uint8_t *at, uint32_t length) {
    struct file_http *http = side->user;
    unsigned number = file_http_side(http, side);
    if (http->tls && !tls_connection_has_begun(http->tls, number))
        tls_connection_bytes(http->tls, number, at, length, sl_box_time(http->box));
}

static const struct http_owner file_http_owner = {file_http_begin, file_http_headed, file_http_complete, file_http_piece, file_http_frames,
                                                   file_http_tunnelled};
static const struct http_owner file_http_owner_of_1 = {file_http_begin, file_http_headed, file_http_complete, file_http_piece, NULL,
                                                        file_http_tunnelled};

/* `library`: without its functions, HTTP/2 is not read. */
static inline void file_http_open(struct file_http *http, struct sl_box *box, struct file_box *files, const struct log_flow *flow,
                                  struct http2_library *library, bool from_start) {
    http->library = library;
    http->box = box;
    http->files = files;
    http->flow = flow;
    http->from_start = from_start;
    for (unsigned i = 0; i < 2; i++) {
        http->side[i].user = http;
        http->side[i].owner = library->create ? &file_http_owner : &file_http_owner_of_1;
        http->side[i].budget = &files->budget;
    }
}

/* Continues sides that waited for data of the other one. */
static inline void file_http_settle(struct file_http *http) {
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = 0; i < 2; i++) {
            struct http_side *side = &http->side[i];
            if (http->upgraded && !side->response && (side->state == HTTP_HOLDING || (side->state == HTTP_READING && !side->message)))
                http_release(side, HTTP_FRAMES, file_http_frames);
            bool ready = side->response ? side->waits_to_begin && http->first : http->answered;
            if (side->state != HTTP_HOLDING || !ready)
                continue;
            http->answered &= side->response;
            http_side_resume(side);
            again = true;
        }
    }
    for (unsigned i = 0; i < 2; i++)
        if (http->side[i].state == HTTP_TUNNEL && http->side[i].held_used)
            http_release(&http->side[i], HTTP_TUNNEL, file_http_tunnelled);
}

static inline void file_http_bytes(struct file_http *http, unsigned number, sl_bytes bytes, uint64_t search) {
    http_sides_bytes(http->side, number, bytes.at, bytes.captured, search);
    file_http_settle(http);
}

static inline void file_http_gap(struct file_http *http, unsigned number, uint64_t length) {
    struct http_side *side = &http->side[number];
    if (http->two && side->state == HTTP_FRAMES && http->two->side[number].owner) {
        http2_gap(&http->two->side[number], length);
        if (http->two->side[number].error) {
            file_2_side_end(http->two, number);
            http_stop(side, "GAP");
        }
        return;
    }
    if (side->state != HTTP_READING || !(side->in_body || side->to_the_end))
        http->from_start = false;
    http_side_gap(side, length);
    if (http->file[number])
        http->file[number]->missing = http->message[number].missing;
    file_http_settle(http);
}

/* No more of a side is read: its files are not complete. */
static inline void file_http_side_stop(struct file_http *http, unsigned number) {
    struct http_side *side = &http->side[number];
    if (!(side->known && side->response))
        http->from_start = false;
    if (http->two && side->state == HTTP_FRAMES)
        file_2_side_end(http->two, number);
    else if (side->state == HTTP_READING)
        http_break(side, "TLS");
    http_stop(side, "TLS");
}

static inline void file_http_end(struct file_http *http) {
    http->from_start = false;
    for (unsigned i = 0; i < 2; i++) {
        struct http_side *side = &http->side[i];
        side->alone = true;
        if (side->state == HTTP_HOLDING && side->waits_to_begin)
            http_side_resume(side);
        http_side_end(side);
        file_http_file_end(http, i, false);
    }
}

/* The messages of HTTP/1 in the state of a connection; it was opened as at first. */
static inline void file_http_stored(struct sl_stored *stored, struct file_http *http) {
    struct log_budget *budget = &http->files->budget;
    SL_STORED(stored, http->from_start);
    SL_STORED(stored, http->answered);
    for (struct file_request **at = &http->first; sl_stored_more(stored, *at != NULL); at = &(*at)->next) {
        uint32_t length = *at ? (*at)->length : 0;
        SL_STORED(stored, length);
        size_t size = sizeof **at + (size_t)length;
        if (stored->reads && http->requests >= FILE_REQUESTS) {
            stored->failed = true;
            return;
        }
        if (!(*at = log_block_stored(stored, budget, *at, size, offsetof(struct file_request, method))))
            return;
        (*at)->length = length;
        http->requests += stored->reads;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct http_side *side = &http->side[i];
        bool reads = side->message;
        http_message_stored(stored, &http->message[i], budget);
        http_side_stored(stored, side);
        SL_STORED(stored, reads);
        if (stored->reads)
            side->message = reads ? &http->message[i] : NULL;
        log_text_stored(stored, &http->disposition[i]);
        SL_STORED(stored, http->in_disposition[i]);
        SL_STORED(stored, http->name[i]);
        SL_STORED(stored, http->name_length[i]);
        http->name_length[i] = (uint8_t)sl_min(http->name_length[i], sizeof http->name[i]);
        file_stored(stored, http->box, http->files, &http->file[i]);
    }
}

static inline bool file_http_over(const struct file_http *http) {
    for (unsigned i = 0; i < 2; i++)
        if (http->side[i].state != HTTP_STOPPED && http->side[i].state != HTTP_TUNNEL)
            return false;
    return true;
}

static inline void file_http_close(struct file_http *http) {
    if (http->two) {
        file_2_close(http->two);
        log_give(&http->files->budget, sizeof *http->two);
        free(http->two);
    }
    while (http->first)
        file_http_pop(http);
    for (unsigned i = 0; i < 2; i++) {
        file_http_file_end(http, i, false);
        http_message_free(&http->message[i], &http->files->budget);
        http_held_free(&http->side[i]);
        free(http->disposition[i].at);
    }
}

#endif
