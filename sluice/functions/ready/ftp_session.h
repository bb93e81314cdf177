/* Control connections of FTP (RFC 959, 2428), and the data connections that they announce.
 *
 * A command or reply that names an end (PORT, EPRT, 227, 229) makes a transfer, which waits for a TCP connection to this
 * end, and for the command whose data it carries. */
#ifndef FTP_SESSION_H
#define FTP_SESSION_H

#include "ftp_announce.h"
#include "log_dialogue.h"
#include "log_row.h"

#include <strings.h>

enum { FTP_CONTROL = 21, FTP_BUCKETS = 1024, FTP_TEXT = 2048 };

struct ftp_session;

struct ftp_transfer {
    struct ftp_transfer *next;        /* in its bucket */
    struct ftp_transfer *next_own;    /* of its session */
    struct ftp_session *session;      /* NULL after the end of the control connection */
    uint8_t address[2][16];           /* the announced one, and that of the control connection's end */
    uint8_t size[2];
    uint16_t port, code;
    bool passive, used, replied, connected, closed, upload;
    uint64_t time, reply_time;        /* of the command and its last reply */
    uint64_t flow, bytes, missing;    /* the data connection */
    uint64_t stored;
    struct log_text login, command, argument, reply;
    struct log_flow control;          /* for its row, which may follow the end of the control connection */
    uint8_t client;
    void *user;                       /* the owner's */
};

/* All transfers of a box by port. */
struct ftp_transfers {
    struct ftp_transfer *bucket[FTP_BUCKETS];
    uint64_t count, most;
    struct log_budget budget;
};

/* The callbacks of a session's owner. */
struct ftp_owner {
    /* A command without data, with its reply; one of them may be NULL. */
    void (*exchange)(struct ftp_session *session, const struct dialogue_message *command, const struct dialogue_message *reply);
    /* A transfer is complete, as far as it was captured. It is freed after the call. */
    void (*transfer)(struct sl_box *box, struct ftp_transfer *transfer);
};

struct ftp_session {
    struct dialogue dialogue;
    const struct ftp_owner *owner;
    struct ftp_transfers *transfers;
    struct sl_box *box;
    struct log_flow flow;
    uint8_t client;                   /* side */
    bool known, tls, no_room;
    struct log_text user;
    uint64_t stored;
    struct ftp_transfer *own, *current;   /* of this session; the last one that was announced and has no command */
};

/* --- transfers --- */

static inline void ftp_transfer_store(struct ftp_session *session, struct ftp_transfer *transfer, struct log_text *text,
                                      const uint8_t *at, uint32_t length) {
    uint32_t take = (uint32_t)sl_min(length, FTP_TEXT);
    text->used = 0;
    if (!log_take(&session->transfers->budget, take))
        return;
    transfer->stored += take;
    log_bytes(text, at, take);
}

static inline void ftp_transfer_free(struct ftp_transfers *transfers, struct ftp_transfer *transfer) {
    struct ftp_transfer **place = &transfers->bucket[transfer->port % FTP_BUCKETS];
    while (*place != transfer)
        place = &(*place)->next;
    *place = transfer->next;
    if (transfer->session) {
        place = &transfer->session->own;
        while (*place != transfer)
            place = &(*place)->next_own;
        *place = transfer->next_own;
        if (transfer->session->current == transfer)
            transfer->session->current = NULL;
    }
    log_give(&transfers->budget, transfer->stored + sizeof *transfer);
    free(transfer->login.at);
    free(transfer->command.at);
    free(transfer->argument.at);
    free(transfer->reply.at);
    free(transfer);
    transfers->count--;
}

/* Reports and frees a transfer that is complete: its last reply is there, and its data connection has ended. */
static inline void ftp_transfer_settle(struct sl_box *box, const struct ftp_owner *owner, struct ftp_transfers *transfers,
                                       struct ftp_transfer *transfer) {
    if (transfer->connected && !transfer->closed)
        return;
    if (!transfer->used && transfer->session && !transfer->replied)
        return;
    if (transfer->used && !transfer->replied)
        return;
    if (transfer->used || transfer->user)   /* `user`: bytes were transferred, but their command was not captured */
        owner->transfer(box, transfer);
    ftp_transfer_free(transfers, transfer);
}

