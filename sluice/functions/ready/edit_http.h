/* HTTP/1 in a stream whose bytes are edited: where its bodies are, and how long each is (RFC 9112, 6). A body whose length
 * an edit may change leaves in chunks.
 *
 * Messages are followed from the first byte of the connection; without HTTP, its state is EDIT_HTTP_NONE. */
#ifndef SLUICE_EDIT_HTTP_H
#define SLUICE_EDIT_HTTP_H

#include "sluice.h"

#include <strings.h>

enum { EDIT_HEAD_MOST = 16384, EDIT_REQUESTS_MOST = 64 };

enum edit_http_state {
    EDIT_HTTP_HEAD,         /* between the first byte of a message and its body; or before one */
    EDIT_HTTP_LENGTH,       /* in a body of `left` more bytes */
    EDIT_HTTP_SIZE,         /* in the line before a chunk */
    EDIT_HTTP_CHUNK,        /* in a chunk of `left` more bytes */
    EDIT_HTTP_CHUNK_END,    /* in the line end after a chunk */
    EDIT_HTTP_TRAILER,      /* after the last chunk */
    EDIT_HTTP_CLOSE,        /* in a body that ends with the connection */
    EDIT_HTTP_NONE,
};

enum { EDIT_REQUEST_HEAD = 1, EDIT_REQUEST_OLD = 2, EDIT_REQUEST_CONNECT = 4 };   /* HEAD; HTTP/1.0; CONNECT */

struct edit_http {
    uint8_t state;            /* enum edit_http_state */
    bool reframes;            /* the body leaves in chunks of ours */
    bool fixed;               /* its length must not change, as its receiver does not support chunks */
    bool known;               /* it had a message before */
    bool doubtful;            /* disabled, though maybe HTTP: an edit that changes a length could break a message */
    bool digits;              /* the line of a chunk's size has one */
    uint64_t left;
    uint32_t line;            /* bytes of the current line */
    uint32_t count;           /* bytes in `head` */
    uint8_t *head;            /* the bytes of a head that is not complete; NULL: none */
    size_t room;
};

/* Requests that have no answer yet. */
struct edit_requests {
    uint8_t entry[EDIT_REQUESTS_MOST];
    uint32_t begin, count;
};

/* Could these be the first bytes of a message? */
static bool edit_http_begins(const uint8_t *at, uint32_t count, bool request) {
    static const char version[] = "HTTP/1.";
    if (!request)
        return memcmp(at, version, sl_min(count, sizeof version - 1)) == 0;
    uint32_t i = 0;
    while (i < count && i < 20 && at[i] >= 'A' && at[i] <= 'Z')
        i++;
    return i == count || (i > 0 && i < 20 && at[i] == ' ');
}

/* May bytes that were collected as a head be one, so far? */
static bool edit_http_looks(const uint8_t *head, uint32_t count, bool request) {
    const uint8_t *end = count ? memchr(head, '\n', count) : NULL;
    if (!count || !edit_http_begins(head, (uint32_t)sl_min(count, 24), request))
        return false;
    if (!request || !end)
        return true;
    const uint8_t *version = end - (end > head && end[-1] == '\r') - 8;
    return version > head && memcmp(version, "HTTP/1.", 7) == 0;
}

/* The value of a field line of a head, if it has this name; NULL otherwise. */
static const char *edit_http_value(const char *line, const char *end, const char *name, size_t *length) {
    size_t n = strlen(name);
    if ((size_t)(end - line) <= n || strncasecmp(line, name, n) || line[n] != ':')
        return NULL;
    const char *value = line + n + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *length = (size_t)(end - value);
    return value;
}

/* The framing given by the fields of a head. */
struct edit_http_fields {
    bool valid, chunked, coded, has_length, upgrade;
    uint64_t length;
    uint32_t length_at, length_end;   /* the line of Content-Length */
    uint32_t accepts;                 /* where the line of Accept-Encoding begins; 0: none */
};

static struct edit_http_fields edit_http_read(const char *head, uint32_t count) {
    struct edit_http_fields found = {.valid = true};
    const char *line = memchr(head, '\n', count), *end = head + count;
    for (line = line ? line + 1 : end; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next + 1 : end;
        size_t n;
        const char *value = edit_http_value(line, next, "content-length", &n);
        if (value) {
            uint64_t length = 0;
            for (size_t i = 0; i < n; i++) {
                found.valid = found.valid && value[i] >= '0' && value[i] <= '9' && length < UINT64_MAX / 16;
                length = length * 10 + (uint64_t)(value[i] - '0');
            }
            found.valid = found.valid && n && !found.has_length;
            found.has_length = true;
            found.length = length;
            found.length_at = (uint32_t)(line - head);
            found.length_end = (uint32_t)(next - head);
        }
        value = edit_http_value(line, next, "transfer-encoding", &n);
        if (value) {
            found.coded = !(n == 7 && strncasecmp(value, "chunked", 7) == 0);
            found.chunked = true;
        }
        if (edit_http_value(line, next, "accept-encoding", &n))
            found.accepts = (uint32_t)(line - head);
        found.upgrade = found.upgrade || edit_http_value(line, next, "upgrade", &n);
        line = next;
    }
    found.valid = found.valid && !(found.chunked && found.has_length);
    return found;
}

