/* Parts of a message whose number or size is known only from the bytes before each: chunks (RFC 9112, section 7.1),
 * RESP values, the values of a Memcached answer.
 */
#ifndef SERVICE_PARTS_H
#define SERVICE_PARTS_H

#include "headers.h"

enum { SERVICE_LINE = 4096 }; /* bytes of a line with the length of a part */

static inline enum service_parsed service_next_chunk(struct service_tail *tail, const uint8_t *data, uint64_t line,
                                                     uint64_t *take)
{
    uint64_t size = 0, digits = 0;

    if (!service_plain(data, line - 2, true))
        return SERVICE_MALFORMED; /* also in an extension and a trailer: a bare LF ends a line for other programs */
    if (tail->state == 2) {
        const uint8_t *colon = memchr(data, ':', line);

        if (line == 2)
            tail->kind = SERVICE_NO_TAIL;
        else if (!colon || !service_is_token((struct service_text){data, (uint32_t)(colon - data)}))
            return SERVICE_MALFORMED; /* a program without support for trailers would parse it as the next message */
        *take = line;
        return SERVICE_READY;
    }
    for (; digits < line; digits++) {
        uint8_t c = service_lower(data[digits]);

        if (c >= '0' && c <= '9')
            size = size * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            size = size * 16 + (c - 'a' + 10);
        else
            break;
    }
    if (digits == 0 || digits > 8 || (data[digits] != '\r' && data[digits] != ';'))
        return SERVICE_MALFORMED;
    tail->state = size ? 1 : 2;
    *take = line + size;
    return SERVICE_READY;
}

static inline enum service_parsed service_next_resp(struct service_tail *tail, const uint8_t *data, uint64_t line,
                                                    uint64_t *take)
{
    struct service_text number = {data + 1, (uint32_t)(line - 3)};
    bool bad = false;
    int64_t count = 0;

    *take = line;
    tail->left--;
    if (memchr("$=!*~>%|", data[0], 8)) {
        if (number.length == 2 && memcmp(number.at, "-1", 2) == 0)
            goto done;
        count = service_decimal(number, &bad);
        if (bad || count > (512 << 20))
            return SERVICE_MALFORMED;
    }
    switch (data[0]) {
    case '$':
    case '=':
    case '!':
        *take += (uint64_t)count;
        tail->state = 1;
        return SERVICE_READY;
    case '|':
        count++; /* the value that the attributes belong to */
        /* fall through */
    case '%':
        count = 2 * count - (data[0] == '|');
        /* fall through */
    case '*':
    case '~':
    case '>':
        if (count + tail->left > 1 << 20)
            return SERVICE_MALFORMED;
        tail->left += (uint32_t)count;
        break;
    default:
        break;
    }
done:
    if (tail->left == 0)
        tail->kind = SERVICE_NO_TAIL;
    return SERVICE_READY;
}

/* A command of Redis: what does not begin with '*' is a line of words, whatever type its first byte means in a reply.
 * Words in quotes are refused: this parser would read another key from them than the server does. */
static inline enum service_parsed service_next_command(struct service_tail *tail, const uint8_t *data, uint64_t line,
                                                       uint64_t *take)
{
    struct service_text number = {data + 1, (uint32_t)(line > 3 ? line - 3 : 0)};
    bool first = tail->kind == SERVICE_COMMAND, bad = false;
    int64_t count = 0;

    *take = line;
    if (first && data[0] != '*') {
        tail->kind = SERVICE_NO_TAIL;
        return service_plain(data, line - 2, false) && !memchr(data, '"', line) && !memchr(data, '\'', line)
                   ? SERVICE_READY
                   : SERVICE_MALFORMED;
    }
    if (!(first && number.length == 2 && memcmp(number.at, "-1", 2) == 0))
        count = service_decimal(number, &bad);
    if (bad || count > (first ? 1 << 20 : 512 << 20) || (!first && data[0] != '$'))
        return SERVICE_MALFORMED;
    if (first) {
        tail->kind = count ? SERVICE_BULKS : SERVICE_NO_TAIL;
        tail->left = (uint32_t)count;
        return SERVICE_READY;
    }
    *take += (uint64_t)count;
    tail->left--;
    tail->state = 1;
    return SERVICE_READY;
}