static inline void ftp_announce(struct ftp_session *session, bool passive, const uint8_t *address, uint8_t size, uint16_t port) {
    struct ftp_transfers *transfers = session->transfers;
    bool room = port && transfers->count < transfers->most;
    struct ftp_transfer *transfer = room ? log_allocate(&transfers->budget, sizeof *transfer) : NULL;
    if (!transfer) {
        session->no_room |= port != 0;
        return;
    }
    if (session->current) {   /* an earlier announcement that was not used */
        session->current->replied = true;
        ftp_transfer_settle(session->box, session->owner, transfers, session->current);
    }
    transfer->session = session;
    transfer->port = port;
    transfer->passive = passive;
    transfer->size[0] = size;
    if (size)
        memcpy(transfer->address[0], address, size);
    transfer->size[1] = (uint8_t)log_address(sl_address_part(session->flow.layer), session->flow.half[passive ? session->client ^ 1 : session->client],
                                             transfer->address[1]);
    transfer->control = session->flow;
    transfer->client = session->client;
    transfer->next = transfers->bucket[port % FTP_BUCKETS];
    transfers->bucket[port % FTP_BUCKETS] = transfer;
    transfer->next_own = session->own;
    session->own = session->current = transfer;
    transfers->count++;
}

/* The transfer that waits for a connection to an end; NULL if there is none. */
static inline struct ftp_transfer *ftp_expected(const struct ftp_transfers *transfers, const struct sl_event *event, unsigned side) {
    const struct sl_key_part *port = sl_port_part(event->owner);
    uint8_t address[16];
    unsigned size = port ? log_address(sl_address_part(event->owner), sl_event_half(event, side), address) : 0;
    uint16_t number = size ? (uint16_t)sl_part_number(port, sl_event_half(event, side)) : 0;
    struct ftp_transfer *transfer = size ? transfers->bucket[number % FTP_BUCKETS] : NULL;
    for (; transfer; transfer = transfer->next)
        for (unsigned i = 0; i < 2; i++)
            if (!transfer->connected && transfer->port == number && transfer->size[i] == size && !memcmp(transfer->address[i], address, size))
                return transfer;
    return NULL;
}

/* The transfer whose data connection this is, found when it is created or sends its first bytes. */
static inline struct ftp_transfer *ftp_data_connection(const struct ftp_transfers *transfers, const struct sl_event *event) {
    if (!transfers->count)
        return NULL;
    struct ftp_transfer *transfer = ftp_expected(transfers, event, 1);
    if (!transfer)
        transfer = ftp_expected(transfers, event, 0);
    if (transfer) {
        transfer->connected = true;
        transfer->flow = sl_event_number(event);
    }
    return transfer;
}

/* --- the control connection --- */

static inline void ftp_port(struct ftp_session *session, bool passive, const uint8_t *at, uint32_t length) {
    struct ftp_end end;
    if (ftp_read_port(at, length, &end))
        ftp_announce(session, passive, end.address, end.size, end.port);
}

static inline void ftp_extended(struct ftp_session *session, bool passive, const uint8_t *at, uint32_t length) {
    struct ftp_end end;
    if (ftp_read_extended(passive, at, length, &end))
        ftp_announce(session, passive, end.address, end.size, end.port);
}

