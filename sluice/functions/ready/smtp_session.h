/* One connection of SMTP (RFC 5321): its mail transactions, and the header fields of their messages (RFC 5322).
 *
 * SMTP is detected by the server's greeting, or, without one, by the client's first command. */
#ifndef SMTP_SESSION_H
#define SMTP_SESSION_H

#include "log_dialogue.h"

#include <strings.h>

enum { SMTP_PORT = 25, SMTP_SUBMISSION = 587, SMTP_IN_TLS = 465, SMTP_VALUE = 2048, SMTP_HEADER = 8192, SMTP_RECIPIENTS = 64 };

enum smtp_field { SMTP_DATE, SMTP_FROM, SMTP_TO, SMTP_CC, SMTP_SUBJECT, SMTP_ID, SMTP_REPLY_TO, SMTP_IN_REPLY_TO, SMTP_AGENT, SMTP_FIELDS };
static const char *const smtp_field_names[] = {"date", "from", "to", "cc", "subject", "message-id", "reply-to", "in-reply-to", "user-agent"};

struct smtp_mail {
    bool begun, has_content, in_header;
    bool open, complete;                    /* the content has begun and not ended; it has ended as the protocol defines */
    uint64_t time, bytes, chunk_left;       /* bytes of the message; of the current BDAT chunk */
    bool chunked, last_chunk;
    uint8_t line_end;                       /* progress in CR LF . CR LF: bytes of it that are matched */
    struct log_text from, recipients, field[SMTP_FIELDS];
    uint32_t recipient_count, recipients_left_out;
    struct log_held header;                 /* the current header field, unfolded */
    uint16_t code;
    struct log_text reply;
    uint64_t stored;                        /* bytes of the budget that its texts use */
};

struct smtp_session;

/* The callbacks of a session's owner. */
struct smtp_owner {
    /* A transaction has ended; or the session, if nothing was sent in it. */
    void (*mail)(struct smtp_session *session);
    /* NULL, or bytes of the message, without the dots that SMTP adds; at its end with `length` 0. */
    void (*content)(struct smtp_session *session, const uint8_t *at, uint32_t length);
};

struct smtp_session {
    struct dialogue dialogue;
    const struct smtp_owner *owner;
    void *user;
    struct smtp_mail mail;
    uint64_t time, now;
    uint64_t stored;                        /* bytes of the budget that its own texts use */
    bool known, asked, tls, authenticated, in_auth, written;   /* asked: STARTTLS was sent; tls: it was accepted */
    struct log_text helo, server;
};

/* Stores a text, within its bound and the budget; `stored` counts the bytes of its owner. */
static inline void smtp_store(struct smtp_session *session, uint64_t *stored, struct log_text *text, const uint8_t *at, uint32_t length,
                              uint32_t most) {
    uint32_t take = (uint32_t)sl_min(length, most - sl_min(text->used, most));
    if (!log_take(session->dialogue.budget, take))
        return;
    *stored += take;
    log_bytes(text, at, take);
}

/* Empties a text, for another one in its place. */
static inline void smtp_clear(struct smtp_session *session, uint64_t *stored, struct log_text *text) {
    log_give(session->dialogue.budget, text->used);
    *stored -= text->used;
    text->used = 0;
}

static inline void smtp_mail_free(struct smtp_session *session) {
    struct smtp_mail *mail = &session->mail;
    free(mail->from.at);
    free(mail->recipients.at);
    free(mail->reply.at);
    for (unsigned i = 0; i < SMTP_FIELDS; i++)
        free(mail->field[i].at);
    log_held_free(&mail->header, session->dialogue.budget);
    log_give(session->dialogue.budget, mail->stored);
    *mail = (struct smtp_mail){.begun = false};
}

/* Ends the content of a message, if it has not ended. */
static inline void smtp_content_close(struct smtp_session *session, bool complete) {
    if (!session->mail.open)
        return;
    session->mail.open = false;
    session->mail.complete = complete;
    if (session->owner->content)
        session->owner->content(session, NULL, 0);
}

static inline void smtp_mail_end(struct smtp_session *session) {
    smtp_content_close(session, false);
    session->written = true;
    session->owner->mail(session);
    smtp_mail_free(session);
}

/* The address of a MAIL or RCPT command: between angle brackets, or up to a space (RFC 5321, 4.1.2). */
static inline void smtp_address(const uint8_t **at, uint32_t *length) {
    const uint8_t *end;
    if (*length && **at == '<') {
        ++*at;
        --*length;
        end = memchr(*at, '>', *length);
    } else {
        end = memchr(*at, ' ', *length);
    }
    if (end)
        *length = (uint32_t)(end - *at);
}

