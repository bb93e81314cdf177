/* Header fields, and how they frame a body (RFC 9112). */
#ifndef SERVICE_HEADERS_H
#define SERVICE_HEADERS_H

#include "text.h"

enum { SERVICE_DATE = 40 }; /* bytes that suffice for a date, with the zero byte at its end */

static inline bool service_token(uint8_t c)
{
    return (c >= '0' && c <= '9') || (service_lower(c) >= 'a' && service_lower(c) <= 'z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* The bytes of a block of header fields, without the empty line that ends it. SERVICE_MALFORMED for a line that is no
 * field: without a name, with a space before the colon, folded (section 5.2), or with a control character. */
static inline enum service_parsed service_headers(const uint8_t *data, uint64_t length, uint64_t *size)
{
    for (uint64_t at = 0;;) {
        uint64_t line = service_line(data + at, length - at), colon = at;

        if (line == 0)
            return SERVICE_MORE;
        if (line == 2) {
            *size = at;
            return SERVICE_READY;
        }
        while (service_token(data[colon]))
            colon++;
        if (colon == at || data[colon] != ':')
            return SERVICE_MALFORMED;
        if (!service_plain(data + colon, at + line - 2 - colon, true))
            return SERVICE_MALFORMED;
        at += line;
    }
}

/* The value of the next field of a name, from `*at` on, which is moved after it; false if there is none. */
static inline bool service_next_header(struct service_text block, struct service_text name, uint32_t *at,
                                       struct service_text *value)
{
    while (*at < block.length) {
        const uint8_t *line = block.at + *at;
        uint32_t size = (uint32_t)service_line(line, block.length - *at);

        if (size == 0)
            return false;
        *at += size;
        if (size > name.length + 2 && line[name.length] == ':' &&
            service_same_word((struct service_text){line, name.length}, name)) {
            *value = service_trim((struct service_text){line + name.length + 1, size - 3 - name.length});
            return true;
        }
    }
    return false;
}

/* header(): the first value of a name; empty if there is none. */
static inline struct service_text service_header(struct service_text block, struct service_text name)
{
    struct service_text value;
    uint32_t at = 0;

    return service_next_header(block, name, &at, &value) ? value : (struct service_text){block.at, 0};
}

/* has(): whether a list of a name contains a token. */
static inline int64_t service_has(struct service_text block, struct service_text name, struct service_text token)
{
    struct service_text value;

    for (uint32_t at = 0; service_next_header(block, name, &at, &value);)
        while (value.length) {
            const uint8_t *comma = memchr(value.at, ',', value.length);
            uint32_t size = comma ? (uint32_t)(comma - value.at) : value.length;

            if (service_same_word(service_trim((struct service_text){value.at, size}), token))
                return 1;
            size += comma != NULL;
            value = (struct service_text){value.at + size, value.length - size};
        }
    return 0;
}

/* How a message's body is framed (RFC 9112, section 6.3). `answer`: a response; `empty`: one that has no body, whatever
 * its fields say. Both a length and chunks, or two lengths that differ, are malformed: what other programs take as the
 * body could differ. */
static inline bool service_framing(struct service_text block, bool answer, bool empty, struct service_tail *tail,
                                   uint64_t *size)
{
    static const uint8_t length_name[] = "content-length", coding_name[] = "transfer-encoding", chunked[] = "chunked";
    struct service_text name = {length_name, 14}, coding = {coding_name, 17}, value, last = {NULL, 0};
    bool known = false, bad = false;
    int64_t length = 0;

    *size = 0;
    for (uint32_t at = 0; service_next_header(block, name, &at, &value);) {
        int64_t other = service_decimal(value, &bad);

        if (bad || (known && other != length))
            return false;
        known = true;
        length = other;
    }
    for (uint32_t at = 0; service_next_header(block, coding, &at, &value);) {
        if (last.at)
            return false;
        last = value;
    }
    if (last.at && (known || !service_same_word(last, (struct service_text){chunked, 7})))
        return false; /* other codings are not known here */
    if (empty)
        return true;
    if (last.at)
        tail->kind = SERVICE_CHUNKS;
    else if (known)
        *size = (uint64_t)length;
    else if (answer)
        tail->kind = SERVICE_TO_THE_END;
    return true;
}

#endif
