/* One side of a DTLS connection: reads the records of its datagrams (RFC 6347, 4.1; RFC 9147, 4), and puts handshake messages
 * together from their fragments (RFC 6347, 4.2.3), which may come out of order, again, and overlapping.
 *
 * A lost datagram costs only the messages of which it has a part. Only messages that `wanted` selects are stored. Encrypted
 * records are not parsed. */
#ifndef DTLS_SIDE_H
#define DTLS_SIDE_H

#include "log_held.h"
#include "tls_stream.h"

enum {
    DTLS_RECORD_HEAD = 13, DTLS_MESSAGE_HEAD = 12,
    DTLS_FIRST_TYPE = 20, DTLS_LAST_TYPE = 63,   /* first bytes of DTLS, where other protocols share the ports (RFC 9443, 3) */
    DTLS_WITH_CID = 25, DTLS_UNIFIED = 32,       /* encrypted records: RFC 9146, 4; RFC 9147, 4 (and above) */
    DTLS_NUMBERS = 64,                           /* messages of a handshake, which has fewer than 20 */
    DTLS_OPEN = 8,                               /* maximum number of incomplete messages, */
    DTLS_PIECES = 256,                           /* and of the pieces of one: more than the longest has datagrams */
    DTLS_RANDOM = 2,                             /* where the random value of a hello is */
};

/* Contiguous bytes of a message. */
struct dtls_piece {
    struct dtls_piece *next;
    uint32_t offset;
    uint32_t before;          /* room before the content, for fragments in reverse order; at most `offset` */
    struct log_held bytes;    /* this room, and the content */
};

/* An incomplete message. It takes the room of the bytes that were received, whatever length a sender claims. */
struct dtls_message {
    struct dtls_message *next;
    struct dtls_piece *first; /* in order; there are missing bytes between any two */
    uint32_t pieces, length;
    uint16_t number;
    uint8_t type;
};

struct dtls_side {
    struct dtls_message *first;
    uint64_t done;            /* messages that were read, by number */
    uint32_t open;
    bool secured;             /* an encrypted record was seen */
};

static inline uint32_t dtls_piece_length(const struct dtls_piece *piece) { return piece->bytes.used - piece->before; }
static inline uint32_t dtls_piece_end(const struct dtls_piece *piece) { return piece->offset + dtls_piece_length(piece); }
static inline const uint8_t *dtls_piece_content(const struct dtls_piece *piece) { return piece->bytes.at + piece->before; }

/* Removes a piece. */
static inline void dtls_piece_free(struct dtls_message *message, struct dtls_piece **place, struct log_budget *budget) {
    struct dtls_piece *piece = *place;
    *place = piece->next;
    message->pieces--;
    log_held_free(&piece->bytes, budget);
    log_give(budget, sizeof *piece);
    free(piece);
}

/* Inserts an empty piece; NULL beyond the bounds, or without memory. */
static inline struct dtls_piece *dtls_piece_new(struct dtls_message *message, struct dtls_piece **place, struct log_budget *budget,
                                                uint32_t offset) {
    struct dtls_piece *piece = message->pieces < DTLS_PIECES ? log_allocate(budget, sizeof *piece) : NULL;
    if (!piece)
        return NULL;
    piece->next = *place;
    piece->offset = offset;
    message->pieces++;
    return *place = piece;
}

/* Removes a message, and returns it. The caller frees it. */
static inline struct dtls_message *dtls_unlink(struct dtls_side *side, struct dtls_message **place) {
    struct dtls_message *message = *place;
    *place = message->next;
    side->open--;
    return message;
}

static inline void dtls_message_free(struct dtls_message *message, struct log_budget *budget) {
    while (message->first)
        dtls_piece_free(message, &message->first, budget);
    log_give(budget, sizeof *message);
    free(message);
}

/* Frees the incomplete messages. Returns whether there were some. */
static inline bool dtls_side_free(struct dtls_side *side, struct log_budget *budget) {
    bool some = side->first;
    while (side->first)
        dtls_message_free(dtls_unlink(side, &side->first), budget);
    return some;
}