/* --- the message --- */

static inline void smtp_header_field(struct smtp_session *session) {
    struct smtp_mail *mail = &session->mail;
    const uint8_t *at = mail->header.at, *colon = mail->header.used ? memchr(at, ':', mail->header.used) : NULL;
    if (!colon)
        return;
    uint32_t name = (uint32_t)(colon - at), length = mail->header.used - name - 1;
    for (colon++; length && (*colon == ' ' || *colon == '\t'); colon++)
        length--;
    for (unsigned i = 0; i < SMTP_FIELDS; i++) {
        bool agent = i == SMTP_AGENT && name == 8 && !strncasecmp((const char *)at, "x-mailer", 8);
        bool same = name == strlen(smtp_field_names[i]) && !strncasecmp((const char *)at, smtp_field_names[i], name);
        if ((same || agent) && !mail->field[i].used)
            smtp_store(session, &mail->stored, &mail->field[i], colon, length, SMTP_VALUE);
    }
}

/* Handles bytes of the header of a message (RFC 5322, 2.2). */
static inline void smtp_header(struct smtp_session *session, const uint8_t *at, uint32_t length) {
    struct smtp_mail *mail = &session->mail;
    for (uint32_t i = 0; i < length && mail->in_header; i++) {
        struct log_held *header = &mail->header;
        if (at[i] == '\r')
            continue;
        bool line_begins = header->used && header->at[header->used - 1] == '\n';
        if (line_begins && at[i] != ' ' && at[i] != '\t') {   /* the field is complete, as its next line is none of it (2.2.3) */
            header->used--;
            smtp_header_field(session);
            header->used = 0;
        } else if (line_begins) {
            header->used--;
        }
        if (at[i] == '\n' && !header->used)
            mail->in_header = false;
        else
            log_held_add(header, session->dialogue.budget, at + i, 1, SMTP_HEADER + (at[i] == '\n'));
    }
}

static inline void smtp_bytes(struct smtp_session *session, const uint8_t *at, uint32_t length) {
    if (!length)
        return;
    session->mail.bytes += length;
    if (session->mail.in_header)
        smtp_header(session, at, length);
    if (session->owner->content)
        session->owner->content(session, at, length);
}

static inline void smtp_content_end(struct smtp_session *session) {
    session->dialogue.content = false;
    smtp_content_close(session, true);
}

static inline void smtp_content_begin(struct smtp_session *session) {
    if (!session->mail.has_content)
        session->mail.in_header = true;
    session->mail.has_content = session->mail.open = true;
    session->mail.line_end = 2;   /* a line begins */
    session->dialogue.content = true;
}

/* Handles bytes after DATA, up to a line with one dot; a dot that begins another line is removed (RFC 5321, 4.5.2).
 * Returns how many were used. */
static inline uint32_t smtp_data(struct smtp_session *session, const uint8_t *at, uint32_t length) {
    struct smtp_mail *mail = &session->mail;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < length; i++) {
        uint8_t c = at[i];
        switch (mail->line_end) {
        case 0: mail->line_end = c == '\r' ? 1 : 0; break;
        case 1: mail->line_end = c == '\n' ? 2 : c == '\r' ? 1 : 0; break;
        case 2:
            if (c == '.') {
                smtp_bytes(session, at + begin, i - begin);
                begin = i + 1;
                mail->line_end = 3;
            } else {
                mail->line_end = c == '\r' ? 1 : 0;
            }
            break;
        case 3:
            mail->line_end = c == '\r' ? 4 : 0;
            if (mail->line_end) {
                smtp_bytes(session, at + begin, i - begin);
                begin = i + 1;   /* CR, which belongs to the message unless LF follows */
            }
            break;
        default:
            if (c == '\n') {
                smtp_content_end(session);
                dialogue_expect(&session->dialogue, ".", session->now);
                return i + 1;
            }
            smtp_bytes(session, (const uint8_t *)"\r", 1);
            mail->line_end = c == '\r' ? 1 : 0;
        }
    }
    smtp_bytes(session, at + begin, length - begin);
    return length;
}

/* --- the dialogue --- */

static inline uint32_t smtp_content(struct dialogue *dialogue, const uint8_t *at, uint32_t length) {
    struct smtp_session *session = dialogue->user;
    struct smtp_mail *mail = &session->mail;
    if (!mail->chunked)
        return smtp_data(session, at, length);
    uint32_t take = (uint32_t)sl_min(mail->chunk_left, length);
    smtp_bytes(session, at, take);
    mail->chunk_left -= take;
    if (!mail->chunk_left) {
        dialogue->content = false;
        if (mail->last_chunk)
            smtp_content_end(session);
    }
    return take;
}

