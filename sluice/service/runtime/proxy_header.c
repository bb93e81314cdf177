#include "proxy_header.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum {
    LINE = 107,    /* bytes of a header of version 1 at most, with its end */
    HEAD = 16,     /* of one of version 2 before the addresses */
    CHECKSUM = 3,  /* the type of the extension that has one */
};

static const uint8_t signature[12] = {'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};

/* CRC-32C (RFC 3309), by which a header of version 2 can be protected. */
static uint32_t checksum(uint32_t sum, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78 : 0);
    }
    return sum;
}

/* A word of a line, from `*at` on, which is moved after it and the space or end that follows. False if there is none. */
static bool next_word(const char **at, const char *end, char word[64])
{
    const char *space = memchr(*at, ' ', (size_t)(end - *at));
    size_t size = (size_t)((space ? space : end) - *at);

    if (size == 0 || size >= 64)
        return false;
    memcpy(word, *at, size);
    word[size] = 0;
    *at += size + (space != NULL);
    return true;
}

/* A port: digits without a 0 before them. */
static bool read_port(const char *word, uint16_t *port)
{
    uint32_t value = 0;

    if (word[0] == '0' && word[1])
        return false;
    for (const char *at = word; *at; at++) {
        if (*at < '0' || *at > '9' || (value = value * 10 + (uint32_t)(*at - '0')) > 65535)
            return false;
    }
    *port = (uint16_t)value;
    return true;
}

static int read_text(const uint8_t *data, size_t length, struct service_ends *ends)
{
    const char *at = (const char *)data, *end = memchr(data, '\n', length < LINE ? length : LINE);
    char word[64];
    int family, size;

    if (!end)
        return length >= LINE ? SERVICE_PROXY_BAD : 0;
    size = (int)(end + 1 - at);
    if (end == at || end[-1] != '\r')
        return SERVICE_PROXY_BAD;
    end--;
    at += 6; /* "PROXY " */
    if (at > end || !next_word(&at, end, word))
        return SERVICE_PROXY_BAD;
    if (strcmp(word, "UNKNOWN") == 0)
        return size; /* the rest of the line does not matter */
    if (strcmp(word, "TCP4") != 0 && strcmp(word, "TCP6") != 0)
        return SERVICE_PROXY_BAD;
    ends->family = (uint8_t)(word[3] - '0');
    family = ends->family == 4 ? AF_INET : AF_INET6;
    if (!next_word(&at, end, word) || inet_pton(family, word, ends->client) != 1 || !next_word(&at, end, word) ||
        inet_pton(family, word, ends->server) != 1 || !next_word(&at, end, word) || !read_port(word, &ends->client_port) ||
        at == end || !next_word(&at, end, word) || !read_port(word, &ends->server_port) || at != end || end[-1] == ' ')
        return SERVICE_PROXY_BAD;
    return size;
}

/* Walks the extensions after the addresses. False if one exceeds the data, or a checksum is wrong. */
static bool read_extensions(const uint8_t *data, size_t at, size_t size)
{
    static const uint8_t zeros[4];

    while (at < size) {
        size_t length;

        if (size - at < 3)
            return false;
        length = (size_t)data[at + 1] << 8 | data[at + 2];
        if (length > size - at - 3)
            return false;
        if (data[at] == CHECKSUM) {
            uint32_t sum;

            if (length != 4)
                return false;
            sum = checksum(UINT32_MAX, data, at + 3);
            sum = checksum(sum, zeros, 4);
            sum = ~checksum(sum, data + at + 7, size - at - 7);
            if (sum != (uint32_t)service_load(data + at + 3, 4, true))
                return false;
        }
        at += 3 + length;
    }
    return true;
}

static int read_binary(const uint8_t *data, size_t length, struct service_ends *ends)
{
    size_t size, width;

    if (length < HEAD)
        return 0;
    size = HEAD + ((size_t)data[14] << 8 | data[15]);
    if (data[12] >> 4 != 2 || (data[12] & 15) > 1 || size > SERVICE_PROXY_MOST)
        return SERVICE_PROXY_BAD;
    if (length < size)
        return 0;
    if ((data[12] & 15) == 0)
        return (int)size; /* LOCAL: the proxy's own connection, whatever addresses there are */
    if (data[13] != 0x11 && data[13] != 0x21)
        return data[13] >> 4 <= 3 && (data[13] & 15) <= 2 ? (int)size : SERVICE_PROXY_BAD; /* no TCP: no addresses */
    width = data[13] == 0x11 ? 4 : 16;
    if (size < HEAD + 2 * width + 4 || !read_extensions(data, HEAD + 2 * width + 4, size))
        return SERVICE_PROXY_BAD;
    ends->family = data[13] == 0x11 ? 4 : 6;
    memcpy(ends->client, data + HEAD, width);
    memcpy(ends->server, data + HEAD + width, width);
    ends->client_port = (uint16_t)service_load(data + HEAD + 2 * width, 2, true);
    ends->server_port = (uint16_t)service_load(data + HEAD + 2 * width + 2, 2, true);
    return (int)size;
}

int service_proxy_read(const uint8_t *data, size_t length, struct service_ends *ends)
{
    size_t known = length < sizeof signature ? length : sizeof signature;
    size_t text = length < 6 ? length : 6;
    int found = SERVICE_PROXY_BAD;

    *ends = (struct service_ends){0};
    if (length == 0)
        return 0;
    if (memcmp(data, signature, known) == 0)
        found = known == sizeof signature ? read_binary(data, length, ends) : 0;
    else if (memcmp(data, "PROXY ", text) == 0)
        found = text == 6 ? read_text(data, length, ends) : 0;
    if (found <= 0)
        ends->family = 0;
    return found;
}

static size_t write_text(const struct service_ends *ends, uint8_t out[SERVICE_PROXY_OWN])
{
    char client[INET6_ADDRSTRLEN], server[INET6_ADDRSTRLEN];
    int family = ends && ends->family == 6 ? AF_INET6 : AF_INET;

    if (!ends || !ends->family || !inet_ntop(family, ends->client, client, sizeof client) ||
        !inet_ntop(family, ends->server, server, sizeof server))
        return (size_t)snprintf((char *)out, SERVICE_PROXY_OWN, "PROXY UNKNOWN\r\n");
    return (size_t)snprintf((char *)out, SERVICE_PROXY_OWN, "PROXY TCP%u %.39s %.39s %u %u\r\n", ends->family, client, server,
                            ends->client_port, ends->server_port);
}

size_t service_proxy_write(uint32_t version, const struct service_ends *ends, uint8_t out[SERVICE_PROXY_OWN])
{
    size_t width = ends && ends->family == 6 ? 16 : 4, size = HEAD;

    if (version == 1)
        return write_text(ends, out);
    memcpy(out, signature, sizeof signature);
    out[12] = 0x20;
    out[13] = 0;
    if (ends && ends->family) {
        out[12] = 0x21;
        out[13] = width == 4 ? 0x11 : 0x21;
        memcpy(out + HEAD, ends->client, width);
        memcpy(out + HEAD + width, ends->server, width);
        service_store(out + HEAD + 2 * width, ends->client_port, 2, true);
        service_store(out + HEAD + 2 * width + 2, ends->server_port, 2, true);
        size += 2 * width + 4;
    }
    service_store(out + 14, size - HEAD, 2, true);
    return size;
}
