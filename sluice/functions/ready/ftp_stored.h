/* Connections of FTP in a store: a control connection has its dialogue, and the transfers that it has announced; a data connection
 * has its transfer once the control connection has ended. Before that it finds it again when it is needed. What OpenSSL knows of
 * TLS is not stored. */
#ifndef FTP_STORED_H
#define FTP_STORED_H

#include "ftp_connection.h"

enum ftp_stored_kind { FTP_STORED_NOTHING, FTP_STORED_SESSION, FTP_STORED_TRANSFER, FTP_STORED_DATA };

/* A transfer, which is made where it is read: `*at` then. `session`: NULL after the end of the control connection. Returns false
 * without one. */
static inline bool ftp_transfer_stored(struct sl_stored *stored, struct ftp_transfers *transfers, struct log_output *log,
                                       struct sl_box *box, const struct ftp_owner *owner, struct ftp_session *session, struct ftp_transfer **at) {
    struct ftp_transfer *transfer = *at;
    if (stored->reads) {
        bool room = !stored->failed && transfers->count < transfers->most;
        transfer = *at = room ? log_allocate(&transfers->budget, sizeof *transfer) : NULL;
        if (!transfer) {
            stored->failed = true;
            return false;
        }
        transfers->count++;
        transfer->session = session;
    }
    sl_stored_bytes(stored, transfer->address, offsetof(struct ftp_transfer, stored) - offsetof(struct ftp_transfer, address));
    if (stored->reads) {
        struct ftp_transfer **bucket = &transfers->bucket[transfer->port % FTP_BUCKETS];
        transfer->next = *bucket;
        *bucket = transfer;
        for (unsigned i = 0; i < 2; i++)
            if (transfer->size[i] > sizeof transfer->address[i]) {
                transfer->size[i] = 0;
                stored->failed = true;
            }
    }
    bool cut = transfer->cut || transfer->tls;   /* the rest of a data connection in TLS is not opened */
    uint64_t size = transfer->stored;
    log_text_stored(stored, &transfer->login);
    log_text_stored(stored, &transfer->command);
    log_text_stored(stored, &transfer->argument);
    log_text_stored(stored, &transfer->reply);
    log_flow_stored(stored, log, box, &transfer->control);
    SL_STORED(stored, transfer->client);
    SL_STORED(stored, transfer->may_be_secured);
    SL_STORED(stored, cut);
    SL_STORED(stored, transfer->of_control);
    SL_STORED(stored, transfer->of_data);
    SL_STORED(stored, size);
    if (stored->reads && !stored->failed) {
        transfer->client &= 1;
        transfer->cut = cut;
        transfer->stored = size;
        transfers->budget.used += size;
    }
    if (owner->stored)
        owner->stored(stored, box, transfer);
    return true;
}

static inline void ftp_session_stored(struct sl_stored *stored, struct ftp_transfers *transfers, struct log_output *log,
                                      struct sl_box *box, struct ftp_session *session) {
    uint64_t size = session->stored;
    dialogue_stored(stored, &session->dialogue);
    log_flow_stored(stored, log, box, &session->flow);
    SL_STORED(stored, session->place);
    sl_stored_bytes(stored, &session->client, offsetof(struct ftp_session, user) - offsetof(struct ftp_session, client));
    session->client &= 1;
    log_text_stored(stored, &session->user);
    SL_STORED(stored, size);
    if (stored->reads && !stored->failed) {
        session->stored = size;
        transfers->budget.used += size;
    }
    for (struct ftp_transfer **at = &session->own; sl_stored_more(stored, *at != NULL); at = &(*at)->next_own) {
        if (!ftp_transfer_stored(stored, transfers, log, box, session->owner, session, at))
            return;
        bool current = session->current == *at;
        SL_STORED(stored, current);
        if (current)
            session->current = *at;
    }
}

/* The state of a connection. `owner`: of its session. */
static inline void ftp_connection_stored(struct sl_stored *stored, struct ftp_transfers *transfers, struct log_output *log,
                                         struct sl_box *box, struct ftp_connection *connection, const struct ftp_owner *owner) {
    const struct ftp_transfer *data = connection->data;
    uint8_t kind = connection->session ? FTP_STORED_SESSION : connection->restored ? FTP_STORED_DATA : !data ? FTP_STORED_NOTHING :
                   data->session ? FTP_STORED_DATA : FTP_STORED_TRANSFER;
    log_path_stored(stored, log, box, &connection->path);
    SL_STORED(stored, connection->over);
    SL_STORED(stored, connection->seen);
    SL_STORED(stored, connection->searched);
    SL_STORED(stored, connection->secured);
    SL_STORED(stored, kind);
    connection->restored = kind == FTP_STORED_DATA && stored->reads ? true : connection->restored;
    if (kind == FTP_STORED_TRANSFER)
        ftp_transfer_stored(stored, transfers, log, box, owner, NULL, &connection->data);
    if (kind != FTP_STORED_SESSION)
        return;
    if (stored->reads) {
        struct ftp_session *session = connection->session = log_allocate(&transfers->budget, sizeof *session);
        if (!session) {
            stored->failed = true;
            return;
        }
        session->owner = owner;
        session->transfers = transfers;
        session->box = box;
        session->dialogue.owner = &ftp_dialogue;
        session->dialogue.user = session;
        session->dialogue.budget = &transfers->budget;
    }
    ftp_session_stored(stored, transfers, log, box, connection->session);
}

/* A connection's state is freed. The transfer of a data connection that goes on in another process is that one's. */
static inline void ftp_connection_leave(struct ftp_transfers *transfers, struct ftp_connection *connection) {
    if (!transfers->count)   /* all are freed, by SLUICE_CLOSE */
        connection->data = NULL;
    if (connection->data && !connection->data->session)
        ftp_transfer_free(transfers, connection->data);
    else if (connection->data)
        connection->data->closed = true;
    connection->data = NULL;
    ftp_connection_free(transfers, connection);
}

#endif
