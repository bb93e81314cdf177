/* JSON text of bounded size. A row of a log is built in memory, and is written completely or dropped. */
#ifndef LOG_TEXT_H
#define LOG_TEXT_H

#include "core/bytes.h"
#include "decimal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOG_TEXT_MOST = 1 << 22 };   /* maximum bytes of a row; exceeds the sum of all bounds of the logs */

/* The bytes that all connections of a log store together, and their maximum. */
struct log_budget { uint64_t used, most; };

/* Reserves bytes of the budget. Returns false if it would be exceeded. */
__attribute__((unused)) static inline bool log_take(struct log_budget *budget, uint64_t bytes) {
    if (bytes > budget->most - sl_min(budget->used, budget->most))
        return false;
    budget->used += bytes;
    return true;
}

__attribute__((unused)) static inline void log_give(struct log_budget *budget, uint64_t bytes) { budget->used -= bytes; }

/* Allocates memory of zeros within the budget; NULL beyond it, or without memory. Freed by free() and log_give(). */
__attribute__((unused)) static inline void *log_allocate(struct log_budget *budget, size_t bytes) {
    if (!log_take(budget, bytes))
        return NULL;
    void *at = calloc(1, bytes);
    if (!at)
        log_give(budget, bytes);
    return at;
}

struct log_text {
    char *at;
    size_t used, room;
    bool failed;   /* memory or the bound is exhausted, so the row is incomplete */
};

/* Ensures space for `more` bytes. Returns false on failure. */
static inline bool log_room(struct log_text *text, size_t more) {
    if (text->failed || more > LOG_TEXT_MOST - text->used) {
        text->failed = true;
        return false;
    }
    if (more <= text->room - text->used)
        return true;
    size_t room = text->room ? 2 * text->room : 1024;
    while (room - text->used < more)
        room *= 2;
    char *larger = realloc(text->at, room);
    if (!larger) {
        text->failed = true;
        return false;
    }
    text->at = larger;
    text->room = room;
    return true;
}

static inline void log_bytes(struct log_text *text, const void *bytes, size_t length) {
    if (length && log_room(text, length)) {
        memcpy(text->at + text->used, bytes, length);
        text->used += length;
    }
}

static inline void log_put(struct log_text *text, const char *words) { log_bytes(text, words, strlen(words)); }

/* Appends formatted text of at most 1023 bytes. */
SL_COLD __attribute__((format(printf, 2, 3))) void log_format(struct log_text *text, const char *format, ...) {
    char line[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    log_bytes(text, line, length < 0 ? 0 : (size_t)sl_min((uint64_t)length, sizeof line - 1));
}

/* The length of a well-formed multi-byte UTF-8 character (RFC 3629, 4) at `at`; 0 if there is none. */
static inline unsigned log_utf8(const uint8_t *at, size_t left) {
    unsigned size = at[0] >= 0xc2 && at[0] <= 0xdf ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4 : 0;
    if (!size || size > left)
        return 0;
    for (unsigned i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool beyond = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
    return overlong || beyond ? 0 : size;
}

/* Appends bytes from the network as a JSON string. A byte that is not UTF-8 is written as a character U+0080 to
 * U+00FF. */
static inline void log_string(struct log_text *text, const void *bytes, size_t length) {
    const uint8_t *at = bytes;
    log_put(text, "\"");
    for (size_t i = 0, begin = 0; i <= length; i++) {
        unsigned wide = i < length && at[i] >= 0x80 ? log_utf8(at + i, length - i) : 0;
        if (wide) {
            i += wide - 1;
            continue;
        }
        if (i < length && at[i] >= 0x20 && at[i] < 0x7f && at[i] != '"' && at[i] != '\\')
            continue;
        log_bytes(text, at + begin, i - begin);
        begin = i + 1;
        if (i < length && (at[i] == '"' || at[i] == '\\'))
            log_format(text, "\\%c", at[i]);
        else if (i < length)
            log_format(text, "\\u%04x", at[i]);
    }
    log_put(text, "\"");
}

/* Appends `,"name":`. */
static inline void log_name(struct log_text *text, const char *name) {
    size_t length = strlen(name);
    if (!log_room(text, length + 4))
        return;
    char *at = text->at + text->used;
    memcpy(at, ",\"", 2);
    memcpy(at + 2, name, length);
    memcpy(at + 2 + length, "\":", 2);
    text->used += length + 4;
}

/* Appends `,"prefix_name":`. */
__attribute__((unused)) static inline void log_name_of(struct log_text *text, const char *prefix, const char *name) {
    log_put(text, ",\"");
    log_put(text, prefix);
    log_put(text, "_");
    log_put(text, name);
    log_put(text, "\":");
}

/* Appends the digits of a number, at least so many. */
static inline void log_digits(struct log_text *text, uint64_t value, unsigned least) {
    if (log_room(text, SL_DECIMAL_MOST))
        text->used += sl_decimal(text->at + text->used, value, least);
}

static inline void log_number(struct log_text *text, const char *name, uint64_t value) {
    log_name(text, name);
    log_digits(text, value, 1);
}

__attribute__((unused)) static inline void log_flag(struct log_text *text, const char *name, bool value) {
    log_name(text, name);
    log_put(text, value ? "true" : "false");
}

/* Appends a string of the program, or null. */
static inline void log_word_value(struct log_text *text, const char *word) {
    if (word)
        log_string(text, word, strlen(word));
    else
        log_put(text, "null");
}

/* Appends a member with such a value. */
static inline void log_word(struct log_text *text, const char *name, const char *word) {
    log_name(text, name);
    log_word_value(text, word);
}

/* Appends a time or duration in seconds. */
static inline void log_seconds(struct log_text *text, const char *name, uint64_t nanoseconds) {
    log_name(text, name);
    log_put(text, "\"");
    log_digits(text, nanoseconds / 1000000000, 1);
    log_put(text, ".");
    log_digits(text, nanoseconds % 1000000000, 9);
    log_put(text, "\"");
}

__attribute__((unused)) static inline void log_hex(struct log_text *text, const uint8_t *at, size_t length) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++)
        log_bytes(text, (const char[]){digits[at[i] >> 4], digits[at[i] & 15]}, 2);
}

#endif
