/* Numbers as text, for the rows of functions: printf takes many times longer. */
#ifndef SL_DECIMAL_H
#define SL_DECIMAL_H

#include <stdint.h>
#include <stdio.h>

enum { SL_DECIMAL_MOST = 20, SL_IP4_TEXT = 15 };   /* the longest texts */

/* Writes the digits of a number, with zeros before them at least so many. Returns their count. */
static inline unsigned sl_decimal(char to[SL_DECIMAL_MOST], uint64_t value, unsigned least) {
    unsigned count = 1;
    for (uint64_t rest = value / 10; rest; rest /= 10)
        count++;
    count = count < least ? least : count;
    for (unsigned at = count; at-- > 0; value /= 10)
        to[at] = (char)('0' + value % 10);
    return count;
}

/* Writes an IPv4 address. Returns the length. */
static inline unsigned sl_ip4_text(char to[SL_IP4_TEXT], uint32_t address) {
    unsigned used = 0;
    for (unsigned part = 4; part-- > 0;) {
        char digits[SL_DECIMAL_MOST];
        unsigned count = sl_decimal(digits, address >> 8 * part & 255, 1);
        for (unsigned i = 0; i < count; i++)
            to[used++] = digits[i];
        if (part)
            to[used++] = '.';
    }
    return used;
}

/* Writes words of the program, and the digits of a number after them. */
static inline void sl_write_number(FILE *out, const char *words, uint64_t value) {
    char digits[SL_DECIMAL_MOST];
    fputs(words, out);
    fwrite(digits, 1, sl_decimal(digits, value, 1), out);
}

/* Writes a time or duration in seconds, with nine decimals. */
static inline void sl_write_seconds(FILE *out, const char *words, uint64_t nanoseconds) {
    char digits[SL_DECIMAL_MOST];
    sl_write_number(out, words, nanoseconds / 1000000000);
    fputc('.', out);
    fwrite(digits, 1, sl_decimal(digits, nanoseconds % 1000000000, 9), out);
}

#endif