/* A chunk (RFC 3030): its bytes follow at once. */
static inline void smtp_chunk(struct smtp_session *session, const uint8_t *rest, uint32_t left) {
    uint64_t size = 0;
    uint32_t i = 0;
    for (; i < left && rest[i] >= '0' && rest[i] <= '9' && size < UINT64_C(1) << 48; i++)
        size = 10 * size + (uint64_t)(rest[i] - '0');
    session->mail.chunked = true;
    session->mail.chunk_left = size;
    session->mail.last_chunk = left - i >= 5 && !strncasecmp((const char *)rest + i, " LAST", 5);
    smtp_content_begin(session);
    if (!size) {
        session->dialogue.content = false;
        if (session->mail.last_chunk)
            smtp_content_end(session);
    }
}

static inline void smtp_recipient(struct smtp_session *session, const uint8_t *at, uint32_t length) {
    struct smtp_mail *mail = &session->mail;
    smtp_address(&at, &length);
    if (mail->recipient_count >= SMTP_RECIPIENTS) {
        mail->recipients_left_out++;
        return;
    }
    struct log_text text = {0};
    log_put(&text, mail->recipient_count++ ? "," : "");
    log_string(&text, at, sl_min(length, SMTP_VALUE));
    if (log_take(session->dialogue.budget, text.used)) {
        mail->stored += text.used;
        log_bytes(&mail->recipients, text.at, text.used);
    }
    free(text.at);
}

static inline void smtp_exchange(struct dialogue *dialogue, const struct dialogue_message *command, const struct dialogue_message *reply) {
    struct smtp_session *session = dialogue->user;
    struct smtp_mail *mail = &session->mail;
    bool good = !reply || reply->code < 400;
    const uint8_t *rest;
    uint32_t left;
    if (!command) {   /* the greeting */
        if (reply && !session->server.used)
            smtp_store(session, &session->stored, &session->server, reply->text, reply->length, SMTP_VALUE);
        return;
    }
    if (session->in_auth) {   /* a line of credentials (RFC 4954, 4) */
        session->authenticated |= reply && reply->code == 235;
        session->in_auth = reply && reply->code == 334;
        return;
    }
    if (mail->begun && reply) {
        mail->code = reply->code;
        smtp_clear(session, &mail->stored, &mail->reply);
        smtp_store(session, &mail->stored, &mail->reply, reply->text, reply->length, SMTP_VALUE);
    }
    const uint8_t *line = command->text;
    uint32_t length = command->length;
    if (dialogue_is(line, length, "EHLO", &rest, &left) || dialogue_is(line, length, "HELO", &rest, &left)) {
        smtp_clear(session, &session->stored, &session->helo);
        smtp_store(session, &session->stored, &session->helo, rest, left, SMTP_VALUE);
    } else if (dialogue_is(line, length, "MAIL FROM:", &rest, &left)) {
        if (mail->begun)
            smtp_mail_end(session);
        mail->begun = true;
        mail->time = command->time;
        smtp_address(&rest, &left);
        smtp_store(session, &mail->stored, &mail->from, rest, left, SMTP_VALUE);
        if (reply) {
            mail->code = reply->code;
            smtp_store(session, &mail->stored, &mail->reply, reply->text, reply->length, SMTP_VALUE);
        }
    } else if (dialogue_is(line, length, "RCPT TO:", &rest, &left)) {
        if (good)
            smtp_recipient(session, rest, left);
    } else if (dialogue_is(line, length, "DATA", NULL, NULL)) {
        if (command->waits && (!reply || reply->code == 354)) {
            mail->chunked = false;
            smtp_content_begin(session);
        }
    } else if (length == 1 && line[0] == '.') {   /* the end of a message */
        smtp_mail_end(session);
    } else if (dialogue_is(line, length, "BDAT", &rest, &left)) {
        if (reply && left >= 4 && !strncasecmp((const char *)rest + left - 4, "LAST", 4))
            smtp_mail_end(session);
    } else if (dialogue_is(line, length, "RSET", NULL, NULL) || dialogue_is(line, length, "QUIT", NULL, NULL)) {
        if (mail->begun)
            smtp_mail_end(session);
    } else if (dialogue_is(line, length, "STARTTLS", NULL, NULL)) {
        session->tls = reply && reply->code == 220;
        dialogue->stopped = session->tls;
    } else if (dialogue_is(line, length, "AUTH", NULL, NULL)) {
        session->authenticated |= reply && reply->code == 235;
        session->in_auth = reply && reply->code == 334;
    }
}

