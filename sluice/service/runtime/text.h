/* Protocols in text: lines, words, header fields, and the parts of a message whose number or size is known only from
 * what stands before each: chunks (RFC 9112, section 7.1), RESP values, the values of a Memcached answer.
 */
#ifndef SERVICE_TEXT_H
#define SERVICE_TEXT_H

#include "value.h"

enum { SERVICE_LINE = 4096 }; /* bytes of a line that says how long a part is */

enum service_parsed {
    SERVICE_READY,     /* all fields that the program names are there */
    SERVICE_MORE,      /* `need` bytes are needed */
    SERVICE_MALFORMED,
};

enum service_tail_kind {
    SERVICE_NO_TAIL,
    SERVICE_CHUNKS,
    SERVICE_TO_THE_END, /* of the connection */
    SERVICE_RESP,
    SERVICE_VALUES,
};

/* What is still to come of a message after the bytes whose end is known. */
struct service_tail {
    uint8_t kind;    /* enum service_tail_kind */
    uint8_t state;   /* 1: a line end is due; 2: trailers */
    uint32_t left;   /* RESP: values that are still to come */
    uint64_t allowed; /* bytes that it may still have */
};

/* The place of a delimiter; `length` if it is not there. */
static inline uint64_t service_find(const uint8_t *data, uint64_t length, const char *delimiter, uint64_t size)
{
    const uint8_t *at = data, *end = data + length;

    while ((uint64_t)(end - at) >= size && (at = memchr(at, delimiter[0], (uint64_t)(end - at) - size + 1))) {
        if (memcmp(at, delimiter, size) == 0)
            return (uint64_t)(at - data);
        at++;
    }
    return length;
}

/* The bytes of a line with its CR LF; 0 if its end is not there. */
static inline uint64_t service_line(const uint8_t *data, uint64_t length)
{
    uint64_t found = service_find(data, length, "\r\n", 2);

    return found == length ? 0 : found + 2;
}

/* Whether bytes are text without control characters; a tab is none where `tab` is set. */
static inline bool service_plain(const uint8_t *data, uint64_t length, bool tab)
{
    bool bad = false;

    for (uint64_t i = 0; i < length; i++)
        bad |= (data[i] < ' ' && !(tab && data[i] == '\t')) || data[i] == 0x7f;
    return !bad;
}

static inline uint8_t service_lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

static inline bool service_same_word(struct service_text a, struct service_text b)
{
    if (a.length != b.length)
        return false;
    for (uint32_t i = 0; i < a.length; i++)
        if (service_lower(a.at[i]) != service_lower(b.at[i]))
            return false;
    return true;
}

static inline struct service_text service_trim(struct service_text text)
{
    while (text.length && (text.at[0] == ' ' || text.at[0] == '\t'))
        text.at++, text.length--;
    while (text.length && (text.at[text.length - 1] == ' ' || text.at[text.length - 1] == '\t'))
        text.length--;
    return text;
}

/* Word `number` of a text, from 0, between spaces; empty if there are fewer. */
static inline struct service_text service_word(struct service_text text, int64_t number)
{
    const uint8_t *at = text.at, *end = text.at + text.length;

    for (;;) {
        const uint8_t *begin;

        while (at < end && *at == ' ')
            at++;
        begin = at;
        while (at < end && *at != ' ')
            at++;
        if (begin == at || number-- == 0)
            return (struct service_text){begin, (uint32_t)(at - begin)};
    }
}

/* A decimal number without sign, of at most 18 digits; anything else is malformed. */
static inline int64_t service_decimal(struct service_text text, bool *bad)
{
    int64_t value = 0;

    *bad = *bad || text.length == 0 || text.length > 18;
    for (uint32_t i = 0; i < text.length && !*bad; i++) {
        *bad = text.at[i] < '0' || text.at[i] > '9';
        value = value * 10 + (text.at[i] - '0');
    }
    return *bad ? 0 : value;
}

/* --- header fields (RFC 9112, section 5) */

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

/* --- parts of unknown number */

static inline enum service_parsed service_next_chunk(struct service_tail *tail, const uint8_t *data, uint64_t line,
                                                     uint64_t *take)
{
    uint64_t size = 0, digits = 0;

    if (!service_plain(data, line - 2, true))
        return SERVICE_MALFORMED; /* also in an extension and a trailer: a bare LF ends a line for other programs */
    if (tail->state == 2) {
        if (line == 2)
            tail->kind = SERVICE_NO_TAIL;
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

/* The next part of a message, at whose place `data` begins: `take` bytes, of which not all need be there. The kind is
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

/* --- integers of variable size (Hadoop's WritableUtils) */

/* The bytes of one; 0 if it is not there as a whole. */
static inline unsigned service_vint(const uint8_t *data, uint64_t length, int64_t *value)
{
    int8_t first = length ? (int8_t)data[0] : 0;
    unsigned size = first >= -112 ? 0 : first < -120 ? (unsigned)(-120 - first) : (unsigned)(-112 - first);
    uint64_t found = 0;

    if (length < 1 + (uint64_t)size)
        return 0;
    for (unsigned i = 1; i <= size; i++)
        found = found << 8 | data[i];
    *value = size == 0 ? first : first < -120 ? (int64_t)~found : (int64_t)found;
    return size + 1;
}

static inline unsigned service_vint_size(int64_t value)
{
    uint64_t left = value < 0 ? ~(uint64_t)value : (uint64_t)value;
    unsigned size = 1;

    if (value >= -112 && value <= 127)
        return 1;
    for (; left; left >>= 8)
        size++;
    return size;
}

static inline void service_vint_store(uint8_t *at, int64_t value)
{
    unsigned size = service_vint_size(value) - 1;
    uint64_t left = value < 0 ? ~(uint64_t)value : (uint64_t)value;

    at[0] = (uint8_t)(size == 0 ? value : (value < 0 ? -120 : -112) - (int64_t)size);
    for (unsigned i = size; i > 0; i--, left >>= 8)
        at[i] = (uint8_t)left;
}

/* --- CRC-32 (ISO 3309), which ends a segment of Hadoop's */

static inline uint32_t service_crc(uint32_t crc, const uint8_t *data, uint64_t length)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

    crc = ~crc;
    for (uint64_t i = 0; i < length; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#endif