/* The pieces of a message in the state of a connection. */
static inline void dtls_pieces_stored(struct sl_stored *stored, struct dtls_message *message, struct log_budget *budget) {
    uint64_t from = 0;        /* where the next piece may begin */
    for (struct dtls_piece **at = &message->first; sl_stored_more(stored, *at != NULL); at = &(*at)->next) {
        uint32_t offset = *at ? (*at)->offset : 0;
        SL_STORED(stored, offset);
        if (stored->reads && (offset < from || !dtls_piece_new(message, at, budget, offset))) {
            stored->failed = true;
            return;
        }
        struct log_held content = {NULL, 0, 0};
        if (!stored->reads)
            content = (struct log_held){(*at)->bytes.at + (*at)->before, dtls_piece_length(*at), 0};
        log_held_stored(stored, &content, budget, message->length - (uint32_t)sl_min(offset, message->length));
        if (stored->reads)
            (*at)->bytes = content;
        stored->failed |= !content.used;
        if (stored->failed)
            return;
        from = (uint64_t)dtls_piece_end(*at) + 1;
    }
}

/* A side in the state of a connection. */
static inline void dtls_side_stored(struct sl_stored *stored, struct dtls_side *side, struct log_budget *budget) {
    SL_STORED(stored, side->done);
    SL_STORED(stored, side->secured);
    for (struct dtls_message **at = &side->first; sl_stored_more(stored, *at != NULL); at = &(*at)->next) {
        if (stored->reads && (side->open >= DTLS_OPEN || !(*at = log_allocate(budget, sizeof **at)))) {
            stored->failed = true;
            return;
        }
        side->open += stored->reads;
        SL_STORED(stored, (*at)->length);
        SL_STORED(stored, (*at)->number);
        SL_STORED(stored, (*at)->type);
        stored->failed |= (*at)->length > TLS_MESSAGE_MOST;
        if (stored->failed)
            return;
        dtls_pieces_stored(stored, *at, budget);
    }
}

/* The message of a fragment, which is created if there is none; NULL without memory. */
static inline struct dtls_message **dtls_message_of(struct dtls_side *side, struct log_budget *budget, uint16_t number, uint8_t type,
                                                    uint32_t length) {
    struct dtls_message **place = &side->first;
    while (*place && (*place)->number != number)
        place = &(*place)->next;
    if (*place)
        return place;
    if (side->open == DTLS_OPEN || !(*place = log_allocate(budget, sizeof **place)))
        return NULL;
    (*place)->length = length;
    (*place)->number = number;
    (*place)->type = type;
    side->open++;
    return place;
}

/* Adds bytes before the content of a piece. As at its end, room grows in proportion, so that the content is not copied for each
 * fragment. Returns false beyond the budget, or without memory. */
static inline bool dtls_prepend(struct dtls_piece *piece, struct log_budget *budget, const uint8_t *at, uint32_t length) {
    if (length > piece->before) {
        uint32_t used = dtls_piece_length(piece);
        uint32_t before = (uint32_t)sl_min(piece->offset, sl_max(128, 2 * (uint64_t)length + used)), room = before + used;
        uint8_t *larger = log_allocate(budget, room);
        if (!larger)
            return false;
        memcpy(larger + before, dtls_piece_content(piece), used);
        log_held_free(&piece->bytes, budget);
        piece->bytes = (struct log_held){larger, room, room};
        piece->before = before;
    }
    piece->before -= length;
    piece->offset -= length;
    memcpy(piece->bytes.at + piece->before, at, length);
    return true;
}

/* Makes one piece of the one at `place` and the next one; `between`: the bytes between them. The shorter one is copied, so that a
 * byte is copied only when its piece becomes twice as long. Returns false, and changes neither, beyond the budget or without memory. */
static inline bool dtls_join(struct dtls_message *message, struct dtls_piece **place, struct log_budget *budget, const uint8_t *between) {
    struct dtls_piece *first = *place, *second = first->next;
    uint32_t missing = second->offset - dtls_piece_end(first), used = first->bytes.used, offset = second->offset;
    if (dtls_piece_length(second) <= dtls_piece_length(first)) {
        if (log_held_add(&first->bytes, budget, between, missing, message->length) &&
            log_held_add(&first->bytes, budget, dtls_piece_content(second), dtls_piece_length(second), message->length)) {
            dtls_piece_free(message, &first->next, budget);
            return true;
        }
        first->bytes.used = used;
        return false;
    }
    if (dtls_prepend(second, budget, between, missing) &&
        dtls_prepend(second, budget, dtls_piece_content(first), dtls_piece_length(first))) {
        dtls_piece_free(message, place, budget);
        return true;
    }
    second->before += offset - second->offset;
    second->offset = offset;
    return false;
}

