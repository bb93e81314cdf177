/* Protocols of commands and replies in lines, such as SMTP and FTP: pairs the n-th command with the n-th reply.
 *
 * The client sends lines with commands. The server sends replies of three digits (RFC 5321, 4.2; RFC 959, 4.2), of one line
 * or several, the first one unasked. After some commands, the client's next data depends on the reply: its bytes are
 * held until the reply is there. If the client's SYN was captured, replies that are delivered before their commands wait,
 * too, so that the pairs do not depend on the order of packets. */
#ifndef LOG_DIALOGUE_H
#define LOG_DIALOGUE_H

#include "log_held.h"

enum {
    DIALOGUE_LINE = 4096,         /* maximum stored bytes of a line */
    DIALOGUE_REPLY = 2048,        /* maximum stored bytes of a reply */
    DIALOGUE_HELD = 1 << 16,      /* maximum bytes held until a reply is there */
    DIALOGUE_WAITING = 256,       /* maximum number of commands, and of replies, without a counterpart */
};

struct dialogue_message {
    struct dialogue_message *next;
    uint64_t time;
    uint32_t length;
    uint16_t code;                /* of a reply */
    bool waits;                   /* of a command: the client's next bytes depend on its reply */
    uint8_t text[];               /* a command's line; a reply's lines without codes, separated by LF */
};

struct dialogue;

/* The callbacks of a dialogue's owner. */
struct dialogue_owner {
    /* A command with its reply. One of them is NULL if it was not captured. The first reply has no command. */
    void (*exchange)(struct dialogue *dialogue, const struct dialogue_message *command, const struct dialogue_message *reply);
    /* A line with a command was read. Returns whether the client's next bytes depend on its reply. */
    bool (*line)(struct dialogue *dialogue, const uint8_t *line, uint32_t length);
    /* Bytes of the client that are no commands, while `content` is set. Returns how many it has used; after fewer than
     * all, `content` must be cleared. */
    uint32_t (*content)(struct dialogue *dialogue, const uint8_t *at, uint32_t length);
};

struct dialogue {
    const struct dialogue_owner *owner;
    void *user;
    struct log_budget *budget;
    bool from_start;              /* the client's SYN was captured: there is a first reply, and replies may wait */
    bool content;                 /* the client's bytes are no commands */
    bool waiting, stopped;        /* the client waits for a reply; nothing more is read, as after STARTTLS */
    bool is_cut;                  /* the current line is longer than its stored part */
    bool greeted;                 /* the first reply was there, or is not expected */
    struct dialogue_message *commands, *replies;
    uint32_t command_count, reply_count;
    struct log_held line[2], reply, held;   /* lines of the client and the server; the reply so far; held bytes */
    uint16_t code;                /* of a reply of several lines; 0: none has begun */
    uint64_t reply_time, cut_lines, bad_lines, dropped;
};

static inline struct dialogue_message *dialogue_new(struct dialogue *dialogue, const uint8_t *at, uint32_t length, uint64_t time) {
    if (!log_take(dialogue->budget, sizeof(struct dialogue_message) + length))
        return NULL;
    struct dialogue_message *message = malloc(sizeof *message + length);
    if (!message) {
        log_give(dialogue->budget, sizeof *message + length);
        return NULL;
    }
    *message = (struct dialogue_message){NULL, time, length, 0, false};
    if (length)
        memcpy(message->text, at, length);
    return message;
}

static inline void dialogue_free(struct dialogue *dialogue, struct dialogue_message *message) {
    if (message)
        log_give(dialogue->budget, sizeof *message + message->length);
    free(message);
}

static inline struct dialogue_message *dialogue_pop(struct dialogue_message **list, uint32_t *count) {
    struct dialogue_message *first = *list;
    *list = first->next;
    --*count;
    return first;
}

static inline void dialogue_push(struct dialogue_message **list, uint32_t *count, struct dialogue_message *message) {
    while (*list)
        list = &(*list)->next;
    *list = message;
    ++*count;
}

