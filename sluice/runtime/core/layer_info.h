/* What is known about a layer at compile time, and the numbers of reasons. Generated code defines the tables. */
#ifndef SL_LAYER_INFO_H
#define SL_LAYER_INFO_H

#include "core/bytes.h"
#include "stream/sequence.h"

/* Why an instance ended, why bytes are not forwarded to the next layer, and why they were given up: the numbers of
 * END_REASONS, DROP_REASONS and GAP_CAUSES in the language. */
enum sl_end_reason { SL_END_ACCEPT, SL_END_TIMEOUT, SL_END_REUSED, SL_END_EVICTED, SL_END_EOF, SL_END_LIMIT };
enum sl_drop_reason { SL_DROP_TOO_DEEP, SL_DROP_NESTED_IN_ITSELF, SL_DROP_NO_INSTANCE, SL_DROP_RECORDS };
enum sl_gap_cause {
    SL_GAP_LIMIT, SL_GAP_TIMEOUT, SL_GAP_CLOSE, SL_GAP_SNAPLEN, SL_GAP_SKIPPED, SL_GAP_ACKNOWLEDGED, SL_GAP_MEMORY
};

/* --- what is known about a layer at compile time --- */

struct sl_key_part {
    const char *name;
    uint32_t bits;   /* of a number; if more than 64, it is a value of bits / 8 bytes */
    uint32_t word;   /* the word of its half of the key in which it begins */
    uint32_t shift;  /* position in that word of the lowest bit of a number */
};

struct sl_field_info {
    const char *name;    /* as in the description, without `perm.` */
    uint32_t offset;     /* in the instance */
    uint8_t bytes;       /* 1, 2, 4 or 8; 0: a bit field in one byte */
    uint8_t bit, bits;   /* its lowest bit, and its number of bits */
};

/* The lowest bit of a bit field of so many bits that follows `before` bits of other fields in its byte. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SL_BIT(before, bits) (before)
#else
#define SL_BIT(before, bits) (8 - (before) - (bits))
#endif

struct sl_state_info {
    const char *name;
    bool accept, closed;
};

struct sl_layer_info {
    const char *name;        /* unique in the program */
    const char *layer;       /* its name in the stack */
    const char *prototype;   /* the name of its parser */
    uint32_t index;
    const char *const *malformed;   /* the reasons for malformed packets, by number; NULL if they are not reported */
    bool has_sequence;       /* its instances deliver streams */
    bool oriented;           /* the key has two halves, the lower one first */
    uint32_t half_words;     /* words of one half */
    uint32_t key_parts, fields, states;
    const struct sl_key_part *key_part;
    const struct sl_field_info *field;
    const struct sl_state_info *state;
    uint32_t number_offset;  /* of the uint64_t number of an instance */
    uint32_t swapped_offset; /* of the uint8_t that is 1 when the higher half is the active side's */
    uint32_t state_offset;   /* of the uint8_t state, when it has states */
    const uint32_t *function_state; /* offset of each function's state in the instance, 0: none */
    uint32_t watch_offset;   /* of the struct sl_watch, 0: no handler may be registered for one instance */
    const uint32_t *timer;   /* offset of each timer in the instance, 0: none */
    const struct sl_sequence_rules *rules;   /* of its streams of bytes; NULL: it has none */
    uint32_t sides, sequence_offset;         /* number of them, and offset of the first struct sl_sequence */
    uint32_t control_offset; /* of the struct sl_control, 0: no function controls single instances */
};

#endif
