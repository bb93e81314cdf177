/* The timers and the state of flows, of an instance among several: they are stored with the batch's commit, so that the
 * instance that gets a flow has its state, and fires its timers, also if no packet of the flow comes any more (CHC, R1 and R2).
 *
 * A record has what a message says of an instance, the time of each timer, and what the function stores of it
 * (function/stored.h). It is written at the end of a batch that has handled an event of the flow, or has fired one of its
 * timers, if it has changed. */
#ifndef SL_ISOLATED_FLOW_STATE_H
#define SL_ISOLATED_FLOW_STATE_H

#include "isolated/note.h"
#include "isolated/route.h"

/* Words of a record besides what the function stores, at most; a flow with more is not recorded, which is a failure. */
enum { SL_ISO_RECORD_WORDS = 256 };

/* The record of a flow: the head, the words of the key, those of the fields, the times, and what the function stores. */
struct sl_iso_record {
    uint64_t number, deadline;
    uint32_t slot;
    uint16_t owner, words, fields;
    uint8_t swapped, state;
    uint64_t rest[SL_ISO_RECORD_WORDS + SL_STORED_MOST / 8];
};

/* A flow of which this batch may have changed the timers or the state. */
struct sl_iso_touched { uint64_t number; uint32_t slot; uint16_t owner; int16_t part; };

static struct sl_iso_flow_state {
    struct sl_iso_touched *touched;
    size_t count, room;
    bool failed;           /* there was no memory */
    struct sl_iso_record record;              /* the current one */
    char text[2 * sizeof(struct sl_iso_record) + 1];
} sl_iso_flow_state;

/* Notes that an event of a flow is handled, or one of its timers, or that its state has changed. */
static inline void sl_iso_touch(const struct sl_event *event, struct sl_mirrors *mirrors, const struct sl_iso_vertex *vertex) {
    struct sl_iso_flow_state *flows = &sl_iso_flow_state;
    struct sl_mirror_record *record = &mirrors->record[event->instance->slot];
    uint64_t number = sl_event_number(event);
    if (record->touched && record->touched <= flows->count && flows->touched[record->touched - 1].number == number)
        return;
    int32_t part = sl_iso_part_of(event, vertex, sl_iso_receiver.iso->control->seed);
    if (part < 0)
        return;
    if (flows->count == flows->room) {
        size_t room = flows->room ? 2 * flows->room : 256;
        struct sl_iso_touched *larger = realloc(flows->touched, room * sizeof *larger);
        if (!larger) {
            flows->failed = true;
            return;
        }
        flows->touched = larger;
        flows->room = room;
    }
    flows->touched[flows->count++] =
        (struct sl_iso_touched){number, event->instance->slot, (uint16_t)event->owner->index, (int16_t)part};
    record->touched = (uint32_t)flows->count;
}

/* Appends to the record of a flow, which has `size` bytes, what the function stores. Returns the size then; 0 if there is
 * nothing, or if it does not fit. */
static inline size_t sl_iso_record_state(const struct sl_event *event, struct sl_iso_record *record, size_t size) {
    const struct sl_iso_program *program = sl_iso_receiver.program;
    struct sl_box *box = event->box;
    struct sl_stored stored = {.at = (uint8_t *)record + size, .size = SL_STORED_MOST};
    if (!program->stored)
        return 0;
    program->stored(box, record->owner, event->instance, &stored);
    if (stored.failed) {
        box->shared->refused++;
        if (program->recovered)
            (sl_fail)(box, "state", "that of a connection is too large to be stored (SL_STORED_MOST)");
        return 0;
    }
    memset(stored.at + stored.used, 0, sl_iso_padded(stored.used) - stored.used);
    return stored.used ? size + sl_iso_padded(stored.used) : 0;
}

