/* A literal pattern in a stream, however its bytes are divided (Knuth, Morris, Pratt: Fast Pattern Matching in Strings,
 * 1977). */
#ifndef SLUICE_EDIT_MATCH_H
#define SLUICE_EDIT_MATCH_H

#include "sluice.h"

enum { EDIT_PATTERN_MOST = 256 };

struct edit_pattern {
    uint8_t bytes[EDIT_PATTERN_MOST], fold[256];   /* fold: the value as which each byte is compared */
    uint16_t fail[EDIT_PATTERN_MOST + 1];
    uint32_t length;
};

/* Reads a text in which \xHH, \r, \n, \t, \\ and \, are bytes. Returns their number; 0 if it is none, or too long. */
static uint32_t edit_text(const char *text, uint8_t *out, uint32_t most) {
    uint32_t count = 0;
    for (; *text; text++, count++) {
        unsigned value = (uint8_t)*text;
        if (count == most)
            return 0;
        if (*text == '\\') {
            text++;
            int used = 0;
            if (*text == 'x' && sscanf(text + 1, "%2x%n", &value, &used) == 1 && used == 2)
                text += 2;
            else if (*text == 'r' || *text == 'n' || *text == 't')
                value = *text == 'r' ? '\r' : *text == 'n' ? '\n' : '\t';
            else if (*text == '\\' || *text == ',')
                value = (uint8_t)*text;
            else
                return 0;
        }
        out[count] = (uint8_t)value;
    }
    return count;
}

static bool edit_pattern_open(struct edit_pattern *pattern, const char *text, bool nocase) {
    pattern->length = edit_text(text, pattern->bytes, EDIT_PATTERN_MOST);
    for (unsigned i = 0; i < 256; i++)
        pattern->fold[i] = nocase && i >= 'A' && i <= 'Z' ? (uint8_t)(i | 32) : (uint8_t)i;
    for (uint32_t i = 0; i < pattern->length; i++)
        pattern->bytes[i] = pattern->fold[pattern->bytes[i]];
    for (uint32_t i = 1, k = 0; i < pattern->length; i++) {
        while (k && pattern->bytes[i] != pattern->bytes[k])
            k = pattern->fail[k];
        k += pattern->bytes[i] == pattern->bytes[k];
        pattern->fail[i + 1] = (uint16_t)k;
    }
    return pattern->length > 0;
}

/* The number of bytes of the pattern with which the stream ends after one more byte; `matched`: before it. */
static inline uint32_t edit_pattern_step(const struct edit_pattern *pattern, uint32_t matched, uint8_t byte) {
    uint8_t c = pattern->fold[byte];
    while (matched && pattern->bytes[matched] != c)
        matched = pattern->fail[matched];
    return matched + (pattern->bytes[matched] == c);
}

#endif
