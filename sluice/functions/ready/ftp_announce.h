/* The ends that commands and replies of FTP announce: PORT and 227 (RFC 959, 4.1.2), EPRT and 229 (RFC 2428, 2 and 3). */
#ifndef FTP_ANNOUNCE_H
#define FTP_ANNOUNCE_H

#include "core/bytes.h"

#include <arpa/inet.h>
#include <strings.h>

/* An announced end. size: of the address, 4 or 16; 0: that of the host that announces. */
struct ftp_end { uint8_t address[16]; uint8_t size; uint16_t port; };

/* Reads decimal numbers of at most 255 that are separated by commas. Returns how many there are. */
static inline unsigned ftp_numbers(const uint8_t *at, uint32_t length, uint8_t *number, unsigned most) {
    unsigned count = 0;
    for (uint32_t i = 0; i < length && count < most; i++) {
        uint32_t value = 0, begin = i;
        while (i < length && at[i] >= '0' && at[i] <= '9' && value < 256)
            value = 10 * value + (uint32_t)(at[i++] - '0');
        if (i == begin || value > 255)
            return 0;
        number[count++] = (uint8_t)value;
        if (i == length || at[i] != ',')
            break;
    }
    return count;
}

/* PORT and the reply 227: h1,h2,h3,h4,p1,p2, after the first digit of a reply's text. */
static inline bool ftp_read_port(const uint8_t *at, uint32_t length, struct ftp_end *end) {
    uint8_t number[6];
    while (length && (*at < '0' || *at > '9'))
        at++, length--;
    if (ftp_numbers(at, length, number, 6) != 6)
        return false;
    memcpy(end->address, number, 4);
    end->size = 4;
    end->port = (uint16_t)(number[4] << 8 | number[5]);
    return end->port != 0;
}

/* EPRT |1|132.235.1.2|6275| and the reply 229 (|||6446|): any printable character may separate. */
static inline bool ftp_read_extended(bool passive, const uint8_t *at, uint32_t length, struct ftp_end *end) {
    if (passive) {
        const uint8_t *open = length ? memchr(at, '(', length) : NULL;
        length = open ? length - (uint32_t)(open + 1 - at) : 0;
        at = open ? open + 1 : at;
    }
    if (length < 4)
        return false;
    const uint8_t separator = at[0];
    const uint8_t *field[3] = {at, at, at};
    uint32_t size[3] = {0}, begin = 1, count = 0;
    for (uint32_t i = 1; i < length && count < 3; i++)
        if (at[i] == separator) {
            field[count] = at + begin;
            size[count++] = i - begin;
            begin = i + 1;
        }
    char text[INET6_ADDRSTRLEN];
    uint32_t port = 0;
    if (count < 3)
        return false;
    for (uint32_t i = 0; i < size[2] && port < 65536 && field[2][i] >= '0' && field[2][i] <= '9'; i++)
        port = 10 * port + (uint32_t)(field[2][i] - '0');
    end->size = 0;
    if (size[1] && size[1] < sizeof text) {
        memcpy(text, field[1], size[1]);
        text[size[1]] = 0;
        end->size = inet_pton(AF_INET, text, end->address) == 1 ? 4 : inet_pton(AF_INET6, text, end->address) == 1 ? 16 : 0;
    }
    end->port = (uint16_t)port;
    return port && port < 65536;
}

/* The four lines that announce an end. */
enum ftp_form { FTP_NONE, FTP_PORT, FTP_EPRT, FTP_PASSIVE, FTP_EXTENDED_PASSIVE };

/* The form of a line of the client, or of the server. */
static inline enum ftp_form ftp_form_of(bool of_client, const uint8_t *line, uint32_t length) {
    const char *text = (const char *)line;
    if (length < 6)
        return FTP_NONE;
    if (of_client)
        return strncasecmp(text, "PORT ", 5) == 0 ? FTP_PORT : strncasecmp(text, "EPRT ", 5) == 0 ? FTP_EPRT : FTP_NONE;
    return memcmp(text, "227 ", 4) == 0 ? FTP_PASSIVE : memcmp(text, "229 ", 4) == 0 ? FTP_EXTENDED_PASSIVE : FTP_NONE;
}

/* Reads the end that a whole line of the client, or of the server, announces. False: it announces none. */
static inline bool ftp_announced(bool of_client, const uint8_t *line, uint32_t length, struct ftp_end *end) {
    switch (ftp_form_of(of_client, line, length)) {
    case FTP_PORT: return ftp_read_port(line + 5, length - 5, end);
    case FTP_EPRT: return ftp_read_extended(false, line + 5, length - 5, end);
    case FTP_PASSIVE: return ftp_read_port(line + 4, length - 4, end);
    case FTP_EXTENDED_PASSIVE: return ftp_read_extended(true, line + 4, length - 4, end);
    default: return false;
    }
}

#endif
