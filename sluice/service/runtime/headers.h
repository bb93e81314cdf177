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

/* token(): whether a text is a token (RFC 9110, section 5.6.2). */
static inline int64_t service_is_token(struct service_text text)
{
    uint32_t at = 0;

    while (at < text.length && service_token(text.at[at]))
        at++;
    return text.length && at == text.length;
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

/* The next item of a list between commas, from `*rest` on, which is moved after it; false at the end. */
static inline bool service_next_item(struct service_text *rest, struct service_text *item)
{
    const uint8_t *comma;
    uint32_t size;

    if (!rest->length)
        return false;
    comma = memchr(rest->at, ',', rest->length);
    size = comma ? (uint32_t)(comma - rest->at) : rest->length;
    *item = service_trim((struct service_text){rest->at, size});
    size += comma != NULL;
    *rest = (struct service_text){rest->at + size, rest->length - size};
    return true;
}

/* An entity tag for weak comparison (RFC 9110, section 8.8.3.2). */
static inline struct service_text service_weak_tag(struct service_text tag)
{
    return tag.length > 2 && memcmp(tag.at, "W/", 2) == 0 ? (struct service_text){tag.at + 2, tag.length - 2} : tag;
}

/* has(): whether a list of a name contains a token. */
static inline int64_t service_has(struct service_text block, struct service_text name, struct service_text token)
{
    struct service_text value, item;

    for (uint32_t at = 0; service_next_header(block, name, &at, &value);)
        while (service_next_item(&value, &item))
            if (service_same_word(item, token))
                return 1;
    return 0;
}

/* --- fields of a connection (RFC 9110, section 7.6.1) */

enum { SERVICE_OPTIONS = 16 }; /* fields that Connection may name */

/* The name and the value of a field; `rest` is all between the colon and the end of the line. */
struct service_field {
    struct service_text name, rest;
};

static inline struct service_field service_field_of(const uint8_t *line, uint32_t size)
{
    uint32_t colon = (uint32_t)((const uint8_t *)memchr(line, ':', size) - line);

    return (struct service_field){{line, colon}, {line + colon + 1, size - 3 - colon}};
}

static inline bool service_named(struct service_text text, const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (service_same_word(text, service_literal(names[i])))
            return true;
    return false;
}

/* The next token of such a list: an item that is not empty; false if there is none. */
static inline bool service_next_token(struct service_text *rest, struct service_text *token)
{
    while (service_next_item(rest, token))
        if (token->length)
            return true;
    return false;
}

/* Whether a field belongs to the connection whatever Connection names. TE and Upgrade are of no use to a backend: what they
 * offer is not forwarded. Transfer-Encoding is, with the chunks themselves. */
static inline bool service_hop(struct service_text name)
{
    static const char *const all[] = {"keep-alive", "proxy-connection", "te", "upgrade"};

    return service_named(name, all, sizeof all / sizeof all[0]);
}

/* Names in Connection besides its own options, and fields that frame or route the message, which have to stay: to remove
 * them would give it another meaning. False if it names too many. */
static inline bool service_options(struct service_text rest, struct service_text *options, uint32_t *count)
{
    static const char *const stay[] = {"close", "keep-alive", "connection", "content-length", "transfer-encoding", "host"};
    struct service_text token;

    while (service_next_token(&rest, &token)) {
        if (service_named(token, stay, sizeof stay / sizeof stay[0]))
            continue;
        if (*count == SERVICE_OPTIONS)
            return false;
        options[(*count)++] = token;
    }
    return true;
}

/* Overwrites a line by spaces, so that the value before it has spaces at its end, which do not count (section 5.5). The first
 * line becomes a field of this connection without a value. */
static inline void service_blank_line(uint8_t *block, uint32_t at, uint32_t size)
{
    static const char empty[] = "Connection:", shorter[] = "TE:";
    const char *name = size - 2 >= sizeof empty - 1 ? empty : shorter;

    if (at) {
        memset(block + at - 2, ' ', size);
    } else if (size - 2 >= strlen(name)) {
        memset(block, ' ', size - 2);
        memcpy(block, name, strlen(name));
    }
}

/* Overwrites the value of Connection: by `fill` if there is one and `*filled` is not set; else only `keep-alive` stays, once,
 * since connections to backends outlive those of clients. */
static inline void service_blank_options(struct service_text rest, struct service_text fill, bool *filled)
{
    static const char alive[] = "keep-alive";
    uint8_t *at = (uint8_t *)(uintptr_t)rest.at;
    struct service_text left = rest, token;

    while (!fill.length && !*filled && service_next_token(&left, &token))
        if (service_named(token, (const char *const[]){alive}, 1)) {
            memset(at, ' ', (size_t)(token.at - at));
            memset(at + (token.at - at) + token.length, ' ', rest.length - (size_t)(token.at - at) - token.length);
            *filled = true;
            return;
        }
    memset(at, ' ', rest.length);
    if (!fill.length || *filled || fill.length > rest.length)
        return;
    memcpy(at + (fill.length < rest.length), fill.at, fill.length);
    *filled = true;
}

/* Blanks the fields of a block that belong to its connection. False if Connection names too many. */
static inline bool service_hops(uint8_t *block, uint32_t length, struct service_text fill)
{
    static const char *const connection[] = {"connection"};
    struct service_text options[SERVICE_OPTIONS];
    uint32_t count = 0, size;
    bool any = false, filled = false;

    for (uint32_t at = 0; at < length; at += size) {
        uint8_t first = service_lower(block[at]);

        size = (uint32_t)service_line(block + at, length - at);
        if (first != 'c' && first != 'k' && first != 'p' && first != 't' && first != 'u')
            continue;
        struct service_field field = service_field_of(block + at, size);
        bool lists = service_named(field.name, connection, 1);

        any = any || lists || service_hop(field.name);
        if (lists && !service_options(field.rest, options, &count))
            return false;
    }
    for (uint32_t at = 0; any && at < length; at += size) {
        bool named = false;

        size = (uint32_t)service_line(block + at, length - at);
        struct service_text name = service_field_of(block + at, size).name;

        for (uint32_t i = 0; i < count && !named; i++)
            named = service_same_word(name, options[i]);
        if (named || service_hop(name))
            service_blank_line(block, at, size);
    }
    for (uint32_t at = 0; any && at < length; at += size) {
        size = (uint32_t)service_line(block + at, length - at);
        struct service_field field = service_field_of(block + at, size);

        if (service_named(field.name, connection, 1))
            service_blank_options(field.rest, fill, &filled);
    }
    return true;
}

/* How a message's body is framed (RFC 9112, section 6.3). `answer`: a response; `empty`: one that has no body, whatever
 * its fields say. Forms that other programs could parse differently are malformed: both a length and chunks, two lengths that
 * differ, tabs around either, and a request with several hosts (section 3.2). */
static inline bool service_framing(struct service_text block, bool answer, bool empty, struct service_tail *tail,
                                   uint64_t *size)
{
    static const char *const names[] = {"content-length", "transfer-encoding", "host"}, *const chunked[] = {"chunked"};
    bool known = false, coded = false, bad = false;
    uint32_t hosts = 0, line;
    int64_t length = 0;

    *size = 0;
    for (uint32_t at = 0; at < block.length; at += line) {
        uint8_t first = service_lower(block.at[at]);
        struct service_field field;

        line = (uint32_t)service_line(block.at + at, block.length - at);
        if (first != 'c' && first != 't' && first != 'h')
            continue;
        field = service_field_of(block.at + at, line);
        if (service_named(field.name, names + 2, 1)) {
            hosts++;
        } else if (service_named(field.name, names, 1)) {
            int64_t other = service_decimal(service_trim(field.rest), &bad);

            if (bad || (known && other != length) || memchr(field.rest.at, '\t', field.rest.length))
                return false;
            known = true;
            length = other;
        } else if (service_named(field.name, names + 1, 1)) {
            if (coded || !service_named(service_trim(field.rest), chunked, 1) ||
                memchr(field.rest.at, '\t', field.rest.length))
                return false; /* other codings are not known here */
            coded = true;
        }
    }
    if ((coded && known) || (!answer && hosts > 1))
        return false;
    if (empty)
        return true;
    if (coded)
        tail->kind = SERVICE_CHUNKS;
    else if (known)
        *size = (uint64_t)length;
    else if (answer)
        tail->kind = SERVICE_TO_THE_END;
    return true;
}

#endif
