/* Control connections of FTP (RFC 959, 2428, 4217), and the data connections that they announce.
 *
 * A command or reply that names an end (PORT, EPRT, 227, 229) makes a transfer, which waits for a TCP connection to this
 * end, and for the command whose data it carries. */
#ifndef FTP_SESSION_H
#define FTP_SESSION_H

#include "ftp_announce.h"
#include "log_dialogue.h"
#include "log_row.h"
#include "tls_connection.h"

#include <strings.h>

enum { FTP_CONTROL = 21, FTP_CONTROL_TLS = 990, FTP_BUCKETS = 1024, FTP_TEXT = 2048 };

struct ftp_session;
struct ftp_owner;

struct ftp_transfer {
    struct ftp_transfer *next;        /* in its bucket */
    struct ftp_transfer *next_own;    /* of its session */
    struct ftp_session *session;      /* NULL after the end of the control connection */
    uint8_t address[2][16];           /* the announced one, and that of the control connection's end */
    uint8_t size[2];
    uint16_t port, code;
    bool passive, used, replied, connected, closed, upload;
    bool secured;                     /* the control connection is in TLS */
    bool is_protected;                /* the data connection is in TLS: PROT P was accepted, or TLS is there from the beginning */
    uint64_t time, reply_time;        /* of the command and its last reply */
    uint64_t flow, bytes, missing;    /* the data connection */
    uint64_t stored;
    struct log_text login, command, argument, reply;
    struct log_flow control;          /* for its row, which may follow the end of the control connection */
    uint8_t client;
    void *user;                       /* the owner's */
    bool may_be_secured;              /* the data connection may be in TLS (PROT P of RFC 4217, 9) */
    bool cut;                         /* the rest of it was not opened */
    struct tls_connection *tls;       /* of the data connection; NULL: it is in the clear, or there are no secrets */
    struct sl_flow_place of_control, of_data;   /* the connections whose state it is part of (ftp_stored.h) */
    const struct ftp_owner *owner;    /* of `tls` */
    const struct sl_event *event;     /* that is processed, for callbacks of `tls` */
};

/* All transfers of a box by port. */
struct ftp_transfers {
    struct ftp_transfer *bucket[FTP_BUCKETS];
    uint64_t count, most;
    struct log_budget budget;
    struct tls_secrets *secrets;      /* NULL: TLS is not opened */
};

/* The callbacks of a session's owner. */
struct ftp_owner {
    /* A command without data, with its reply; one of them may be NULL. */
    void (*exchange)(struct ftp_session *session, const struct dialogue_message *command, const struct dialogue_message *reply);
    /* A transfer is complete, as far as it was captured. It is freed after the call. */
    void (*transfer)(struct sl_box *box, struct ftp_transfer *transfer);
    /* Bytes of a data connection, which `transfer->bytes` has counted. NULL: they are not needed. */
    void (*bytes)(const struct sl_event *event, struct ftp_transfer *transfer, unsigned side, const uint8_t *at, uint32_t length);
    /* The first bytes of a data connection in TLS were opened (TLS_OPENED), or its rest is not. */
    void (*opened)(struct sl_box *box, enum tls_shut why);
    /* A control connection is not read further. NULL: not needed. */
    void (*ended)(const struct ftp_session *session);
    /* AUTH was accepted, and these bytes of the client had come before: TLS begins with them, or with the next ones. */
    void (*secures)(const struct sl_event *event, unsigned client, const uint8_t *at, uint32_t length);
    /* `transfer->user` in the state of a connection. NULL: there is none. */
    void (*stored)(struct sl_stored *stored, struct sl_box *box, struct ftp_transfer *transfer);
};

struct ftp_session {
    struct dialogue dialogue;
    const struct ftp_owner *owner;
    struct ftp_transfers *transfers;
    struct sl_box *box;
    struct log_flow flow;
    struct sl_flow_place place;
    uint8_t client;                   /* side */
    bool known, no_room;
    bool secured;                     /* it is in TLS */
    bool asked, auth;                 /* AUTH was sent; it was accepted: TLS follows */
    bool accepted;                    /* it is accepted by the current reply, in the clear */
    bool clear_data;                  /* data connections are not in TLS (PROT C) */
    bool protected_data;              /* they are (PROT P), or the control connection is from its beginning */
    struct log_text user;
    uint64_t stored;
    struct ftp_transfer *own, *current;   /* of this session; the last one that was announced and has no command */
};

/* --- transfers --- */

/* Stores a text in place of another one, within its bound and the budget; `stored` counts the bytes of its owner. */
static inline void ftp_store(struct log_budget *budget, uint64_t *stored, struct log_text *text, const uint8_t *at, uint32_t length) {
    uint32_t take = (uint32_t)sl_min(length, FTP_TEXT);
    log_give(budget, text->used);
    *stored -= text->used;
    text->used = 0;
    if (!log_take(budget, take))
        return;
    *stored += take;
    log_bytes(text, at, take);
}

static inline void ftp_transfer_store(struct ftp_session *session, struct ftp_transfer *transfer, struct log_text *text,
                                      const uint8_t *at, uint32_t length) {
    ftp_store(&session->transfers->budget, &transfer->stored, text, at, length);
}

/* A transfer has changed at an event of another connection than that whose state has it: the control connection until its end,
 * then the data connection. */
static inline void ftp_transfer_changed(struct sl_box *box, const struct ftp_transfer *transfer) {
    sl_flow_changed(box, transfer->session ? &transfer->of_control : &transfer->of_data);
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
    tls_connection_free(transfer->tls);
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
    transfer->of_control = session->place;
    transfer->port = port;
    transfer->passive = passive;
    transfer->size[0] = size;
    if (size)
        memcpy(transfer->address[0], address, size);
    transfer->size[1] = (uint8_t)log_address(sl_address_part(session->flow.layer), session->flow.half[passive ? session->client ^ 1 : session->client],
                                             transfer->address[1]);
    transfer->control = session->flow;
    transfer->secured = session->secured;
    transfer->may_be_secured = session->secured && !session->clear_data;
    transfer->is_protected = session->secured && session->protected_data;
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
        transfer->of_data = sl_flow_place_of(event);
        ftp_transfer_changed(event->box, transfer);
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
    session->asked |= dialogue_is(line, length, "AUTH", NULL, NULL);
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
    if (command && reply && reply->code == 234 && dialogue_is(command->text, command->length, "AUTH", NULL, NULL)) {
        session->auth = true;
        session->accepted = !session->secured;
        dialogue->stopped |= session->accepted;
    }
    if (command && reply && reply->code / 100 == 2 && dialogue_is(command->text, command->length, "PROT", &rest, &left)) {
        session->clear_data = left && (*rest | 0x20) == 'c';
        session->protected_data = !session->clear_data;
    }
    if (command && dialogue_is(command->text, command->length, "USER", &rest, &left) && left && (!reply || reply->code / 100 != 1))
        ftp_store(dialogue->budget, &session->stored, &session->user, rest, left);
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

/* No more of a control connection, which is known, is read. */
static inline void ftp_session_end(struct ftp_session *session) {
    if (session->owner->ended)
        session->owner->ended(session);
    dialogue_end(&session->dialogue, sl_box_time(session->box));
    while (session->own) {
        struct ftp_transfer *transfer = session->own;
        session->own = transfer->next_own;
        transfer->session = NULL;
        transfer->replied = true;
        if (transfer->connected)
            ftp_transfer_changed(session->box, transfer);
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

#endif
