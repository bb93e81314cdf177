/* TCP connections of FTP, by their events: control connections, and data connections, in the clear or in TLS (RFC 4217). */
#ifndef FTP_CONNECTION_H
#define FTP_CONNECTION_H

#include "ftp_session.h"

/* A TCP connection: a control connection, the data connection of a transfer, or neither. */
struct ftp_connection {
    struct ftp_session *session;
    struct ftp_transfer *data;
    uint32_t path;
    bool over, seen[2], searched;
    bool secured;                     /* TLS has begun */
    bool restored;                    /* a data connection whose transfer is to be found again (ftp_stored.h) */
};

static inline void ftp_connection_created(struct ftp_transfers *transfers, struct ftp_connection *connection, const struct sl_event *event) {
    connection->data = ftp_data_connection(transfers, event);
    connection->over = connection->data != NULL;
}

/* --- control connections --- */

/* Begins to read a connection that may be a control connection. Returns NULL if it is none. */
static inline struct ftp_session *ftp_connection_session(struct ftp_transfers *transfers, struct ftp_connection *connection,
                                                         const struct sl_event *event, unsigned side, uint8_t first,
                                                         const struct ftp_owner *owner, bool *no_memory) {
    uint16_t ports[2] = {log_stream_port(event, 0), log_stream_port(event, 1)};
    uint16_t port = ports[0] == FTP_CONTROL_TLS || ports[1] == FTP_CONTROL_TLS ? FTP_CONTROL_TLS : FTP_CONTROL;
    uint8_t client = (uint8_t)log_client(event, port);
    if (!connection->seen[side] && !ftp_may_begin(first, side != client))
        connection->over = true;
    connection->seen[side] = true;
    if (connection->session || connection->over)
        return connection->over ? NULL : connection->session;
    struct ftp_session *session = log_allocate(&transfers->budget, sizeof *session);
    if (!session) {
        connection->over = *no_memory = true;
        return NULL;
    }
    connection->session = session;
    session->owner = owner;
    session->transfers = transfers;
    session->box = event->box;
    session->place = sl_flow_place_of(event);
    session->flow = log_flow_of(event, connection->path);
    session->client = client;
    session->known = ports[0] == port || ports[1] == port;
    session->secured = connection->secured;
    session->protected_data = connection->secured && port == FTP_CONTROL_TLS;
    session->dialogue.owner = &ftp_dialogue;
    session->dialogue.user = session;
    session->dialogue.budget = &transfers->budget;
    session->dialogue.from_start = log_from_syn(event);
    session->dialogue.greeted = !session->dialogue.from_start;
    return session;
}

static inline void ftp_connection_free(struct ftp_transfers *transfers, struct ftp_connection *connection) {
    if (!connection->session)
        return;
    ftp_session_close(connection->session);
    log_give(&transfers->budget, sizeof *connection->session);
    free(connection->session);
    connection->session = NULL;
}

/* No more of a control connection is read. */
static inline void ftp_connection_stop(struct ftp_transfers *transfers, struct ftp_connection *connection) {
    if (connection->session && connection->session->known)
        ftp_session_end(connection->session);
    ftp_connection_free(transfers, connection);
    connection->over = true;
}

/* Handles bytes of a side of a connection that may be a control connection: in the clear, or opened. */
static inline void ftp_connection_bytes(struct ftp_transfers *transfers, struct ftp_connection *connection, const struct sl_event *event,
                                        unsigned side, const uint8_t *at, uint32_t length, const struct ftp_owner *owner,
                                        bool *no_memory) {
    struct ftp_session *session =
        connection->over || !length ? NULL : ftp_connection_session(transfers, connection, event, side, *at, owner, no_memory);
    if (!session) {
        ftp_connection_free(transfers, connection);
        return;
    }
    uint64_t now = sl_packet_time(event);
    if (side == session->client)
        dialogue_client(&session->dialogue, at, length, now);
    else
        dialogue_server(&session->dialogue, at, length, now);
    if (session->dialogue.stopped && session->accepted && transfers->secrets) {
        unsigned client = session->client;
        session->accepted = false;
        struct log_held held = dialogue_resume(&session->dialogue);
        owner->secures(event, client, held.at, held.used);   /* which may end the session */
        log_held_free(&held, &transfers->budget);
    } else if (session->dialogue.stopped) {
        ftp_connection_stop(transfers, connection);
    }
}

/* Whether TLS may begin with the next byte of a side: what a client sends without an accepted AUTH is commands. */
static inline bool ftp_connection_may_be_secured(const struct ftp_connection *connection, unsigned side) {
    const struct ftp_session *session = connection->session;
    if (!session || !session->known || session->auth || side != session->client || !connection->seen[side])
        return true;
    return session->asked && !session->dialogue.from_start;   /* the reply may be missing */
}

/* TLS begins: the following bytes are opened ones. */
static inline void ftp_connection_secured(struct ftp_connection *connection) {
    connection->secured = true;
    if (connection->session)
        connection->session->secured = true;
}

/* --- data connections --- */

