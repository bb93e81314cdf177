/* Copies of the stack's instances in the process of a function: what messages say of them, and the state that the
 * function keeps in them. An instance has the slot that it has in its table, so that a copy is found by it. */
#ifndef SL_ISOLATED_MIRROR_H
#define SL_ISOLATED_MIRROR_H

#include "isolated/memory.h"

/* What a store has of the timers and the state of an instance (flow_state.h). */
struct sl_mirror_record {
    uint64_t number;      /* of the instance of which that is */
    uint64_t digest;      /* of the record; 0: there is none */
    uint32_t touched;     /* place among the instances that the batch has touched, from 1; 0: it is none */
};

struct sl_mirrors {
    struct sl_instance **at;   /* by slot */
    struct sl_mirror_record *record;   /* by slot */
    uint8_t *adopted;          /* by slot: the instance began before this process knew it */
    uint64_t before;           /* instances up to this number began before the batch */
    uint32_t count;
    size_t size;               /* of an instance */
    void (*begin)(struct sl_box *box, struct sl_instance *instance);     /* sets timers to never */
    void (*destroy)(struct sl_box *box, struct sl_instance *instance);   /* calls the function's destructor */
};

static inline struct sl_instance *sl_mirror_at(const struct sl_mirrors *mirrors, uint32_t slot) {
    return slot < mirrors->count ? mirrors->at[slot] : NULL;
}

static inline uint64_t sl_mirror_number(const struct sl_layer_info *owner, const struct sl_instance *instance) {
    uint64_t number;
    memcpy(&number, (const char *)instance + owner->number_offset, sizeof number);
    return number;
}

/* Sets a field of an instance; the reverse of sl_field_value. */
static inline void sl_mirror_field(struct sl_instance *instance, const struct sl_field_info *field, uint64_t value) {
    uint8_t *at = (uint8_t *)instance + field->offset;
    uint64_t mask = sl_mask(field->bits);
    switch (field->bytes) {
    case 0: *at = (uint8_t)((*at & ~(mask << field->bit)) | (value & mask) << field->bit); break;
    case 1: *at = (uint8_t)value; break;
    case 2: { uint16_t x = (uint16_t)value; memcpy(at, &x, sizeof x); break; }
    case 4: { uint32_t x = (uint32_t)value; memcpy(at, &x, sizeof x); break; }
    default: memcpy(at, &value, sizeof value);
    }
}

/* Makes room for a slot; false without memory, or for a slot that no table has. */
SL_COLD bool sl_mirrors_grow(struct sl_mirrors *mirrors, const struct sl_box *box, uint32_t slot) {
    if (slot >= box->max_instances)
        return false;
    uint32_t count = mirrors->count ? mirrors->count : 64;
    while (count <= slot)
        count = count > UINT32_MAX / 2 ? UINT32_MAX : 2 * count;
    struct sl_instance **larger = realloc(mirrors->at, count * sizeof *larger);
    if (!larger)
        return false;
    memset(larger + mirrors->count, 0, (count - mirrors->count) * sizeof *larger);
    mirrors->at = larger;
    uint8_t *adopted = realloc(mirrors->adopted, count);
    if (!adopted)
        return false;
    mirrors->adopted = adopted;
    struct sl_mirror_record *record = realloc(mirrors->record, count * sizeof *record);
    if (!record)
        return false;
    memset(record + mirrors->count, 0, (count - mirrors->count) * sizeof *record);
    mirrors->record = record;
    mirrors->count = count;
    return true;
}

/* The copy of a message's instance, as the message says that it is; NULL without memory. A copy of an instance that had
 * the slot before is destroyed: its end was lost. known: set to whether there was a copy. */
static inline struct sl_instance *sl_mirror_update(struct sl_mirrors *mirrors, struct sl_box *box,
                                                   const struct sl_layer_info *owner,
                                                   const struct sl_iso_message *message, bool *known) {
    *known = false;
    if (message->slot >= mirrors->count && !sl_mirrors_grow(mirrors, box, message->slot))
        return NULL;
    struct sl_instance *instance = mirrors->at[message->slot];
    const uint64_t *at = (const uint64_t *)(message + 1);
    if (instance && sl_mirror_number(owner, instance) == message->number) {
        *known = true;
    } else {
        if (instance)
            mirrors->destroy(box, instance);
        else if (!(instance = malloc(mirrors->size)))
            return NULL;
        memset(instance, 0, mirrors->size);
        instance->slot = message->slot;
        memcpy((char *)instance + owner->number_offset, &message->number, sizeof message->number);
        memcpy(instance + 1, at, 8u * message->words);   /* the key, see sl_instance_key; 0 if no function reads it */
        mirrors->begin(box, instance);
        mirrors->at[message->slot] = instance;
        mirrors->adopted[message->slot] = message->number <= mirrors->before;
    }
    instance->deadline = message->deadline;
    *((uint8_t *)instance + owner->swapped_offset) = message->swapped;
    if (owner->states)
        *((uint8_t *)instance + owner->state_offset) = message->state;
    at += message->words;
    for (uint32_t i = 0; message->fields && i < owner->fields; i++)
        if (message->mask & sl_iso_field_bit(i))
            sl_mirror_field(instance, &owner->field[i], *at++);
    return instance;
}

/* The end of an instance: its copy is destroyed. */
static inline void sl_mirror_end(struct sl_mirrors *mirrors, struct sl_box *box, uint32_t slot) {
    struct sl_instance *instance = sl_mirror_at(mirrors, slot);
    if (!instance)
        return;
    mirrors->destroy(box, instance);
    free(instance);
    mirrors->at[slot] = NULL;
}

static inline void sl_mirrors_close(struct sl_mirrors *mirrors, struct sl_box *box) {
    for (uint32_t slot = 0; slot < mirrors->count; slot++)
        sl_mirror_end(mirrors, box, slot);
    free(mirrors->at);
    free(mirrors->adopted);
    free(mirrors->record);
}

#endif