/* Reads a complete head. Returns false if it is none; else sets the state for the next bytes, and *fields. both: of the two
 * sides, by side; 0 sends requests. */
static bool edit_http_head(struct edit_http *both, unsigned side, struct edit_requests *requests, const char *head,
                           uint32_t count, struct edit_http_fields *fields) {
    struct edit_http *http = &both[side];
    const char *end = memchr(head, '\n', count);
    if (!end)
        return false;
    *fields = edit_http_read(head, count);
    uint8_t request = 0;
    bool old = false, body = fields->chunked || (fields->has_length && fields->length);
    if (side == 0) {
        const char *version = end - (end > head && end[-1] == '\r') - 8;
        if (version <= head || memcmp(version, "HTTP/1.", 7) || requests->count == EDIT_REQUESTS_MOST)
            return false;
        old = version[7] == '0';
        request = (uint8_t)((old ? EDIT_REQUEST_OLD : 0) | (strncmp(head, "HEAD ", 5) == 0 ? EDIT_REQUEST_HEAD : 0) |
                            (strncmp(head, "CONNECT ", 8) == 0 ? EDIT_REQUEST_CONNECT : 0));
        requests->entry[(requests->begin + requests->count++) % EDIT_REQUESTS_MOST] = request;
        http->state = body ? EDIT_HTTP_LENGTH : EDIT_HTTP_HEAD;
        if (request & EDIT_REQUEST_CONNECT)
            http->state = EDIT_HTTP_NONE;
        http->known = http->state != EDIT_HTTP_NONE;
    } else {
        if (end - head < 12 || head[8] != ' ')
            return false;
        bool informs = head[9] == '1', none = informs || !strncmp(head + 9, "204", 3) || !strncmp(head + 9, "304", 3);
        if (!requests->count)
            return false;   /* an answer without a request */
        request = requests->entry[requests->begin % EDIT_REQUESTS_MOST];
        if (!informs) {
            requests->begin++;
            requests->count--;
        }
        old = head[7] == '0' || (request & EDIT_REQUEST_OLD);
        if (!strncmp(head + 9, "101", 3) || ((request & EDIT_REQUEST_CONNECT) && head[9] == '2')) {
            both[0].state = both[1].state = EDIT_HTTP_NONE;
            both[0].known = both[1].known = false;
            return true;
        }
        none = none || (request & EDIT_REQUEST_HEAD);
        http->known = true;
        bool until_close = !none && !fields->chunked && !fields->has_length;
        http->state = until_close ? EDIT_HTTP_CLOSE : none || !body ? EDIT_HTTP_HEAD : EDIT_HTTP_LENGTH;
    }
    if (!fields->valid || fields->coded)
        return false;
    if (http->state == EDIT_HTTP_LENGTH && fields->chunked)
        http->state = EDIT_HTTP_SIZE;
    http->left = fields->chunked ? 0 : fields->length;
    http->fixed = old;
    http->digits = false;
    http->line = 0;
    return true;
}

/* Parses the next bytes of a message after its head: returns how many belong together, and in *body whether they are bytes
 * of the body. *ended: the message ends after them. The state is EDIT_HTTP_NONE after an error in the framing. */
static uint32_t edit_http_next(struct edit_http *http, const uint8_t *at, uint32_t count, bool *body, bool *ended) {
    *body = *ended = false;
    switch (http->state) {
    case EDIT_HTTP_CLOSE:
        *body = true;
        return count;
    case EDIT_HTTP_LENGTH:
    case EDIT_HTTP_CHUNK: {
        uint32_t here = (uint32_t)sl_min(count, http->left);
        *body = true;
        http->left -= here;
        if (!http->left && http->state == EDIT_HTTP_LENGTH) {
            *ended = true;
            http->state = EDIT_HTTP_HEAD;
        } else if (!http->left) {
            http->state = EDIT_HTTP_CHUNK_END;
        }
        return here;
    }
    default:
        break;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint8_t c = at[i], digit = c >= '0' && c <= '9' ? (uint8_t)(c - '0') : (uint8_t)((c | 32) - 'a' + 10);
        bool is_digit = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
        if (http->state == EDIT_HTTP_SIZE && http->line == 0 && is_digit && http->left >> 56 == 0) {
            http->left = http->left << 4 | digit;
            http->digits = true;
        } else if (c != '\n') {
            bool fits = http->state == EDIT_HTTP_CHUNK_END ? c == '\r' && !http->line : http->line < EDIT_HEAD_MOST;
            fits = fits && !(http->state == EDIT_HTTP_SIZE && !http->digits);
            if (!fits) {
                http->state = EDIT_HTTP_NONE;
                return i;
            }
            http->line += c != '\r' || http->state != EDIT_HTTP_TRAILER;
        } else if (http->state == EDIT_HTTP_TRAILER) {
            bool last = http->line == 0;
            http->line = 0;
            if (last) {
                *ended = true;
                http->state = EDIT_HTTP_HEAD;
                return i + 1;
            }
        } else {
            bool size = http->state == EDIT_HTTP_SIZE;
            if (size && !http->digits) {
                http->state = EDIT_HTTP_NONE;
                return i;
            }
            http->state = !size ? EDIT_HTTP_SIZE : http->left ? EDIT_HTTP_CHUNK : EDIT_HTTP_TRAILER;
            http->digits = false;
            http->line = 0;
            return i + 1;
        }
    }
    return count;
}

#endif
