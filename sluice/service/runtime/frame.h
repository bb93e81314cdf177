/* Frames: the variables of an instance's rules. They have no value between two steps, so that an instance has a frame only
 * while one of its rules is within a step, or runs; state that outlives a step is in the instance. A free frame that was
 * used last is taken first: memory is touched for as many frames as there are requests at once, not connections.
 *
 * There is one for each instance of a lane, so that none ever waits for it. Only the worker to which an instance's memory
 * belongs takes and gives back its frame; one that another worker runs keeps it.
 */
#ifndef SERVICE_FRAME_H
#define SERVICE_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Of a free one. One that is in use begins with a number for each rule: where it goes on, or 0: at the beginning of a step. */
struct service_free_frame {
    struct service_free_frame *next;
};

struct service_frames {
    struct service_free_frame *free;
    uint8_t *memory;
    uint64_t stride, count, touched;
};

/* False if there is no memory. */
static inline bool service_frames_make(struct service_frames *frames, uint64_t count, uint32_t size)
{
    *frames = (struct service_frames){.count = count, .stride = ((uint64_t)size + 15) & ~UINT64_C(15)};
    frames->memory = mmap(NULL, count * frames->stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          -1, 0);
    return frames->memory != MAP_FAILED;
}

static inline void service_frames_free(struct service_frames *frames)
{
    if (frames->memory && frames->memory != MAP_FAILED)
        munmap(frames->memory, frames->count * frames->stride);
}

/* A frame whose `rules` rules are at the beginning of a step. */
static inline void *service_frame_take(struct service_frames *frames, uint32_t rules)
{
    void *found = frames->free;

    if (found)
        frames->free = frames->free->next;
    else
        found = frames->memory + frames->touched++ * frames->stride;
    memset(found, 0, rules * sizeof(uint32_t));
    return found;
}

static inline void service_frame_give(struct service_frames *frames, void *frame)
{
    struct service_free_frame *given = frame;

#ifdef SERVICE_SPOIL_FRAMES /* in tests: nothing of it is used again */
    memset(frame, 0xa5, frames->stride);
#endif
    given->next = frames->free;
    frames->free = given;
}

/* Whether a rule that has not ended is within a step. */
static inline bool service_frame_needed(const void *frame, uint64_t alive)
{
    const uint32_t *resume = frame;

    for (; alive; resume++, alive >>= 1)
        if (alive & 1 && *resume)
            return true;
    return false;
}

#endif
