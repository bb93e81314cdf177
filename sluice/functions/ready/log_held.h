/* Bytes of a stream that are stored until enough of them are there, within a bound and a log's budget. */
#ifndef LOG_HELD_H
#define LOG_HELD_H

#include "log_text.h"

#include "function/stored.h"

struct log_held {
    uint8_t *at;
    uint32_t used, room;
};

static inline void log_held_free(struct log_held *held, struct log_budget *budget) {
    log_give(budget, held->room);
    free(held->at);
    *held = (struct log_held){NULL, 0, 0};
}

/* Appends bytes. Returns false beyond `most` bytes, beyond the budget, or without memory; then none is appended. */
static inline bool log_held_add(struct log_held *held, struct log_budget *budget, const uint8_t *at, uint32_t length, uint32_t most) {
    if (length > most - sl_min(held->used, most))
        return false;
    if (held->used + length > held->room) {
        uint32_t room = (uint32_t)sl_min(most, sl_max(128, 2 * ((uint64_t)held->used + length)));
        if (!log_take(budget, room - held->room))
            return false;
        uint8_t *larger = realloc(held->at, room);
        if (!larger) {
            log_give(budget, room - held->room);
            return false;
        }
        held->at = larger;
        held->room = room;
    }
    if (length)
        memcpy(held->at + held->used, at, length);
    held->used += length;
    return true;
}

/* A block in the state of a connection (sl_stored_block), which takes its size from the budget where it is read. NULL: there is no
 * room for it. */
static inline void *log_block_stored(struct sl_stored *stored, struct log_budget *budget, void *block, size_t size, size_t skipped) {
    if (!stored->reads)
        return sl_stored_block(stored, block, size, skipped);
    if (!log_take(budget, size)) {
        stored->failed = true;
        return NULL;
    }
    if (!(block = sl_stored_block(stored, NULL, size, skipped)))
        log_give(budget, size);
    return block;
}

/* The bytes in the state of a connection, of which there are at most `most`. */
__attribute__((unused)) static inline void log_held_stored(struct sl_stored *stored, struct log_held *held, struct log_budget *budget,
                                                           uint32_t most) {
    uint32_t used = held->used;
    SL_STORED(stored, used);
    if (!stored->reads) {
        if (used)
            sl_stored_bytes(stored, held->at, used);
        return;
    }
    bool fits = !stored->failed && used <= most && used <= stored->size - stored->used;
    if (!fits || (used && !log_held_add(held, budget, stored->at + stored->used, used, most)))
        stored->failed = true;
    else
        stored->used += used;
}

/* A text in the state of a connection; the owner counts its bytes. */
__attribute__((unused)) static inline void log_text_stored(struct sl_stored *stored, struct log_text *text) {
    uint64_t used = text->used;
    SL_STORED(stored, used);
    if (!stored->reads && used)
        sl_stored_bytes(stored, text->at, used);
    if (!stored->reads || !used)
        return;
    stored->failed |= used > stored->size - stored->used;
    if (!stored->failed)
        log_bytes(text, stored->at + stored->used, used);
    stored->failed |= text->failed;
    stored->used += stored->failed ? 0 : used;
}

/* Removes the first bytes. */
static inline void log_held_skip(struct log_held *held, uint32_t length) {
    held->used -= length;
    if (held->used)
        memmove(held->at, held->at + length, held->used);
}

/* Appends the bytes up to the end of a line (LF), and moves `*at`. Returns true if the line is complete; `held` has it
 * without its line end then, cut after `most` bytes (`*cut`). The caller removes it. */
static inline bool log_held_line(struct log_held *held, struct log_budget *budget, const uint8_t **at, uint32_t *length,
                                 uint32_t most, bool *cut) {
    const uint8_t *end = memchr(*at, '\n', *length);
    uint32_t part = end ? (uint32_t)(end - *at) : *length;
    uint32_t take = (uint32_t)sl_min(part, most - sl_min(held->used, most));
    if (!log_held_add(held, budget, *at, take, most) || take < part)
        *cut = true;
    *at += part + (end ? 1 : 0);
    *length -= part + (end ? 1 : 0);
    if (end && held->used && held->at[held->used - 1] == '\r')
        held->used--;
    return end;
}

#endif