/* The record of a flow. 0: none of its timers is set, and nothing is stored of it; else its size in bytes. */
static inline size_t sl_iso_record_of(const struct sl_event *event, struct sl_iso_record *record) {
    const struct sl_layer_info *owner = event->owner;
    const struct sl_iso_program *program = sl_iso_receiver.program;
    struct sl_instance *instance = event->instance;
    uint32_t words = owner->half_words * (owner->oriented ? 2u : 1u), place = 0;
    bool armed = false;
    if (words + owner->fields + program->timers > SL_ISO_RECORD_WORDS) {
        sl_iso_flow_state.failed = true;
        return 0;
    }
    memset(record, 0, offsetof(struct sl_iso_record, rest));
    *record = (struct sl_iso_record){
        .number = sl_event_number(event), .deadline = instance->deadline, .slot = instance->slot,
        .owner = (uint16_t)owner->index, .words = (uint16_t)words, .fields = (uint16_t)owner->fields,
        .swapped = *((const uint8_t *)instance + owner->swapped_offset),
        .state = owner->states ? *((const uint8_t *)instance + owner->state_offset) : 0};
    memcpy(record->rest, sl_instance_key(instance), 8u * words);
    place = words;
    for (uint32_t i = 0; i < owner->fields; i++)
        record->rest[place++] = sl_field_value(instance, &owner->field[i]);
    for (uint32_t i = 0; i < program->timers; i++) {
        const struct sl_timer *timer = sl_event_timer(event, i);
        record->rest[place++] = timer ? timer->at : SL_NEVER;
        armed |= timer && timer->at != SL_NEVER;
    }
    size_t head = offsetof(struct sl_iso_record, rest) + 8u * place, size = sl_iso_record_state(event, record, head);
    return size ? size : armed ? head : 0;
}

static inline uint64_t sl_iso_digest(const struct sl_iso_record *record, size_t size) {
    uint64_t digest = size;
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)record + 8 * i, sizeof word);
        digest = sl_iso_mix(digest, word);
    }
    return digest | 1;
}

/* The end of a batch: the records of its flows are part of the commit. */
SL_COLD void sl_iso_store_flows(struct sl_store *store) {
    struct sl_iso_flow_state *flows = &sl_iso_flow_state;
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < flows->count; i++) {
        const struct sl_iso_touched *touched = &flows->touched[i];
        struct sl_event event = {.box = receiver->box, .owner = &receiver->box->layers[touched->owner]};
        struct sl_mirrors *mirrors = receiver->program->mirrors(receiver->box, touched->owner);
        struct sl_mirror_record *known = &mirrors->record[touched->slot];
        struct sl_iso_record *record = &flows->record;
        char flow[32], *text = flows->text;
        event.instance = sl_mirror_at(mirrors, touched->slot);
        bool lives = event.instance && sl_event_number(&event) == touched->number;
        size_t size = lives ? sl_iso_record_of(&event, record) : 0;
        uint64_t digest = size ? sl_iso_digest(record, size) : 0, before = known->number == touched->number ? known->digest : 0;
        if (digest != before) {
            snprintf(flow, sizeof flow, "%u.%llu", touched->owner, (unsigned long long)touched->number);
            for (size_t k = 0; k < size; k++) {
                text[2 * k] = digits[((const uint8_t *)record)[k] >> 4];
                text[2 * k + 1] = digits[((const uint8_t *)record)[k] & 15];
            }
            text[2 * size] = 0;
            store->set_timers(store, (uint32_t)touched->part, flow, text);
        }
        if (lives || known->number == touched->number) {
            known->number = touched->number;
            known->digest = digest;
        }
        known->touched = 0;
    }
    flows->count = 0;
    if (flows->failed)
        (sl_fail)(receiver->box, "state", "no memory to store that of a flow for other instances");
}

