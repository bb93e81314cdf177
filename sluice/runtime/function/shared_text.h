/* Keys of shared objects, as text: in the store, and where the final state is written.
 *
 * A key is sluice:{FUNCTION}OBJECT:KEY. The braces are a hash tag of Valkey Cluster: all keys of a function lie in one
 * slot, so that what one commit writes is on one node. A flow-scoped object has the instance of the function,
 * {FUNCTION}OBJECT@INSTANCE:KEY (CHC, 3.3.3: vertex, instance and object). Where a function has several instances, what
 * belongs to a part of the traffic has the key sluice:{FUNCTION}OBJECT#PART:KEY; sluice-owner:{FUNCTION}PART has the
 * instance, so that a part with all its flows moves by one update. */
#ifndef SL_SHARED_TEXT_H
#define SL_SHARED_TEXT_H

#include "function/endpoints.h"
#include "function/shared_objects.h"

#include <inttypes.h>
#include <stdarg.h>

/* Text of bounded length; what does not fit is missing. */
struct sl_text { char at[SL_SHARED_TEXT]; uint32_t length; };

__attribute__((format(printf, 2, 3))) static inline void sl_text_add(struct sl_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text->at + text->length, sizeof text->at - text->length, format, arguments);
    va_end(arguments);
    text->length = (uint32_t)sl_min(text->length + (uint32_t)sl_max(n, 0), sizeof text->at - 1);
}

/* A value of so many bits: 32 as IPv4, 128 as IPv6 address, another number in decimal, a longer one in hexadecimal. */
static inline void sl_text_value(struct sl_text *text, uint32_t bits, const uint64_t *words, bool address) {
    char at[INET6_ADDRSTRLEN];
    if (bits == 32 && address) {
        uint32_t network = htonl((uint32_t)words[0]);
        sl_text_add(text, "%s", inet_ntop(AF_INET, &network, at, sizeof at));
    } else if (bits == 128) {
        uint64_t network[2] = {htobe64(words[0]), htobe64(words[1])};
        sl_text_add(text, "%s", inet_ntop(AF_INET6, network, at, sizeof at));
    } else if (bits <= 64) {
        sl_text_add(text, "%" PRIu64, words[0]);
    } else {
        for (uint32_t i = 0; i < (bits + 63) / 64; i++)
            sl_text_add(text, "%016" PRIx64, words[i]);
    }
}

/* One half of a flow's key: the values of its parts, with dots in IPv4, and colons between them. */
static inline void sl_text_half(struct sl_text *text, const struct sl_layer_info *layer, const uint64_t *half) {
    for (uint32_t i = 0; i < layer->key_parts; i++) {
        const struct sl_key_part *part = &layer->key_part[i];
        uint64_t number = part->bits <= 64 ? sl_part_number(part, half) : 0;
        sl_text_add(text, "%s", i ? "," : "");
        sl_text_value(text, part->bits, part->bits <= 64 ? &number : half + part->word, true);
    }
}

/* Copies the key of the flow that an object is of. */
static inline void sl_object_of_flow(struct sl_object *object, const struct sl_event *event) {
    const struct sl_layer_info *layer = object->layer = event->owner;
    uint64_t *flow = sl_object_flow(object);
    uint32_t half = (uint32_t)sl_min(layer->half_words, SL_SHARED_FLOW_WORDS / 2);
    memcpy(flow, sl_event_half(event, 0), 8 * half);
    if (layer->oriented)
        memcpy(flow + half, sl_event_half(event, 1), 8 * half);
}

/* The part of a layer's key that a field of a scope means. *side is the side whose half has it: `side` for src and
 * sport, the other one for dst and dport. NULL: there is none. */
static inline const struct sl_key_part *sl_shared_part(const struct sl_layer_info *layer, const char *field, unsigned *side) {
    const struct sl_key_part *part = sl_key_part_named(layer, field);
    if (!part && layer->oriented && field[0] == 'd') {
        *side ^= 1;
        part = strcmp(field, "dst") == 0     ? sl_key_part_named(layer, "src")
               : strcmp(field, "dport") == 0 ? sl_key_part_named(layer, "sport")
                                             : NULL;
    }
    return part;
}

/* The key of the object that the header fields of an event's instance mean: for each field its bits, a byte each in the
 * first word, and two words. False if the layer has no such field, or a longer one. */
static inline bool sl_shared_fields(const struct sl_event *event, const struct sl_shared *shared, unsigned side,
                                    uint64_t *key) {
    for (unsigned i = 0; i < SL_SHARED_FIELDS && shared->info->field[i]; i++) {
        unsigned of = side;
        const struct sl_key_part *part = sl_shared_part(event->owner, shared->info->field[i], &of);
        if (!part || part->bits > 128)
            return false;
        const uint64_t *half = sl_event_half(event, of & 1);
        key[0] |= (uint64_t)part->bits << 8 * i;
        if (part->bits <= 64)
            key[1 + 2 * i] = sl_part_number(part, half);
        else
            memcpy(&key[1 + 2 * i], half + part->word, 16);
    }
    return true;
}

/* The text of an object's key within its declaration. A number that stands for an address is one of 32 bits. */
static inline void sl_text_key(struct sl_text *text, struct sl_object *object) {
    const struct sl_shared_info *info = object->of->info;
    const uint64_t *key = sl_object_key(object);
    if (info->scope == SL_SCOPE_FLOW && object->layer) {
        const uint64_t *flow = sl_object_flow(object);
        uint32_t half = (uint32_t)sl_min(object->layer->half_words, SL_SHARED_FLOW_WORDS / 2);
        sl_text_add(text, "%s ", object->layer->prototype);
        sl_text_half(text, object->layer, flow);
        if (object->layer->oriented) {
            sl_text_add(text, " ");
            sl_text_half(text, object->layer, flow + half);
        }
    } else if (info->scope == SL_SCOPE_FIELDS) {
        for (unsigned i = 0; i < SL_SHARED_FIELDS && info->field[i]; i++) {
            bool address = strcmp(info->field[i], "src") == 0 || strcmp(info->field[i], "dst") == 0;
            uint32_t bits = key[0] >> 8 * i & 255;
            sl_text_add(text, "%s", i ? "," : "");
            sl_text_value(text, bits ? bits : address ? 32 : 64, key + 1 + 2 * i, address);
        }
    }
}

/* Makes the key of an object in the store. False without memory. */
SL_COLD bool sl_object_name(struct sl_object *object) {
    const struct sl_shared_info *info = object->of->info;
    struct sl_text text = {.length = 0};
    if (object->cached)
        sl_text_add(&text, "sluice:{%s}%s#%d:", info->function, info->name, (int)object->part);
    else if (info->scope == SL_SCOPE_FLOW)
        sl_text_add(&text, "sluice:{%s}%s@%s:", info->function, info->name, object->of->state->store->instance);
    else
        sl_text_add(&text, "sluice:{%s}%s:", info->function, info->name);
    sl_text_key(&text, object);
    object->key = malloc(text.length + 1);
    object->key_length = text.length;
    if (object->key)
        memcpy(object->key, text.at, text.length + 1);
    return object->key != NULL;
}

#endif