/* Stores the bytes of a fragment that were not received before. Returns false beyond the bounds, or without memory; then a part of
 * them may be stored. */
static inline bool dtls_store(struct dtls_message *message, struct log_budget *budget, uint32_t offset, const uint8_t *at, uint32_t length) {
    struct dtls_piece **place = &message->first;
    uint32_t end = offset + length;
    if (!length)
        return true;
    while (*place && dtls_piece_end(*place) < offset)
        place = &(*place)->next;
    if (*place && (*place)->offset <= end) {
        if ((*place)->offset > offset && !dtls_prepend(*place, budget, at, (*place)->offset - offset))
            return false;
        while ((*place)->next && (*place)->next->offset <= end)
            if (!dtls_join(message, place, budget, at + (dtls_piece_end(*place) - offset)))
                return false;
        uint32_t known = dtls_piece_end(*place);
        return known >= end || log_held_add(&(*place)->bytes, budget, at + (known - offset), end - known, message->length);
    }
    struct dtls_piece *piece = dtls_piece_new(message, place, budget, offset);
    if (!piece)
        return false;
    if (log_held_add(&piece->bytes, budget, at, length, message->length))
        return true;
    dtls_piece_free(message, place, budget);
    return false;
}

static inline bool dtls_message_is_whole(const struct dtls_message *message) {
    const struct dtls_piece *first = message->first;
    return !message->length || (first && !first->offset && dtls_piece_length(first) == message->length);
}

/* Processes the fragment at the front of a handshake record, and removes it. Returns TLS_NO_STOP, or why it is not read. */
static inline enum tls_stop dtls_fragment(struct dtls_side *side, const struct tls_reading *reading, sl_bytes *record) {
    const uint8_t *head = record->at;
    uint8_t type = head[0];
    uint32_t length = (uint32_t)sl_load_be(head + 1, 3), offset = (uint32_t)sl_load_be(head + 6, 3);
    uint32_t size = (uint32_t)sl_load_be(head + 9, 3);
    uint16_t number = (uint16_t)sl_load_be16(head + 4);
    if (offset > length || size > length - offset || size > record->length - DTLS_MESSAGE_HEAD)
        return TLS_BAD_RECORD;
    *record = sl_bytes_slice(*record, DTLS_MESSAGE_HEAD, record->length);
    sl_bytes fragment = sl_bytes_slice(*record, 0, size);
    *record = sl_bytes_slice(*record, size, record->length);
    if (number >= DTLS_NUMBERS || side->done >> number & 1 || !reading->wanted(reading->user, type))
        return TLS_NO_STOP;
    if (length > TLS_MESSAGE_MOST)
        return TLS_TOO_LONG;
    struct dtls_message **place = dtls_message_of(side, reading->budget, number, type, length);
    if (!place)
        return TLS_NO_MEMORY;
    if ((*place)->type != type || (*place)->length != length)
        return TLS_BAD_RECORD;
    if (!dtls_store(*place, reading->budget, offset, fragment.at, fragment.captured))
        return TLS_NO_MEMORY;
    if (dtls_message_is_whole(*place)) {
        struct dtls_message *message = dtls_unlink(side, place);
        const uint8_t *body = message->first ? dtls_piece_content(message->first) : (const uint8_t *)"";
        side->done |= UINT64_C(1) << number;
        reading->message(reading->user, type, body, length);
        dtls_message_free(message, reading->budget);
    }
    return TLS_NO_STOP;
}

/* Processes the content of an unencrypted record. ChangeCipherSpec, and ACK of DTLS 1.3, have nothing to read. */
static inline enum tls_stop dtls_record(struct dtls_side *side, const struct tls_reading *reading, uint8_t type, sl_bytes content) {
    if (type == TLS_ALERT && content.captured >= 2)
        reading->alert(reading->user, content.at[0], content.at[1]);
    while (type == TLS_HANDSHAKE && content.length) {
        if (content.captured < DTLS_MESSAGE_HEAD)
            return content.captured < content.length ? TLS_NO_STOP : TLS_BAD_RECORD;
        enum tls_stop why = dtls_fragment(side, reading, &content);
        if (why)
            return why;
    }
    return TLS_NO_STOP;
}