static inline void dialogue_client(struct dialogue *dialogue, const uint8_t *at, uint32_t length, uint64_t time);

/* Lets the client continue after the reply for which it waited. */
static inline void dialogue_go_on(struct dialogue *dialogue, uint64_t time) {
    struct log_held held = dialogue->held;
    dialogue->held = (struct log_held){NULL, 0, 0};
    dialogue->waiting = false;
    if (held.used)
        dialogue_client(dialogue, held.at, held.used, time);
    log_held_free(&held, dialogue->budget);
}

/* Reports pairs that are complete. A reply 1yz is followed by another one to the same command (RFC 959, 4.2). */
static inline void dialogue_pair(struct dialogue *dialogue, uint64_t time) {
    while (dialogue->replies && !dialogue->stopped) {
        bool greeting = !dialogue->greeted;
        if (!greeting && !dialogue->commands && dialogue->from_start)
            return;
        struct dialogue_message *reply = dialogue_pop(&dialogue->replies, &dialogue->reply_count);
        bool final = reply->code / 100 != 1;
        struct dialogue_message *command = NULL;
        if (!greeting && dialogue->commands && final)
            command = dialogue_pop(&dialogue->commands, &dialogue->command_count);
        dialogue->greeted |= final;
        bool waited = command && command->waits;
        dialogue->owner->exchange(dialogue, command ? command : greeting ? NULL : dialogue->commands, reply);
        dialogue_free(dialogue, command);
        dialogue_free(dialogue, reply);
        if (waited && dialogue->waiting && !dialogue->stopped)
            dialogue_go_on(dialogue, time);
    }
}

/* Handles a line of the client. */
static inline void dialogue_command(struct dialogue *dialogue, uint64_t time) {
    struct log_held *line = &dialogue->line[0];
    if (!line->used)
        return;
    struct dialogue_message *command =
        dialogue->command_count < DIALOGUE_WAITING ? dialogue_new(dialogue, line->at, line->used, time) : NULL;
    if (!command) {
        dialogue->dropped++;
        dialogue->stopped = true;
        return;
    }
    dialogue_push(&dialogue->commands, &dialogue->command_count, command);
    command->waits = dialogue->owner->line(dialogue, line->at, line->used);
    dialogue->waiting = command->waits;
}

/* Expects one more reply, to something that is not a line of the client. `text` is its command. */
__attribute__((unused)) static inline void dialogue_expect(struct dialogue *dialogue, const char *text, uint64_t time) {
    struct dialogue_message *command = dialogue->command_count < DIALOGUE_WAITING
                                           ? dialogue_new(dialogue, (const uint8_t *)text, (uint32_t)strlen(text), time)
                                           : NULL;
    if (command)
        dialogue_push(&dialogue->commands, &dialogue->command_count, command);
    dialogue->stopped |= !command;
    dialogue->dropped += !command;
}

/* Handles bytes of the client, in order. */
static inline void dialogue_client(struct dialogue *dialogue, const uint8_t *at, uint32_t length, uint64_t time) {
    while (length && !dialogue->stopped) {
        if (dialogue->content) {
            uint32_t used = dialogue->owner->content(dialogue, at, length);
            at += used;
            length -= used;
            continue;
        }
        if (dialogue->waiting) {
            if (log_held_add(&dialogue->held, dialogue->budget, at, length, DIALOGUE_HELD))
                return;
            /* no reply arrives: assume a positive one, and continue */
            struct dialogue_message **last = &dialogue->commands;
            while (*last && (*last)->next)
                last = &(*last)->next;
            if (*last) {
                dialogue->owner->exchange(dialogue, *last, NULL);
                (*last)->waits = false;   /* the data that depends on its reply has been decided */
            }
            dialogue_go_on(dialogue, time);
            continue;
        }
        if (!log_held_line(&dialogue->line[0], dialogue->budget, &at, &length, DIALOGUE_LINE, &dialogue->is_cut))
            return;
        dialogue->cut_lines += dialogue->is_cut;
        dialogue_command(dialogue, time);
        dialogue->line[0].used = 0;
        dialogue->is_cut = false;
        dialogue_pair(dialogue, time);
    }
    if (length)   /* for dialogue_resume */
        log_held_add(&dialogue->held, dialogue->budget, at, length, DIALOGUE_HELD);
}