static inline enum service_parsed service_next_value(struct service_tail *tail, const uint8_t *data, uint64_t line,
                                                     uint64_t *take)
{
    struct service_text text = {data, (uint32_t)(line - 2)};
    bool value = line > 6 && memcmp(data, "VALUE ", 6) == 0, meta = line > 3 && memcmp(data, "VA ", 3) == 0, bad = false;

    *take = line;
    if (value || meta) {
        *take += (uint64_t)service_decimal(service_word(text, value ? 3 : 1), &bad);
        tail->state = 1;
        tail->left = value; /* one more answer, or none */
        return bad ? SERVICE_MALFORMED : SERVICE_READY;
    }
    if ((line > 5 && memcmp(data, "STAT ", 5) == 0) || (line > 5 && memcmp(data, "ITEM ", 5) == 0))
        return SERVICE_READY;
    tail->kind = SERVICE_NO_TAIL;
    return SERVICE_READY;
}

/* The next part of a message, at whose place `data` begins: `take` bytes, of which some may be missing. The kind is
 * SERVICE_NO_TAIL after the last one. */
static inline enum service_parsed service_next_part(struct service_tail *tail, const uint8_t *data, uint64_t length,
                                                    uint64_t *take, uint64_t *need)
{
    enum service_parsed found;
    uint64_t line;

    if (tail->kind == SERVICE_TO_THE_END) {
        *take = length;
        *need = length + 1;
        found = length ? SERVICE_READY : SERVICE_MORE;
    } else if (tail->state == 1) {
        *need = 2;
        if (length < 2)
            return SERVICE_MORE;
        if (memcmp(data, "\r\n", 2) != 0)
            return SERVICE_MALFORMED;
        *take = 2;
        tail->state = 0;
        if (tail->kind != SERVICE_CHUNKS && tail->left == 0)
            tail->kind = SERVICE_NO_TAIL;
        return SERVICE_READY;
    } else {
        line = service_line(data, length < SERVICE_LINE ? length : SERVICE_LINE);
        *need = length + 1;
        if (line == 0)
            return length >= SERVICE_LINE ? SERVICE_MALFORMED : SERVICE_MORE;
        if (memchr(data, '\n', line - 2))
            return SERVICE_MALFORMED; /* other programs would see two lines */
        switch (tail->kind) {
        case SERVICE_CHUNKS:
            found = service_next_chunk(tail, data, line, take);
            break;
        case SERVICE_RESP:
            found = service_next_resp(tail, data, line, take);
            break;
        case SERVICE_COMMAND:
        case SERVICE_BULKS:
            found = service_next_command(tail, data, line, take);
            break;
        default:
            found = service_next_value(tail, data, line, take);
            break;
        }
    }
    if (found == SERVICE_READY) {
        if (*take > tail->allowed)
            return SERVICE_MALFORMED;
        tail->allowed -= *take;
    }
    return found;
}

/* All parts that are there, from `*at` on; it is moved after them, also beyond the data. SERVICE_MORE: the last part is
 * not there as a whole, or its beginning is not; `need` bytes are needed to go on. */
static inline enum service_parsed service_parts(struct service_tail *tail, const uint8_t *data, uint64_t length,
                                                uint64_t *at, uint64_t *need)
{
    while (tail->kind && *at <= length) {
        uint64_t take = 0, more = 0;
        enum service_parsed found = service_next_part(tail, data + *at, length - *at, &take, &more);

        if (found == SERVICE_MORE)
            *need = *at + more;
        if (found != SERVICE_READY)
            return found;
        *at += take;
    }
    if (tail->kind)
        *need = *at + 1;
    return tail->kind ? SERVICE_MORE : SERVICE_READY;
}

/* item(): item `number` of an array of bulk strings, from 0; of an inline command, word `number`. `missing` is set if
 * the bytes end before it. */
static inline struct service_text service_item(struct service_text text, int64_t number, bool *missing)
{
    struct service_text none = {text.at, 0};
    uint64_t line = service_line(text.at, text.length), at = line;
    bool bad = false;
    int64_t count;

    if (line == 0) {
        *missing = true;
        return none;
    }
    if (text.at[0] != '*')
        return service_word((struct service_text){text.at, (uint32_t)(line - 2)}, number);
    count = service_decimal((struct service_text){text.at + 1, (uint32_t)(line - 3)}, &bad);
    if (bad || number >= count)
        return none;
    for (int64_t i = 0;; i++) {
        int64_t size;

        line = at < text.length ? service_line(text.at + at, text.length - at) : 0;
        if (line == 0) {
            *missing = true;
            return none;
        }
        if (text.at[at] != '$')
            return none;
        size = service_decimal((struct service_text){text.at + at + 1, (uint32_t)(line - 3)}, &bad);
        if (bad)
            return none;
        at += line;
        if (i == number) {
            *missing = *missing || (uint64_t)size > text.length - at;
            return *missing ? none : (struct service_text){text.at + at, (uint32_t)size};
        }
        if ((uint64_t)size + 2 > text.length - at) {
            *missing = true;
            return none;
        }
        at += (uint64_t)size + 2;
    }
}

#endif
