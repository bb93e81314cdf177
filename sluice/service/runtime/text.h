/* Lines, words and numbers in text; integers of variable size; checksums. */
#ifndef SERVICE_TEXT_H
#define SERVICE_TEXT_H

#include "value.h"

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
    SERVICE_COMMAND, /* of Redis: an array, or a line */
    SERVICE_BULKS,   /* the items of such an array */
};

/* The missing rest of a message after the bytes whose end is known. Each channel has one: an idle connection of a service
 * has less than a kilobyte. */
struct __attribute__((packed, aligned(4))) service_tail {
    uint64_t allowed : 56; /* bytes that it may still have */
    uint64_t kind : 4;     /* enum service_tail_kind */
    uint64_t state : 4;    /* 1: a line end is due; 2: trailers */
    uint32_t left;         /* RESP: values that are missing */
};

#define SERVICE_UNBOUNDED (((uint64_t)1 << 56) - 1) /* any number of bytes is allowed */

/* Bytes of a body of HTTP whose length is not known before (--body). Weak, as parsers are used without the platform, too. */
__attribute__((weak)) uint64_t service_body_most = (uint64_t)64 << 30;

/* Whether a constant comes next, from `at` on. `missing` is set if too few bytes are there to tell. */
static inline bool service_next(struct service_text wanted, const uint8_t *data, uint64_t length, uint64_t at, bool *missing)
{
    uint64_t left = at < length ? length - at : 0, size = left < wanted.length ? left : wanted.length;

    if (size && memcmp(data + at, wanted.at, size) != 0)
        return false;
    *missing = *missing || size < wanted.length;
    return size == wanted.length;
}

enum { SERVICE_LIST = 65536 }; /* items of a list of units */

/* A regular expression as an automaton, which begins in state 0. State 0xff has no way on. */
struct service_automaton {
    const uint8_t *classes; /* of each byte */
    const uint8_t *next;    /* of each state the next one for each class */
    const uint8_t *accepts; /* 1: a match may end in a state; 2: it does, as no byte makes it longer */
    uint32_t class_count;
};

/* The longest match that the bytes begin with. SERVICE_MORE: later bytes can make it longer. */
static inline enum service_parsed service_match(const struct service_automaton *automaton, const uint8_t *data, uint64_t length,
                                                bool ended, uint64_t *size)
{
    bool found = false;
    uint32_t state = 0;

    *size = 0;
    for (uint64_t at = 0;; at++) {
        if (automaton->accepts[state]) {
            found = true;
            *size = at;
            if (automaton->accepts[state] == 2)
                return SERVICE_READY;
        }
        if (at == length)
            break;
        state = automaton->next[state * automaton->class_count + automaton->classes[data[at]]];
        if (state == 0xff)
            return found ? SERVICE_READY : SERVICE_MALFORMED;
    }
    return found && ended ? SERVICE_READY : SERVICE_MORE;
}

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

static inline struct service_text service_literal(const char *text)
{
    return (struct service_text){(const uint8_t *)text, (uint32_t)strlen(text)};
}

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
        if (begin == at || number == 0)
            return (struct service_text){begin, (uint32_t)(at - begin)};
        number -= number > 0;
        if (number < 0)
            return (struct service_text){begin, 0};
    }
}

/* The first line of a text, without the CR LF that ends it; all of a text that has none. */
static inline struct service_text service_first_line(struct service_text text)
{
    uint64_t line = text.length ? service_line(text.at, text.length) : 0;

    return (struct service_text){text.at, line ? (uint32_t)line - 2 : text.length};
}

/* The words of a text. */
static inline int64_t service_words(struct service_text text)
{
    int64_t count = 0;

    for (uint32_t i = 0; i < text.length; i++)
        count += text.at[i] != ' ' && (i == 0 || text.at[i - 1] == ' ');
    return count;
}

/* Overwrites `noreply` at the end of a line, or, of a meta command, the words `q` after the first two, by spaces, which do not
 * count: a server then answers it. A meta command has a name of two bytes, and no `noreply`. */
static inline void service_mute(uint8_t *line, uint32_t length)
{
    static const char last[] = {'n', 'o', 'r', 'e', 'p', 'l', 'y'};
    bool meta = service_word((struct service_text){line, length}, 0).length == 2;
    uint32_t end = length, words = 0;

    while (end && line[end - 1] == ' ')
        end--;
    if (!meta && end > sizeof last && line[end - sizeof last - 1] == ' ' && memcmp(line + end - sizeof last, last, sizeof last) == 0) {
        memset(line + end - sizeof last, ' ', sizeof last);
        return;
    }
    for (uint32_t at = 0; at < length; at++) {
        bool alone = at + 1 == length || line[at + 1] == ' ';

        if (line[at] == ' ' || (at && line[at - 1] != ' '))
            continue;
        if (++words > 2 && alone && line[at] == 'q')
            line[at] = ' ';
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