static inline bool dialogue_digits(const uint8_t *at) {
    for (unsigned i = 0; i < 3; i++)
        if (at[i] < '0' || at[i] > '9')
            return false;
    return true;
}

/* Handles a line of the server. */
static inline void dialogue_reply(struct dialogue *dialogue, uint64_t time) {
    struct log_held *line = &dialogue->line[1];
    bool coded = line->used >= 3 && dialogue_digits(line->at) && (line->used == 3 || line->at[3] == ' ' || line->at[3] == '-');
    uint16_t code = coded ? (uint16_t)(100 * (line->at[0] - '0') + 10 * (line->at[1] - '0') + line->at[2] - '0') : 0;
    if (!coded && !dialogue->code) {
        dialogue->bad_lines += line->used != 0;
        return;
    }
    if (!dialogue->code)
        dialogue->reply_time = time;
    bool own = coded && (!dialogue->code || code == dialogue->code);
    uint32_t skip = own ? (uint32_t)sl_min(4, line->used) : 0;
    if (dialogue->reply.used)
        log_held_add(&dialogue->reply, dialogue->budget, (const uint8_t *)"\n", 1, DIALOGUE_REPLY);
    uint32_t room = DIALOGUE_REPLY - (uint32_t)sl_min(dialogue->reply.used, DIALOGUE_REPLY);
    log_held_add(&dialogue->reply, dialogue->budget, line->at + skip, (uint32_t)sl_min(line->used - skip, room), DIALOGUE_REPLY);
    if (!own || (line->used > 3 && line->at[3] == '-')) {
        dialogue->code = dialogue->code ? dialogue->code : code;
        return;
    }
    struct dialogue_message *reply =
        dialogue->reply_count < DIALOGUE_WAITING ? dialogue_new(dialogue, dialogue->reply.at, dialogue->reply.used, dialogue->reply_time) : NULL;
    dialogue->reply.used = 0;
    dialogue->code = 0;
    if (!reply) {
        dialogue->dropped++;
        dialogue->stopped = true;
        return;
    }
    reply->code = code;
    dialogue_push(&dialogue->replies, &dialogue->reply_count, reply);
    dialogue_pair(dialogue, time);
}

/* Handles bytes of the server, in order. */
static inline void dialogue_server(struct dialogue *dialogue, const uint8_t *at, uint32_t length, uint64_t time) {
    bool cut = false;
    while (length && !dialogue->stopped) {
        if (!log_held_line(&dialogue->line[1], dialogue->budget, &at, &length, DIALOGUE_LINE, &cut))
            return;
        dialogue_reply(dialogue, time);
        dialogue->line[1].used = 0;
    }
}

/* Handles missing bytes: the counts of commands and replies no longer correspond. Reports the commands that wait. */
static inline void dialogue_gap(struct dialogue *dialogue) {
    for (unsigned i = 0; i < 2; i++)
        dialogue->line[i].used = 0;
    dialogue->from_start = false;
    dialogue->greeted = true;
}

/* Handles the end: commands and replies without counterpart are reported alone. */
static inline void dialogue_end(struct dialogue *dialogue, uint64_t time) {
    dialogue->from_start = false;
    dialogue_pair(dialogue, time);
    while (dialogue->commands) {
        struct dialogue_message *command = dialogue_pop(&dialogue->commands, &dialogue->command_count);
        bool waited = command->waits && dialogue->waiting && !dialogue->commands;
        dialogue->owner->exchange(dialogue, command, NULL);
        dialogue_free(dialogue, command);
        if (waited)
            dialogue_go_on(dialogue, time);
    }
}

/* Continues a dialogue that was stopped, with the next command. Returns the bytes of the client that waited, which the caller
 * frees. */
