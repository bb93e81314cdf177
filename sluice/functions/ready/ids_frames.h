/* The packets that matched (`packets=FILE`): of a packet itself, that packet; of a stream, those that carried its window,
 * which are stored for each side until the window has moved on. */
#ifndef IDS_FRAMES_H
#define IDS_FRAMES_H

#include "sluice.h"

#include "io/writer.h"
#include "log_text.h"

enum { IDS_FRAMES_MOST = 64 };   /* packets that are stored of one side; the oldest ones are dropped first */

/* A stored packet. `at`: its place in its stream, by its sequence number alone, so modulo 2^32. */
struct ids_frame {
    struct sl_frame frame;    /* its bytes follow the struct */
    uint32_t at, length;      /* of its payload */
    bool written;
};

struct ids_frames {
    struct ids_frame *item[IDS_FRAMES_MOST];
    uint32_t count;
    uint32_t base;            /* the sequence number of byte 0 of the stream */
    bool based;
    uint64_t last;            /* the number of the last packet that was written as the current one */
};

static inline void ids_frame_free(struct log_budget *budget, struct ids_frame *frame) {
    log_give(budget, sizeof *frame + frame->frame.captured);
    free(frame);
}

static inline void ids_frames_free(struct log_budget *budget, struct ids_frames *frames) {
    for (uint32_t i = 0; i < frames->count; i++)
        ids_frame_free(budget, frames->item[i]);
    frames->count = 0;
}

/* Stores a packet with payload. False beyond the budget. */
static inline bool ids_frames_add(struct log_budget *budget, struct ids_frames *frames, const struct sl_frame *frame, uint32_t at,
                                  uint32_t length) {
    size_t size = sizeof(struct ids_frame) + frame->captured;
    if (frames->count == IDS_FRAMES_MOST) {
        ids_frame_free(budget, frames->item[0]);
        memmove(frames->item, frames->item + 1, --frames->count * sizeof *frames->item);
    }
    struct ids_frame *made = log_take(budget, size) ? malloc(size) : NULL;
    if (!made)
        return false;
    *made = (struct ids_frame){.frame = *frame, .at = at, .length = length, .written = frame->number == frames->last};
    memcpy(made + 1, frame->at, frame->captured);
    made->frame.at = (const uint8_t *)(made + 1);
    frames->item[frames->count++] = made;
    return true;
}

/* Forgets the packets that end before `begin` of the stream. */
static inline void ids_frames_forget(struct log_budget *budget, struct ids_frames *frames, uint64_t begin) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < frames->count; i++) {
        struct ids_frame *frame = frames->item[i];
        if ((int32_t)(frame->at + frame->length - frames->base - (uint32_t)begin) < 0)
            ids_frame_free(budget, frame);
        else
            frames->item[left++] = frame;
    }
    frames->count = left;
}

/* Writes the stored packets that have bytes of [begin, end) of the stream, each once, and the current one unless it is among
 * the stored ones. Returns the number of packets that could not be written. */
static inline uint64_t ids_frames_write(struct sl_writer *to, struct ids_frames *frames, uint64_t begin, uint64_t end,
                                        const struct sl_frame *current) {
    uint64_t failed = 0;
    for (uint32_t i = 0; frames && i < frames->count; i++) {
        struct ids_frame *frame = frames->item[i];
        if (current && frame->frame.number == current->number)
            current = NULL;
        uint32_t at = frame->at - frames->base;
        bool within = (int32_t)(at + frame->length - (uint32_t)begin) > 0 && (int32_t)(at - (uint32_t)end) < 0;
        if (!within || frame->written)
            continue;
        failed += sl_writer_write(to, &frame->frame) != 0;
        frame->written = true;
    }
    if (current && !(frames && frames->last == current->number))
        failed += sl_writer_write(to, current) != 0;
    if (current && frames)
        frames->last = current->number;
    return failed;
}

#endif