/* Finds the transfer of a data connection whose state was read. */
static inline void ftp_connection_resume(struct ftp_transfers *transfers, struct ftp_connection *connection,
                                         const struct sl_event *event) {
    if (!connection->restored)
        return;
    connection->restored = false;
    for (unsigned side = 0; side < 2 && !connection->data; side++) {
        connection->data = transfers->bucket[log_stream_port(event, side) % FTP_BUCKETS];
        while (connection->data && !(connection->data->connected && connection->data->flow == sl_event_number(event)))
            connection->data = connection->data->next;
    }
}

/* The transfer whose data connection this is; NULL: it is none. */
static inline struct ftp_transfer *ftp_connection_transfer(struct ftp_transfers *transfers, struct ftp_connection *connection,
                                                           const struct sl_event *event) {
    ftp_connection_resume(transfers, connection, event);
    if (!connection->searched && !connection->data && !connection->session)
        ftp_connection_created(transfers, connection, event);   /* the announcement may have been delivered since */
    connection->searched = true;
    return connection->data;
}

static bool ftp_data_may_begin(void *user, unsigned side) {
    (void)user, (void)side;
    return true;
}

static void ftp_data_begins(void *user, unsigned side) { (void)user, (void)side; }

static void ftp_data_bytes(void *user, unsigned side, const uint8_t *at, uint32_t length, bool opened) {
    struct ftp_transfer *transfer = user;
    if (!opened && transfer->cut)
        return;
    if (opened && !transfer->tls->read)
        transfer->owner->opened(transfer->event->box, TLS_OPENED);
    transfer->bytes += length;
    if (transfer->owner->bytes)
        transfer->owner->bytes(transfer->event, transfer, side, at, length);
}

static void ftp_data_gap(void *user, unsigned side, uint64_t length, bool opened) {
    struct ftp_transfer *transfer = user;
    (void)side, (void)opened;
    transfer->missing += length;
}

static void ftp_data_shut(void *user, unsigned side, enum tls_shut why) {
    struct ftp_transfer *transfer = user;
    (void)side;
    transfer->cut = true;
    transfer->owner->opened(transfer->event->box, why);
}

static const struct tls_connection_owner ftp_data_tls = {ftp_data_may_begin, ftp_data_begins, ftp_data_bytes, ftp_data_gap,
                                                         ftp_data_shut, NULL};

/* Handles bytes of a data connection. That of a secured session is in TLS if it begins so. */
static inline void ftp_transfer_bytes(struct ftp_transfers *transfers, struct ftp_transfer *transfer, const struct sl_event *event,
                                      sl_bytes bytes, const struct ftp_owner *owner, bool *no_memory) {
    enum { FIRST_BYTE = 1 };
    bool first = !transfer->bytes && !transfer->missing && !transfer->cut;
    transfer->owner = owner;
    transfer->event = event;
    if (transfer->cut && !transfer->tls)   /* it is in TLS, and its opener was lost with a process */
        return;
    ftp_transfer_changed(event->box, transfer);
    if (first && !transfer->tls && transfer->may_be_secured && transfers->secrets) {
        transfer->tls = tls_connection_new(&ftp_data_tls, transfer, transfers->secrets, &transfers->budget, FIRST_BYTE);
        *no_memory |= !transfer->tls;
    }
    if (transfer->tls)
        tls_connection_bytes(transfer->tls, event->side & 1, bytes.at, bytes.captured, sl_packet_time(event));
    else
        ftp_data_bytes(transfer, event->side & 1, bytes.at, bytes.captured, false);
}

/* --- both --- */

/* Bytes of a data connection, or of a control connection in the clear, are missing. Returns whether it was a data connection. */
static inline bool ftp_connection_gap(struct ftp_transfers *transfers, struct ftp_connection *connection, const struct sl_event *event,
                                      uint64_t length, const struct ftp_owner *owner) {
    ftp_connection_resume(transfers, connection, event);
    struct ftp_transfer *transfer = connection->data;
    if (!transfer)
        return false;
    transfer->owner = owner;
    transfer->event = event;
    ftp_transfer_changed(event->box, transfer);
    bool begun = transfer->tls && tls_connection_has_begun(transfer->tls, event->side & 1);
    if (transfer->is_protected && !begun && !transfer->bytes && !transfer->cut) {   /* what follows is no beginning of TLS */
        transfer->missing += length;
        ftp_data_shut(transfer, event->side & 1, TLS_SHUT_GAP);
    } else if (transfer->tls) {
        tls_connection_missing(transfer->tls, event->side & 1, length);
    } else {
        transfer->missing += length;
    }
    return true;
}

static inline void ftp_connection_end(const struct sl_event *event, struct ftp_transfers *transfers, struct ftp_connection *connection,
                                      const struct ftp_owner *owner) {
    ftp_connection_resume(transfers, connection, event);
    struct ftp_transfer *transfer = connection->data;
    if (connection->session && connection->session->known)
        ftp_session_end(connection->session);
    if (!transfer)
        return;
    transfer->event = event;
    if (transfer->tls)
        tls_connection_end(transfer->tls);
    transfer->closed = true;
    connection->data = NULL;
    ftp_transfer_changed(event->box, transfer);
    ftp_transfer_settle(event->box, owner, transfers, transfer);
}

/* Frees all transfers, at the end of a box. */
static inline void ftp_transfers_close(struct ftp_transfers *transfers) {
    for (unsigned i = 0; i < FTP_BUCKETS; i++)
        while (transfers->bucket[i])
            ftp_transfer_free(transfers, transfers->bucket[i]);
}

#endif