static inline struct log_held dialogue_resume(struct dialogue *dialogue) {
    struct log_held held = dialogue->held;
    dialogue->held = (struct log_held){NULL, 0, 0};
    dialogue->stopped = dialogue->waiting = false;
    return held;
}

static inline void dialogue_close(struct dialogue *dialogue) {
    while (dialogue->commands)
        dialogue_free(dialogue, dialogue_pop(&dialogue->commands, &dialogue->command_count));
    while (dialogue->replies)
        dialogue_free(dialogue, dialogue_pop(&dialogue->replies, &dialogue->reply_count));
    log_held_free(&dialogue->line[0], dialogue->budget);
    log_held_free(&dialogue->line[1], dialogue->budget);
    log_held_free(&dialogue->reply, dialogue->budget);
    log_held_free(&dialogue->held, dialogue->budget);
}

/* Another dialogue begins, with a command. */
__attribute__((unused)) static inline void dialogue_restart(struct dialogue *dialogue) {
    dialogue_close(dialogue);
    dialogue->content = dialogue->waiting = dialogue->stopped = dialogue->is_cut = false;
    dialogue->greeted = true;
    dialogue->code = 0;
}

/* Messages in the state of a connection. */
__attribute__((unused)) static inline void dialogue_list_stored(struct sl_stored *stored, struct dialogue *dialogue,
                                                                struct dialogue_message **list, uint32_t *count) {
    for (struct dialogue_message **at = list; sl_stored_more(stored, *at != NULL); at = &(*at)->next) {
        uint32_t length = *at ? (*at)->length : 0;
        SL_STORED(stored, length);
        size_t size = sizeof **at + (size_t)length;
        if (!(*at = sl_stored_block(stored, *at, size, offsetof(struct dialogue_message, time))))
            return;
        (*at)->length = length;
        if (stored->reads) {
            dialogue->budget->used += size;
            ++*count;
        }
    }
}

/* The state of a dialogue in that of a connection; it was opened as it was at first. What it counts is that of a process. */
__attribute__((unused)) static inline void dialogue_stored(struct sl_stored *stored, struct dialogue *dialogue) {
    SL_STORED(stored, dialogue->from_start);
    SL_STORED(stored, dialogue->content);
    SL_STORED(stored, dialogue->waiting);
    SL_STORED(stored, dialogue->stopped);
    SL_STORED(stored, dialogue->is_cut);
    SL_STORED(stored, dialogue->greeted);
    dialogue_list_stored(stored, dialogue, &dialogue->commands, &dialogue->command_count);
    dialogue_list_stored(stored, dialogue, &dialogue->replies, &dialogue->reply_count);
    log_held_stored(stored, &dialogue->line[0], dialogue->budget, DIALOGUE_LINE);
    log_held_stored(stored, &dialogue->line[1], dialogue->budget, DIALOGUE_LINE);
    log_held_stored(stored, &dialogue->reply, dialogue->budget, DIALOGUE_REPLY);
    log_held_stored(stored, &dialogue->held, dialogue->budget, DIALOGUE_HELD);
    SL_STORED(stored, dialogue->code);
    SL_STORED(stored, dialogue->reply_time);
}

/* Whether a command's line begins with a verb, in any case. `rest`: the text after it, without leading spaces. */
static inline bool dialogue_is(const uint8_t *line, uint32_t length, const char *verb, const uint8_t **rest, uint32_t *left) {
    uint32_t size = (uint32_t)strlen(verb);
    if (length < size || (length > size && line[size] != ' ' && verb[size - 1] != ':'))
        return false;
    for (uint32_t i = 0; i < size; i++)
        if ((line[i] | (line[i] >= 'A' && line[i] <= 'Z' ? 0x20 : 0)) != (verb[i] | (verb[i] >= 'A' && verb[i] <= 'Z' ? 0x20 : 0)))
            return false;
    while (size < length && line[size] == ' ')
        size++;
    if (rest)
        *rest = line + size;
    if (left)
        *left = length - size;
    return true;
}

#endif
