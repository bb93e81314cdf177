/* Batches for functions in Python: one record per event. Functions that take many events at once get columns (columns.h). */
#ifndef SL_RECORDS_H
#define SL_RECORDS_H

#include "core/box.h"

struct sl_record_head {
    uint32_t size;       /* of the record including this head, a multiple of 8 */
    uint16_t event;      /* number of the event in the program's list */
    uint8_t side;
    uint8_t swapped;     /* the higher half of the key is the active side's */
    uint32_t owner;      /* index of the layer whose instance it is */
    uint32_t key_words;  /* of the instance's key, which follows this head */
    uint64_t instance;   /* number, 0 for none */
    uint64_t time;       /* of the packet */
    uint64_t number;     /* of the packet */
    uint64_t watched;    /* the on-demand handlers that receive it; those from number 64 on are in words at the end of
                          * the record */
    uint64_t slot;       /* of the instance in its table */
    uint64_t dropped_by; /* bits of the functions that had dropped the packet before the event; 0 without a packet */
};

SL_COLD void sl_batch_flush(struct sl_batch *batch) {
    if (batch->used && batch->deliver)
        batch->deliver(batch->user, batch->at, batch->used);
    batch->used = 0;
}

/* Allocates a record of `size` bytes; the batch grows for a record that is larger than it. NULL without memory. */
static inline uint8_t *sl_batch_take(struct sl_batch *batch, size_t size) {
    if (size > batch->size - batch->used) {
        sl_batch_flush(batch);
        if (size > batch->size) {
            uint8_t *larger = realloc(batch->at, size);
            if (!larger)
                return NULL;
            batch->at = larger;
            batch->size = size;
        }
    }
    uint8_t *at = batch->at + batch->used;
    batch->used += size;
    return at;
}

/* Begins the record of an event whose values take `size` bytes: writes its head and the key of its instance. Returns
 * the place for the values, or NULL without memory. */
static inline uint8_t *sl_record_begin(const struct sl_event *event, uint16_t number, size_t size) {
    struct sl_record_head head = {0, number, (uint8_t)event->side, 0, 0, 0, sl_event_number(event), event->box->time,
                                  event->box->number, sl_watched(event), 0,
                                  event->box->frame ? event->box->output.dropped_by : 0};
    if (event->instance) {
        head.slot = event->instance->slot;
        head.swapped = *((const uint8_t *)event->instance + event->owner->swapped_offset);
        head.owner = event->owner->index;
        head.key_words = event->owner->half_words * (event->owner->oriented ? 2 : 1);
    }
    head.size = (uint32_t)(sizeof head + 8 * head.key_words + size + 8 * (SL_WATCH_WORDS - 1));
    uint8_t *at = sl_batch_take(&event->box->batch, head.size);
    if (!at)
        return NULL;
    memcpy(at, &head, sizeof head);
    for (uint32_t word = 1; word < SL_WATCH_WORDS; word++) {
        uint64_t watched = sl_watched_word(event, word);
        memcpy(at + head.size - 8 * (SL_WATCH_WORDS - word), &watched, 8);
    }
    at += sizeof head;
    if (head.key_words)
        memcpy(at, sl_instance_key(event->instance), 8 * head.key_words);
    return at + 8 * head.key_words;
}

static inline size_t sl_record_bytes(sl_bytes bytes) { return 8 + (((size_t)bytes.captured + 7) & ~(size_t)7); }

static inline uint8_t *sl_record_number(uint8_t *at, uint64_t value) {
    memcpy(at, &value, 8);
    return at + 8;
}

static inline uint8_t *sl_record_put(uint8_t *at, sl_bytes bytes) {
    memcpy(at, &bytes.captured, 4);
    memcpy(at + 4, &bytes.length, 4);
    if (bytes.captured)
        memcpy(at + 8, bytes.at, bytes.captured);
    return at + sl_record_bytes(bytes);
}

#endif