static inline bool dtls_is_head(const uint8_t *head) {
    return head[0] >= TLS_CHANGE_CIPHER && head[0] <= DTLS_WITH_CID + 1 && head[1] == 0xfe && (head[2] == 0xff || head[2] == 0xfd);
}

/* Whether bytes begin as an encrypted record does whose length only its receiver knows. */
static inline bool dtls_is_sealed(const uint8_t *head) {
    return head[0] == DTLS_WITH_CID || (head[0] >= DTLS_UNIFIED && head[0] <= DTLS_LAST_TYPE);
}

/* Whether a message is one of DTLS, and none of TLS. */
static inline bool dtls_is_record(sl_bytes bytes) {
    return bytes.captured && (dtls_is_sealed(bytes.at) || (bytes.captured >= DTLS_RECORD_HEAD && dtls_is_head(bytes.at)));
}

/* Processes a datagram of DTLS. Returns TLS_NO_STOP, or why its rest is not read. */
static inline enum tls_stop dtls_datagram(struct dtls_side *side, const struct tls_reading *reading, sl_bytes bytes) {
    enum tls_stop why = TLS_NO_STOP;
    while (bytes.captured && !why) {
        const uint8_t *head = bytes.at;
        if (dtls_is_sealed(head)) {
            side->secured = true;   /* the lengths of such records are not known without those of connection ids */
            return TLS_NO_STOP;
        }
        if (bytes.captured < DTLS_RECORD_HEAD)
            return bytes.captured < bytes.length ? TLS_NO_STOP : TLS_BAD_RECORD;
        uint32_t size = (uint32_t)sl_load_be16(head + 11), whole = DTLS_RECORD_HEAD + size;
        if (!dtls_is_head(head) || whole > bytes.length)
            return TLS_BAD_RECORD;
        if (sl_load_be16(head + 3))   /* the epoch */
            side->secured = true;
        else
            why = dtls_record(side, reading, head[0], sl_bytes_slice(bytes, DTLS_RECORD_HEAD, whole));
        bytes = sl_bytes_slice(bytes, whole, bytes.length);
    }
    return why;
}

/* Whether a datagram begins with a fragment of a hello or of certificates. */
static inline bool dtls_begins(sl_bytes bytes) {
    enum { HEADS = DTLS_RECORD_HEAD + DTLS_MESSAGE_HEAD };
    const uint8_t *head = bytes.at, *message = head + DTLS_RECORD_HEAD, *body = message + DTLS_MESSAGE_HEAD;
    if (bytes.captured <= HEADS || !dtls_is_head(head) || head[0] != TLS_HANDSHAKE || sl_load_be16(head + 3))
        return false;
    uint32_t record = (uint32_t)sl_load_be16(head + 11), length = (uint32_t)sl_load_be(message + 1, 3);
    uint32_t offset = (uint32_t)sl_load_be(message + 6, 3), size = (uint32_t)sl_load_be(message + 9, 3);
    bool hello = message[0] == TLS_CLIENT_HELLO || message[0] == TLS_SERVER_HELLO;
    return record >= DTLS_MESSAGE_HEAD + size && record <= bytes.length - DTLS_RECORD_HEAD && size && length <= TLS_MESSAGE_MOST &&
           offset + size <= length && (hello || message[0] == TLS_CERTIFICATE) && (!hello || offset || body[0] == 0xfe);
}

/* The first bytes of the random value of a ClientHello with which a datagram begins; 0: there are none. Another value on the same
 * ports is that of another connection: those of one have the same (RFC 6347, 4.2.1; RFC 9147, 5.1). */
static inline uint32_t dtls_random(sl_bytes bytes) {
    const uint8_t *message = bytes.at + DTLS_RECORD_HEAD, *body = message + DTLS_MESSAGE_HEAD;
    if (!dtls_begins(bytes) || message[0] != TLS_CLIENT_HELLO || sl_load_be(message + 6, 3) ||
        sl_load_be(message + 9, 3) < DTLS_RANDOM + 4 || bytes.captured < (uint32_t)(body - bytes.at) + DTLS_RANDOM + 4)
        return 0;
    return (uint32_t)sl_load_be32(body + DTLS_RANDOM);
}

#endif