static inline bool smtp_line(struct dialogue *dialogue, const uint8_t *line, uint32_t length) {
    struct smtp_session *session = dialogue->user;
    const uint8_t *rest;
    uint32_t left;
    if (!session->known) {
        session->known = dialogue_is(line, length, "EHLO", NULL, NULL) || dialogue_is(line, length, "HELO", NULL, NULL);
        dialogue->stopped = !session->known;
    }
    if (dialogue_is(line, length, "BDAT", &rest, &left))
        smtp_chunk(session, rest, left);
    bool asks = dialogue_is(line, length, "STARTTLS", NULL, NULL);
    session->asked |= asks;
    return asks || dialogue_is(line, length, "DATA", NULL, NULL);
}

static const struct dialogue_owner smtp_dialogue = {smtp_exchange, smtp_line, smtp_content};

/* Whether a connection may be SMTP by the first byte that a side sends. */
static inline bool smtp_may_begin(uint8_t first, bool server) { return server ? first == '2' : memchr("EeHh", first, 4) != NULL; }

/* The port of SMTP that an end has; 0 if there is none. */
static inline uint16_t smtp_port(uint16_t a, uint16_t b) {
    static const uint16_t ports[] = {SMTP_PORT, SMTP_SUBMISSION, 2525};
    for (unsigned i = 0; i < 3; i++)
        if (a == ports[i] || b == ports[i])
            return ports[i];
    return 0;
}

static inline void smtp_session_open(struct smtp_session *session, const struct smtp_owner *owner, void *user, struct log_budget *budget,
                                     bool from_start, bool known) {
    *session = (struct smtp_session){.owner = owner, .user = user, .known = known};
    session->dialogue.owner = &smtp_dialogue;
    session->dialogue.user = session;
    session->dialogue.budget = budget;
    session->dialogue.from_start = from_start;
    session->dialogue.greeted = !from_start;
}

/* Whether TLS may begin with the next byte of a side. What a client sends without an accepted STARTTLS is commands and mails. */
__attribute__((unused)) static inline bool smtp_session_may_be_secured(const struct smtp_session *session, bool of_client, bool first) {
    return !session->known || first || session->tls || !of_client || (session->asked && !session->dialogue.from_start);
}

/* TLS has begun, and a session within it, without a greeting (RFC 3207, 4.2). */
__attribute__((unused)) static inline void smtp_session_secured(struct smtp_session *session) {
    if (session->mail.begun)
        smtp_mail_end(session);
    session->authenticated = session->in_auth = session->asked = false;
    session->tls = true;
    dialogue_restart(&session->dialogue);
}

/* The session has ended: reports a transaction that has not, and a session without one. */
static inline void smtp_session_end(struct smtp_session *session, uint64_t time) {
    session->now = time;
    dialogue_end(&session->dialogue, time);
    session->dialogue.content = false;
    smtp_content_close(session, false);
    if (session->known && (session->mail.begun || !session->written))
        smtp_mail_end(session);
}

/* The state of a session in that of a connection. What its owner has of a message is the owner's. */
__attribute__((unused)) static inline void smtp_session_stored(struct sl_stored *stored, struct smtp_session *session) {
    struct smtp_mail *mail = &session->mail;
    dialogue_stored(stored, &session->dialogue);
    sl_stored_bytes(stored, mail, offsetof(struct smtp_mail, from));
    log_text_stored(stored, &mail->from);
    log_text_stored(stored, &mail->recipients);
    for (unsigned i = 0; i < SMTP_FIELDS; i++)
        log_text_stored(stored, &mail->field[i]);
    SL_STORED(stored, mail->recipient_count);
    SL_STORED(stored, mail->recipients_left_out);
    log_held_stored(stored, &mail->header, session->dialogue.budget, SMTP_HEADER + 1);   /* with the end of a line */
    SL_STORED(stored, mail->code);
    log_text_stored(stored, &mail->reply);
    SL_STORED(stored, session->time);
    SL_STORED(stored, session->now);
    SL_STORED(stored, session->known);
    SL_STORED(stored, session->asked);
    SL_STORED(stored, session->tls);
    SL_STORED(stored, session->authenticated);
    SL_STORED(stored, session->in_auth);
    SL_STORED(stored, session->written);
    log_text_stored(stored, &session->helo);
    log_text_stored(stored, &session->server);
    SL_STORED(stored, mail->stored);
    SL_STORED(stored, session->stored);
    if (stored->reads)
        session->dialogue.budget->used += mail->stored + session->stored;
}

static inline void smtp_session_close(struct smtp_session *session) {
    smtp_mail_free(session);
    free(session->helo.at);
    free(session->server.at);
    log_give(session->dialogue.budget, session->stored);
    dialogue_close(&session->dialogue);
}

#endif