static inline bool ftp_carries(const uint8_t *line, uint32_t length, const uint8_t **rest, uint32_t *left, bool *upload) {
    static const struct { const char *verb; bool upload; } verbs[] = {{"RETR", false}, {"STOR", true}, {"STOU", true}, {"APPE", true},
                                                                      {"LIST", false}, {"NLST", false}, {"MLSD", false}};
    for (unsigned i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (dialogue_is(line, length, verbs[i].verb, rest, left)) {
            *upload = verbs[i].upload;
            return true;
        }
    return false;
}

/* The session's transfer that waits for the reply to a command of this time; NULL if there is none. */
static inline struct ftp_transfer *ftp_open_transfer(const struct ftp_session *session) {
    struct ftp_transfer *found = NULL;
    for (struct ftp_transfer *at = session->own; at; at = at->next_own)
        if (at->used && !at->replied)
            found = at;   /* the list begins with the latest */
    return found;
}

static inline bool ftp_line(struct dialogue *dialogue, const uint8_t *line, uint32_t length) {
    static const char *const first[] = {"USER", "AUTH", "FEAT", "HOST", "CLNT", "SYST", "OPTS", "PASS", "NOOP", "LANG"};
    struct ftp_session *session = dialogue->user;
    const uint8_t *rest;
    uint32_t left;
    bool upload;
    for (unsigned i = 0; i < sizeof first / sizeof *first && !session->known; i++)
        session->known = dialogue_is(line, length, first[i], NULL, NULL);
    if (!session->known) {
        dialogue->stopped = true;
        return false;
    }
    if (dialogue_is(line, length, "PORT", &rest, &left))
        ftp_port(session, false, rest, left);
    else if (dialogue_is(line, length, "EPRT", &rest, &left))
        ftp_extended(session, false, rest, left);
    else if (session->current && ftp_carries(line, length, &rest, &left, &upload)) {
        struct ftp_transfer *transfer = session->current;
        transfer->used = true;
        transfer->upload = upload;
        transfer->time = sl_box_time(session->box);
        ftp_transfer_store(session, transfer, &transfer->login, (const uint8_t *)session->user.at, (uint32_t)session->user.used);
        ftp_transfer_store(session, transfer, &transfer->command, line, 4);
        ftp_transfer_store(session, transfer, &transfer->argument, rest, left);
        session->current = NULL;
    }
    /* AUTH TLS (RFC 4217, 4): encrypted bytes follow its reply. The end of a passive announcement must precede the next
     * command, too. */
    return dialogue_is(line, length, "AUTH", NULL, NULL) || dialogue_is(line, length, "PASV", NULL, NULL) ||
           dialogue_is(line, length, "EPSV", NULL, NULL);
}

static inline void ftp_exchange(struct dialogue *dialogue, const struct dialogue_message *command, const struct dialogue_message *reply) {
    struct ftp_session *session = dialogue->user;
    const uint8_t *rest;
    uint32_t left;
    bool upload;
    if (reply && reply->code == 227)
        ftp_port(session, true, reply->text, reply->length);
    if (reply && reply->code == 229)
        ftp_extended(session, true, reply->text, reply->length);
    if (command && reply && reply->code / 100 != 1 && dialogue_is(command->text, command->length, "AUTH", NULL, NULL)) {
        session->tls = reply->code == 234;
        dialogue->stopped = session->tls;
    }
    if (command && dialogue_is(command->text, command->length, "USER", &rest, &left) && left && (!reply || reply->code / 100 != 1)) {
        uint32_t take = (uint32_t)sl_min(left, FTP_TEXT);
        session->user.used = 0;
        if (log_take(dialogue->budget, take)) {
            session->stored += take;
            log_bytes(&session->user, rest, take);
        }
    }
    struct ftp_transfer *transfer =
        command && ftp_carries(command->text, command->length, &rest, &left, &upload) ? ftp_open_transfer(session) : NULL;
    if (transfer) {
        if (reply) {
            transfer->code = reply->code;
            transfer->reply_time = reply->time;
            ftp_transfer_store(session, transfer, &transfer->reply, reply->text, reply->length);
        }
        transfer->replied = !reply || reply->code / 100 != 1;
        ftp_transfer_settle(session->box, session->owner, session->transfers, transfer);
    } else if (!reply || reply->code / 100 != 1) {
        session->owner->exchange(session, command, reply);
    }
}

static inline uint32_t ftp_no_content(struct dialogue *dialogue, const uint8_t *at, uint32_t length) {
    (void)at;
    dialogue->content = false;
    return length;
}

static const struct dialogue_owner ftp_dialogue = {ftp_exchange, ftp_line, ftp_no_content};

/* Whether a connection may be FTP by the first byte that a side sends. */
static inline bool ftp_may_begin(uint8_t first, bool server) {
    return server ? first == '2' || first == '1' : (first | 0x20) >= 'a' && (first | 0x20) <= 'z';
}

static inline void ftp_session_end(struct ftp_session *session) {
    dialogue_end(&session->dialogue, sl_box_time(session->box));
    while (session->own) {
        struct ftp_transfer *transfer = session->own;
        session->own = transfer->next_own;
        transfer->session = NULL;
        transfer->replied = true;
        ftp_transfer_settle(session->box, session->owner, session->transfers, transfer);
    }
    session->current = NULL;
}

static inline void ftp_session_close(struct ftp_session *session) {
    for (struct ftp_transfer *transfer = session->own; transfer; transfer = transfer->next_own) {
        transfer->session = NULL;
        transfer->replied = true;
    }
    session->own = session->current = NULL;
    free(session->user.at);
    log_give(session->dialogue.budget, session->stored);
    dialogue_close(&session->dialogue);
}

/* --- connections, by events --- */

/* A TCP connection: a control connection, the data connection of a transfer, or neither. */
struct ftp_connection {
    struct ftp_session *session;
    struct ftp_transfer *data;
    uint32_t path;
    bool over, seen[2], searched;
};

static inline void ftp_connection_created(struct ftp_transfers *transfers, struct ftp_connection *connection, const struct sl_event *event) {
    connection->data = ftp_data_connection(transfers, event);
    connection->over = connection->data != NULL;
}

/* Begins to read a connection that may be a control connection. Returns NULL if it is none. */
static inline struct ftp_session *ftp_connection_session(struct ftp_transfers *transfers, struct ftp_connection *connection,
                                                         const struct sl_event *event, uint8_t first, const struct ftp_owner *owner,
                                                         bool *no_memory) {
    unsigned side = event->side & 1;
    bool port = log_stream_port(event, 0) == FTP_CONTROL || log_stream_port(event, 1) == FTP_CONTROL;
    uint8_t client = (uint8_t)log_client(event, FTP_CONTROL);
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
    session->flow = log_flow_of(event, connection->path);
    session->client = client;
    session->known = port;
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

/* Handles bytes of a connection. Returns the transfer that they belong to; NULL if they are none of a data connection. */
static inline struct ftp_transfer *ftp_connection_data(struct ftp_transfers *transfers, struct ftp_connection *connection,
                                                       const struct sl_event *event, sl_bytes bytes, const struct ftp_owner *owner,
                                                       bool *no_memory) {
    if (!connection->searched && !connection->data && !connection->session)
        ftp_connection_created(transfers, connection, event);   /* the announcement may have been delivered since */
    connection->searched = true;
    if (connection->data) {
        connection->data->bytes += bytes.captured;
        return connection->data;
    }
    struct ftp_session *session =
        connection->over ? NULL : ftp_connection_session(transfers, connection, event, bytes.at[0], owner, no_memory);
    if (!session) {
        ftp_connection_free(transfers, connection);
        return NULL;
    }
    uint64_t now = sl_packet_time(event);
    if ((event->side & 1) == session->client)
        dialogue_client(&session->dialogue, bytes.at, bytes.captured, now);
    else
        dialogue_server(&session->dialogue, bytes.at, bytes.captured, now);
    if (session->dialogue.stopped) {
        if (session->known)
            ftp_session_end(session);
        ftp_connection_free(transfers, connection);
        connection->over = true;
    }
    return NULL;
}

static inline void ftp_connection_end(struct sl_box *box, struct ftp_transfers *transfers, struct ftp_connection *connection,
                                      const struct ftp_owner *owner) {
    if (connection->session && connection->session->known)
        ftp_session_end(connection->session);
    if (connection->data) {
        connection->data->closed = true;
        ftp_transfer_settle(box, owner, transfers, connection->data);
        connection->data = NULL;
    }
}

/* Frees all transfers, at the end of a box. */
static inline void ftp_transfers_close(struct ftp_transfers *transfers) {
    for (unsigned i = 0; i < FTP_BUCKETS; i++)
        while (transfers->bucket[i])
            ftp_transfer_free(transfers, transfers->bucket[i]);
}

#endif
