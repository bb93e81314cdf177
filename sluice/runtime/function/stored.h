/* The state that a function has of a connection (SLUICE_STATE), as bytes that a store holds.
 *
 * SLUICE_STORED(loss, "what it is") { ... } says how they are made. One body writes the state and reads it: it passes each
 * value to a call of this file, which copies it to the bytes, or, where `stored->reads`, from them. Then `state` is zeroed
 * at first, and the body also does what the function does besides when it has such a state: it links and counts it.
 *
 *     SLUICE_STORED(recover, "echoes without a reply") {
 *         for (struct echo **at = &state->first; sl_stored_more(stored, *at); at = &(*at)->next)
 *             if (!(*at = sl_stored_block(stored, *at, sizeof **at, sizeof(struct echo *))))
 *                 return;
 *     }
 *
 * Pointers are not stored: another process reads the bytes. They are written at the end of each batch of packets that has
 * events of the connection, by an instance of a function whose chain has a store (isolated/flow_state.h); nowhere else. */
#ifndef SL_STORED_H
#define SL_STORED_H

#include "core/box.h"

/* Bytes of the state of one connection: those of the 256 packets of a batch fit into a commit (SLUICE_COMMIT_MOST), in which a
 * byte has two digits. A larger one is refused, and counted. */
enum { SL_STORED_MOST = 1088 << 10 };

struct sl_stored {
    uint8_t *at;
    size_t used, size;   /* bytes so far; that there are, or that there is room for */
    bool reads;          /* from the bytes to the state */
    bool failed;         /* there is no room, or no memory, or the bytes end too early */
};

/* A value of `size` bytes. Where the bytes end too early, it is zeroed. */
static inline void sl_stored_bytes(struct sl_stored *stored, void *value, size_t size) {
    if (stored->failed || size > stored->size - stored->used) {
        stored->failed = true;
        if (stored->reads)
            memset(value, 0, size);
        return;
    }
    if (stored->reads)
        memcpy(value, stored->at + stored->used, size);
    else
        memcpy(stored->at + stored->used, value, size);
    stored->used += size;
}

#define SL_STORED(stored, value) sl_stored_bytes(stored, &(value), sizeof(value))

/* Whether there is a further item: `there` says so where the state is written. False after a failure. */
static inline bool sl_stored_more(struct sl_stored *stored, bool there) {
    uint8_t more = there;
    SL_STORED(stored, more);
    return more && !stored->failed;
}

/* Memory of `size` bytes that malloc allocated, of which the first `skipped` are pointers; where it is read, new memory with
 * zeros in their place. NULL after a failure, if it is read. */
static inline void *sl_stored_block(struct sl_stored *stored, void *block, size_t size, size_t skipped) {
    if (!stored->reads) {
        sl_stored_bytes(stored, (uint8_t *)block + skipped, size - skipped);
        return block;
    }
    if (stored->failed || size - skipped > stored->size - stored->used || !(block = malloc(size))) {
        stored->failed = true;
        return NULL;
    }
    memset(block, 0, skipped);
    sl_stored_bytes(stored, (uint8_t *)block + skipped, size - skipped);
    return block;
}

/* Which connection a state is of: for a function that changes it at the events of another one. */
struct sl_flow_place { uint64_t number; uint32_t slot; uint16_t owner; };

static inline struct sl_flow_place sl_flow_place_of(const struct sl_event *event) {
    return (struct sl_flow_place){sl_event_number(event), event->instance->slot, (uint16_t)event->owner->index};
}

/* The state of a connection other than the event's has changed. An isolated function has another one of this name. */
static inline void sl_flow_changed(struct sl_box *box, const struct sl_flow_place *place) {
    (void)box;
    (void)place;
}

#endif
