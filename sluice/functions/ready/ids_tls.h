/* The hellos of TLS over TCP, SCTP (RFC 3436) and QUIC, for rules with tls.sni and ssl_version: read by tlslog's parser, on any
 * port, also after other bytes. A ClientHello has the name of the server, and the highest of the versions in VERSIONS that it
 * offers; a ServerHello the version that was chosen. A hello of SSL 2.0 is known by its first bytes (RFC 6101, E). */
#ifndef IDS_TLS_H
#define IDS_TLS_H

#include "ids_whole.h"
#include "tls_hello.h"
#include "tls_stream.h"

enum { IDS_SSL2_HEAD = 5, IDS_TLS_SEARCH = 65536 };

struct ids_tls {
    struct tls_side side[2];
    uint8_t head[2][IDS_SSL2_HEAD], head_used[2];   /* the first bytes of each side */
};

struct ids_tls_reading {
    struct sl_box *box;
    struct ids_side *side;    /* those of the flow; NULL: a message of SCTP */
    const struct ids_seen *seen;
    char transport;           /* of tls_hello_read */
};

/* The place of a version in VERSIONS of detect/model.py; 255: none. Drafts of TLS 1.3 are 1.3. */
static inline uint8_t ids_tls_version(uint16_t version) {
    if (version == 0x0002)
        return 0;
    if (version >= 0x0300 && version <= 0x0304)
        return (uint8_t)(version - 0x0300 + 1);
    return version >> 8 == 0x7f ? 5 : 255;
}

/* Inspects a hello. `name`: NULL where it has none. */
static void ids_tls_inspect(const struct ids_tls_reading *reading, uint16_t version, const struct log_text *name) {
    struct sl_box *box = reading->box;
    struct ids_view views[IDS_BUFFERS] = {{0}};
    uint8_t place = ids_tls_version(version);
    ids_set_view(&views[IDS_TLS_VERSION], &place, 1);
    if (name && name->used)
        ids_set_view(&views[IDS_TLS_SNI], name->at, name->used);
    ids_scan_begin(box);
    ids_scan_group(box, IDS_TLS_NAME, &views[IDS_TLS_SNI]);
    ids_scan_group(box, IDS_TLS_ALWAYS, &views[IDS_PAYLOAD]);
    struct ids_side *side = reading->side ? &reading->side[reading->seen->side] : NULL;
    ids_found_evaluate(box, side, reading->seen, views, 3, false);
}

static bool ids_tls_wanted(void *user, uint8_t type) {
    (void)user;
    return type == TLS_CLIENT_HELLO || type == TLS_SERVER_HELLO;
}

static void ids_tls_message(void *user, uint8_t type, const uint8_t *body, uint32_t length) {
    const struct ids_tls_reading *reading = user;
    struct tls_hello hello = {0};
    bool client = type == TLS_CLIENT_HELLO;
    /* one that is malformed is inspected as far as it was read */
    SLUICE_COUNTER_OF(reading->box, ids_tls_malformed) +=
        !tls_hello_read(&hello, &SLUICE_WORKER_OF(reading->box)->log.hashes, body, length, client, reading->transport);
    ids_tls_inspect(reading, hello.known, client ? &hello.name : NULL);
    tls_hello_free(&hello);
}

static void ids_tls_nothing(void *user) { (void)user; }
static void ids_tls_no_alert(void *user, uint8_t level, uint8_t description) { (void)user, (void)level, (void)description; }

static struct tls_reading ids_tls_callbacks(struct ids_tls_reading *reading) {
    return (struct tls_reading){
        .user = reading, .wanted = ids_tls_wanted, .message = ids_tls_message, .alert = ids_tls_no_alert,
        .begun = ids_tls_nothing, .budget = &SLUICE_WORKER_OF(reading->box)->budget, .search_most = IDS_TLS_SEARCH,
    };
}

/* Bytes of a side, in order: of a stream with records, or, `messages`, of one with handshake messages alone, as QUIC has. */
static void ids_tls_side(struct tls_side *side, struct ids_tls_reading *reading, const uint8_t *at, uint32_t length, bool messages) {
    struct tls_reading callbacks = ids_tls_callbacks(reading);
    if (side->state == TLS_STOPPED)
        return;
    if (messages)
        tls_messages(side, &callbacks, at, length);
    else
        tls_side_bytes(side, &callbacks, at, length);
    SLUICE_COUNTER_OF(reading->box, ids_no_room) += side->stop == TLS_NO_MEMORY;
}

/* Bytes of a stream, in order. */
static void ids_tls_bytes(struct sl_box *box, struct ids_flow *flow, const struct ids_seen *seen, const uint8_t *at,
                          uint32_t length, bool messages) {
    if (!flow->tls && !(flow->tls = ids_take(box, sizeof *flow->tls)))
        return;
    struct ids_tls *tls = flow->tls;
    struct ids_tls_reading reading = {box, flow->side, seen, messages ? 'q' : 't'};
    uint8_t *head = tls->head[seen->side], *used = &tls->head_used[seen->side];
    for (uint32_t i = 0; i < length && *used < IDS_SSL2_HEAD && !messages; i++) {
        head[(*used)++] = at[i];
        if (*used == IDS_SSL2_HEAD && head[0] & 0x80 && head[2] == TLS_CLIENT_HELLO && sl_load_be16(head + 3) == 2)
            ids_tls_inspect(&reading, 2, NULL);
    }
    ids_tls_side(&tls->side[seen->side], &reading, at, length, messages);
}

/* A whole message of SCTP, which has whole records (RFC 3436, 3). */
static void ids_tls_whole(struct sl_box *box, const struct ids_seen *seen, sl_bytes bytes) {
    struct ids_tls_reading reading = {box, NULL, seen, 't'};
    struct tls_side side = {0};
    if (!bytes.captured || bytes.at[0] != TLS_HANDSHAKE)
        return;
    ids_tls_side(&side, &reading, bytes.at, bytes.captured, false);
    tls_message_drop(&side.message);
}

static void ids_tls_free(struct sl_box *box, struct ids_tls *tls) {
    for (unsigned i = 0; tls && i < 2; i++)
        tls_message_drop(&tls->side[i].message);
    ids_give(box, tls, sizeof *tls);
}

#endif
