/* Reads numbers and bytes of a message in order, within its bounds. */
#ifndef LOG_READER_H
#define LOG_READER_H

#include "log_text.h"

#include <arpa/inet.h>

struct log_reader {
    const uint8_t *at;
    uint32_t left;
    bool failed;   /* something lay beyond the end; numbers are 0 and bytes empty from then on */
};

static inline struct log_reader log_reader(sl_bytes message) { return (struct log_reader){message.at, message.captured, false}; }

/* The next bytes as a separate reader; an empty one that has failed beyond the end. */
static inline struct log_reader log_read_part(struct log_reader *reader, uint64_t length) {
    if (reader->failed || length > reader->left) {
        reader->failed = true;
        reader->left = 0;
        return (struct log_reader){NULL, 0, true};
    }
    struct log_reader part = {reader->at, (uint32_t)length, false};
    if (length)   /* an empty message may have no address */
        reader->at += length;
    reader->left -= (uint32_t)length;
    return part;
}

/* The next bytes as a number, most significant first. */
static inline uint64_t log_read(struct log_reader *reader, unsigned bytes) {
    struct log_reader part = log_read_part(reader, bytes);
    return part.failed ? 0 : sl_load_be(part.at, bytes);
}

/* Writes a member that is an IPv4 or IPv6 address in network byte order (4 or 16 bytes); null for any other length. */
__attribute__((unused)) static inline void log_ip(struct log_text *row, const char *name, const uint8_t *at, uint32_t length) {
    char text[INET6_ADDRSTRLEN];
    bool known = at && (length == 4 || length == 16);
    log_word(row, name, known ? inet_ntop(length == 4 ? AF_INET : AF_INET6, at, text, sizeof text) : NULL);
}

/* Writes a member that is bytes from the network as text; null if there are none. */
__attribute__((unused)) static inline void log_octets(struct log_text *row, const char *name, const uint8_t *at, uint32_t length) {
    log_name(row, name);
    if (at && length)
        log_string(row, at, length);
    else
        log_put(row, "null");
}

/* Writes a member that is a MAC address. */
__attribute__((unused)) static inline void log_mac(struct log_text *row, const char *name, const uint8_t *at) {
    log_name(row, name);
    if (at)
        log_format(row, "\"%02x:%02x:%02x:%02x:%02x:%02x\"", at[0], at[1], at[2], at[3], at[4], at[5]);
    else
        log_put(row, "null");
}

/* Writes a number, or null if it is absent. */
__attribute__((unused)) static inline void log_number_if(struct log_text *row, const char *name, bool there, uint64_t value) {
    if (there)
        log_number(row, name, value);
    else
        log_word(row, name, NULL);
}

/* A number of the protocol and its name. */
struct log_named { uint32_t number; const char *name; };

/* The name of a number, or the number in decimal, in `text`. */
__attribute__((unused)) static inline const char *log_named_in(const struct log_named *names, size_t count, uint32_t number,
                                                              char text[16]) {
    for (size_t i = 0; i < count; i++)
        if (names[i].number == number)
            return names[i].name;
    snprintf(text, 16, "%u", number);
    return text;
}

#define LOG_NAMED(names, number, text) log_named_in(names, sizeof names / sizeof *names, number, text)

#endif
