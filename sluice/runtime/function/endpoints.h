/* The endpoints of a connection, for the rows that functions write: the address and the port in a half of an instance's
 * key.
 *
 * A description may use any names: the address is the part named src, otherwise the first one; the port is the part
 * named sport, otherwise the second one if it has the 16 bits of a port. */
#ifndef SL_ENDPOINTS_H
#define SL_ENDPOINTS_H

#include "core/box.h"
#include "function/decimal.h"

#include <arpa/inet.h>
#include <endian.h>

/* The part with this name in a layer's keys, or NULL. */
static inline const struct sl_key_part *sl_key_part_named(const struct sl_layer_info *layer, const char *name) {
    for (uint32_t i = 0; i < layer->key_parts; i++)
        if (strcmp(layer->key_part[i].name, name) == 0)
            return &layer->key_part[i];
    return NULL;
}

/* The part of a layer's keys that is the address. */
static inline const struct sl_key_part *sl_address_part(const struct sl_layer_info *layer) {
    const struct sl_key_part *part = sl_key_part_named(layer, "src");
    return part ? part : &layer->key_part[0];
}

/* The part of a layer's keys that is the port; NULL if there is none. */
static inline const struct sl_key_part *sl_port_part(const struct sl_layer_info *layer) {
    const struct sl_key_part *part = sl_key_part_named(layer, "sport");
    return part || layer->key_parts < 2 || layer->key_part[1].bits != 16 ? part : &layer->key_part[1];
}

/* The value of a part of at most 64 bits in a half. */
static inline uint64_t sl_part_number(const struct sl_key_part *part, const uint64_t *half) {
    return half[part->word] >> part->shift & sl_mask(part->bits);
}

/* Is the part equal in two halves? */
static inline bool sl_part_same(const struct sl_key_part *part, const uint64_t *a, const uint64_t *b) {
    if (part->bits <= 64)
        return sl_part_number(part, a) == sl_part_number(part, b);
    return memcmp(a + part->word, b + part->word, (part->bits + 63) / 64 * 8) == 0;
}

/* Writes the address as JSON: one of 32 bits as an IPv4 address, one of 128 bits as an IPv6 address, another number in
 * decimal, a longer value in hexadecimal digits. */
SL_COLD void sl_write_address(FILE *out, const struct sl_key_part *part, const uint64_t *half) {
    const uint64_t *words = half + part->word;
    char text[INET6_ADDRSTRLEN];
    if (part->bits == 32) {
        text[0] = '"';
        unsigned length = sl_ip4_text(text + 1, (uint32_t)sl_part_number(part, half));
        text[length + 1] = '"';
        fwrite(text, 1, length + 2, out);
    } else if (part->bits == 128) {
        uint64_t network[2] = {htobe64(words[0]), htobe64(words[1])};
        fprintf(out, "\"%s\"", inet_ntop(AF_INET6, network, text, sizeof text));
    } else if (part->bits <= 64) {
        fprintf(out, "\"%llu\"", (unsigned long long)sl_part_number(part, half));
    } else {   /* the last word is right-aligned */
        uint32_t left = part->bits / 8;
        fputc('"', out);
        for (uint32_t k = 0; left; k++) {
            uint32_t here = left < 8 ? left : 8;
            fprintf(out, "%0*llx", (int)(2 * here), (unsigned long long)words[k]);
            left -= here;
        }
        fputc('"', out);
    }
}

/* Writes the port as JSON; null if there is none. */
SL_COLD void sl_write_port(FILE *out, const struct sl_key_part *part, const uint64_t *half) {
    if (part)
        sl_write_number(out, "", sl_part_number(part, half));
    else
        fputs("null", out);
}

/* Writes two endpoints as members of a JSON object: src and sport, dst and dport. */
SL_COLD void sl_write_endpoints(FILE *out, const struct sl_layer_info *layer, const uint64_t *from, const uint64_t *to) {
    const struct sl_key_part *address = sl_address_part(layer), *port = sl_port_part(layer);
    fputs("\"src\":", out);
    sl_write_address(out, address, from);
    fputs(",\"sport\":", out);
    sl_write_port(out, port, from);
    fputs(",\"dst\":", out);
    sl_write_address(out, address, to);
    fputs(",\"dport\":", out);
    sl_write_port(out, port, to);
}

#endif
