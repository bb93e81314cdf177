/* Segments that `splice` makes: in the service's place to clients, and in clients' place to servers. */
#ifndef SPLICE_SEGMENT_H
#define SPLICE_SEGMENT_H

#include "splice_connection.h"

/* The clock of the box' time stamps: milliseconds (RFC 7323, 5.4). */
static inline uint32_t splice_clock(const struct sl_box *box) { return (uint32_t)(sl_now(box) / 1000000); }

/* Sends a segment to the client, or to the server, of a connection; also from timers. */
static inline bool splice_send(struct sl_box *box, struct splice *splice, const struct splice_connection *c, bool to_client,
                               const struct tcp_fields *fields) {
    uint8_t head[sizeof c->head];
    uint32_t ip = c->link, size = splice_address_size(c), tcp = ip + (c->version == 4 ? 20 : 40);
    memcpy(head, c->head, sizeof head);
    if (!to_client) {
        const struct splice_endpoint *server = &splice->servers.server[c->server];
        memcpy(head + ip + (c->version == 4 ? 16 : 24), server->address, size);
        sl_store_be16(head + tcp + 2, server->port);
    }
    struct sl_frame frame = {.at = head, .time = sl_now(box), .link_type = c->link_type, .port = c->port};
    struct tcp_place place = {.ip = {.ip = ip, .version = c->version}, .at = head + tcp};
    uint32_t length = tcp_segment_with(&frame, &place, to_client, fields, splice->segment);
    return sl_send_apart(box, &frame, splice->segment, length, to_client);
}

/* Appends a time stamp option to others; returns their length. */
static inline uint32_t splice_stamp(uint8_t *options, uint32_t at, uint32_t value, uint32_t echo) {
    memcpy(options + at, (const uint8_t[]){1, 1, 8, 10}, 4);
    sl_store_be32(options + at + 4, value);
    sl_store_be32(options + at + 8, echo);
    return at + 12;
}

/* The options of a SYN. `scale`: only used with SPLICE_SCALE. */
static inline uint32_t splice_syn_options(uint8_t out[40], uint16_t mss, unsigned options, unsigned scale, uint32_t stamp, uint32_t echo) {
    memcpy(out, (const uint8_t[]){2, 4, (uint8_t)(mss >> 8), (uint8_t)mss}, 4);
    uint32_t at = 4;
    if (options & SPLICE_SACK) {
        memcpy(out + at, (const uint8_t[]){1, 1, 4, 2}, 4);
        at += 4;
    }
    if (options & SPLICE_SCALE) {
        memcpy(out + at, (const uint8_t[]){1, 3, 3, (uint8_t)scale}, 4);
        at += 4;
    }
    return options & SPLICE_STAMPS ? splice_stamp(out, at, stamp, echo) : at;
}

/* Acknowledges the held bytes to the client; the window is the free room. */
static inline void splice_acknowledge(struct sl_box *box, struct splice *splice, struct splice_connection *c, uint64_t most) {
    uint8_t options[12];
    uint32_t clock = splice_clock(box), length = 0;
    if (c->options & SPLICE_STAMPS) {
        c->box_stamp = (int32_t)(clock - c->box_stamp) > 0 ? clock : c->box_stamp;
        length = splice_stamp(options, 0, c->box_stamp, c->stamp);
    }
    uint64_t window = (most - c->count) >> (c->options & SPLICE_SCALE ? c->box_scale : 0);
    c->acknowledges = true;
    splice_send(box, splice, c, true, &(struct tcp_fields){
        .number = c->cookie + 1, .acknowledged = c->client + 1 + c->count, .flags = TCP_ACK, .window = (uint16_t)sl_min(window, 65535),
        .options = options, .option_length = length});
}

/* Resets the connection of the client. */
static inline void splice_reset_client(struct sl_box *box, struct splice *splice, const struct splice_connection *c) {
    splice_send(box, splice, c, true, &(struct tcp_fields){
        .number = c->cookie + 1, .acknowledged = c->client + 1 + c->count, .flags = TCP_RST | TCP_ACK});
}

/* Sends the SYN to the server; the options are those that the client has been offered. */
static inline void splice_send_syn(struct sl_box *box, struct splice *splice, const struct splice_connection *c) {
    uint8_t options[40];
    uint32_t length = splice_syn_options(options, c->mss, c->options, c->client_scale, c->stamp, 0);
    uint64_t window = c->options & SPLICE_SCALE ? (uint64_t)c->window << c->client_scale : c->window;
    splice_send(box, splice, c, false, &(struct tcp_fields){
        .number = c->client, .flags = TCP_SYN, .window = (uint16_t)sl_min(window, 65535), .options = options, .option_length = length});
}

/* The window of the client as the server expects it. */
static inline uint16_t splice_client_window(const struct splice_connection *c, uint32_t window) {
    if (!(c->options & SPLICE_SCALE) || c->agreed & SPLICE_SCALE)
        return (uint16_t)window;
    return (uint16_t)sl_min(window << c->client_scale, 65535);
}

/* Sends the held bytes that the server has not acknowledged, or an acknowledgement where there are none. `all`: not only the
 * first segment of them. */
static inline void splice_send_held(struct sl_box *box, struct splice *splice, const struct splice_connection *c, bool all) {
    uint8_t options[12];
    uint32_t length = 0, at = c->passed, most = c->server_mss;
    if (c->agreed & SPLICE_STAMPS)
        length = splice_stamp(options, 0, c->stamp, c->server_stamp);
    most -= most > length + 64 ? length : 0;
    do {
        uint32_t count = c->held ? (uint32_t)sl_min(c->count - at, most) : 0;
        splice_send(box, splice, c, false, &(struct tcp_fields){
            .number = c->client + 1 + at, .acknowledged = c->cookie + 1 - c->number_shift,
            .flags = (uint8_t)(TCP_ACK | (count && at + count == c->count ? TCP_PSH : 0)), .window = splice_client_window(c, c->window),
            .options = options, .option_length = length, .payload = c->held ? c->held + at : NULL, .payload_length = count});
        at += count;
    } while (all && c->held && at < c->count);
}

#endif