/* The copy of a flow that another process had, with its timers and its state. False for a record that makes no sense. */
static inline bool sl_iso_restore(struct sl_iso_record *record, size_t size) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_box *box = receiver->box;
    size_t head = offsetof(struct sl_iso_record, rest);
    if (size < head || record->owner >= box->layer_count)
        return false;
    const struct sl_layer_info *owner = &box->layers[record->owner];
    struct sl_mirrors *mirrors = receiver->program->mirrors(box, record->owner);
    uint32_t words = owner->half_words * (owner->oriented ? 2u : 1u);
    head += 8u * (words + owner->fields + receiver->program->timers);
    if (!mirrors || record->words != words || record->fields != owner->fields || record->swapped > 1 || size < head ||
        words + owner->fields + receiver->program->timers > SL_ISO_RECORD_WORDS)
        return false;
    if (sl_mirror_at(mirrors, record->slot)) {   /* a copy of another flow, or of this one before it moved away */
        sl_mirror_end(mirrors, box, record->slot);
        sl_iso_own()->flows--;
    }
    uint64_t memory[sizeof(struct sl_iso_message) / 8 + SL_ISO_RECORD_WORDS];
    struct sl_iso_message *message = (struct sl_iso_message *)(void *)memory;
    *message = (struct sl_iso_message){.number = record->number, .deadline = record->deadline, .slot = record->slot,
                                       .owner = record->owner, .words = record->words, .fields = record->fields,
                                       .swapped = record->swapped, .state = record->state, .mask = UINT64_MAX};
    memcpy(message + 1, record->rest, 8u * (words + owner->fields));
    bool known;
    struct sl_event event = {.box = box, .owner = owner};
    event.instance = sl_mirror_update(mirrors, box, owner, message, &known);
    if (!event.instance)
        return false;
    sl_iso_own()->flows += !known;
    struct sl_stored stored = {.at = (uint8_t *)record + head, .size = size - head, .reads = true};
    if (stored.size && receiver->program->stored)
        receiver->program->stored(box, record->owner, event.instance, &stored);
    if (stored.failed) {   /* also where this instance has no room for it: then it is that of a new flow */
        box->shared->refused++;
        if (receiver->program->recovered)
            (sl_fail)(box, "state", "that of a connection cannot be read, or there is no room for it");
        sl_mirror_end(mirrors, box, record->slot);
        event.instance = sl_mirror_update(mirrors, box, owner, message, &known);
        if (!event.instance)
            return false;
    }
    const uint64_t *at = record->rest + words + owner->fields;
    for (uint32_t i = 0; i < receiver->program->timers; i++) {
        struct sl_timer *timer = sl_event_timer(&event, i);
        if (timer && at[i] != SL_NEVER &&
            !sl_timer_set(box, timer, (struct sl_timer_entry){at[i], record->number, record->slot, record->owner, (uint16_t)i}))
            return false;
    }
    mirrors->record[record->slot].number = record->number;
    mirrors->record[record->slot].digest = sl_iso_digest(record, size);
    return true;
}

static inline int sl_iso_hex(char digit) {
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Reads the records of these parts, which are this instance's now: timers fire here from the current batch on. */
SL_COLD void sl_iso_load_flows(struct sl_store *store, const uint8_t *parts) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso_slot *slot = receiver->slot;
    char *text = store->timers(store, parts);
    bool read = text != NULL;
    if (receiver->program->fire && !receiver->timed && (slot->packets || (text && *text))) {   /* those of the box count from the first packet here */
        sl_timers_begin(receiver->box, slot->packets ? slot->frames[0].time : slot->now, receiver->program->timers);
        receiver->timed = true;
    }
    for (const char *at = text, *end; read && *at; at = end + 1) {
        struct sl_iso_record *record = &sl_iso_flow_state.record;
        size_t size = 0;
        at = strchr(at, '=');
        end = at ? strchr(at, ',') : NULL;
        if (!end) {
            read = false;
            break;
        }
        for (at++; at + 1 < end && size < sizeof *record && read; at += 2) {
            int high = sl_iso_hex(at[0]), low = sl_iso_hex(at[1]);
            read = high >= 0 && low >= 0;
            ((uint8_t *)record)[size++] = (uint8_t)((high & 15) << 4 | (low & 15));
        }
        read = read && at == end && sl_iso_restore(record, size);
    }
    if (!read)
        (sl_fail)(receiver->box, "state", "that of flows that another instance had cannot be read");
    free(text);
}

#endif
