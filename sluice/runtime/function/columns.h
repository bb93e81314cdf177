/* Events for functions in Python that take many at once: each event is a row of words; the bytes of all events follow
 * the rows.
 *
 * A row is cheap to write, and Python reads columns of thousands of rows. The collected rows of an event become one
 * record of the batch that all functions in Python receive. */
#ifndef SL_COLUMNS_H
#define SL_COLUMNS_H

#include "function/records.h"

enum {
    SL_COLUMNS_ROWS = 4096,
    SL_COLUMNS_BYTES = 1 << 20,   /* bytes of values after which the rows are delivered as well */
    SL_COLUMNS = 0x8000,          /* set in sl_record_head.event: the rest is the number of columns, not of an event */
};

struct sl_columns {
    uint64_t *rows;
    uint8_t *bytes;
    uint32_t count, words;      /* rows, and words per row */
    uint64_t used, room;        /* of `bytes` */
};

/* Makes a record of all rows. Without memory they are lost, and the run fails. */
SL_COLD void sl_columns_flush(struct sl_box *box, struct sl_columns *columns, uint16_t number) {
    if (!columns->count)
        return;
    size_t rows = (size_t)columns->count * columns->words * 8;
    size_t size = sizeof(struct sl_record_head) + rows + ((columns->used + 7) & ~(size_t)7);
    struct sl_record_head head = {(uint32_t)size, (uint16_t)(SL_COLUMNS | number), 0, 0, 0, columns->count, 0, 0, 0, 0, 0, 0};
    uint8_t *at = sl_batch_take(&box->batch, size);
    if (at) {
        memcpy(at, &head, sizeof head);
        memcpy(at + sizeof head, columns->rows, rows);
        if (columns->used)
            memcpy(at + sizeof head + rows, columns->bytes, columns->used);
    } else {
        (sl_fail)(box, "events for Python", "no memory");
    }
    columns->count = 0;
    columns->used = 0;
}

/* A row for an event with so many bytes; NULL without memory. */
static inline uint64_t *sl_columns_row(struct sl_box *box, struct sl_columns *columns, uint16_t number, uint32_t words,
                                       uint64_t bytes) {
    if (SL_UNLIKELY(columns->count == SL_COLUMNS_ROWS || (columns->count && columns->used + bytes > SL_COLUMNS_BYTES)))
        sl_columns_flush(box, columns, number);
    if (SL_UNLIKELY(!columns->rows && !(columns->rows = malloc(SL_COLUMNS_ROWS * 8 * (size_t)words)))) {
        (sl_fail)(box, "events for Python", "no memory");
        return NULL;
    }
    if (SL_UNLIKELY(bytes > columns->room - columns->used)) {
        uint64_t room = sl_max(columns->used + bytes, SL_COLUMNS_BYTES);
        uint8_t *larger = realloc(columns->bytes, room);
        if (!larger) {
            (sl_fail)(box, "events for Python", "no memory");
            return NULL;
        }
        columns->bytes = larger;
        columns->room = room;
    }
    columns->words = words;
    return columns->rows + (size_t)columns->count++ * words;
}

/* Writes the beginning of every row; returns how many words that are. */
static inline unsigned sl_columns_begin(uint64_t *row, const struct sl_event *event) {
    row[0] = sl_event_number(event);
    row[1] = event->side;
    row[2] = event->box->time;
    row[3] = event->box->number;
    return 4;
}

/* Stores bytes of an event. Returns their offset; the upper half of the word is their number. */
static inline uint64_t sl_columns_put(struct sl_columns *columns, sl_bytes bytes) {
    uint64_t word = columns->used | (uint64_t)bytes.captured << 32;
    if (bytes.captured)
        memcpy(columns->bytes + columns->used, bytes.at, bytes.captured);
    columns->used += bytes.captured;
    return word;
}

static inline void sl_columns_close(struct sl_columns *columns) {
    free(columns->rows);
    free(columns->bytes);
}

#endif
