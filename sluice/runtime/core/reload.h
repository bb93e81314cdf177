/* A running box gets a new version of functions: what the new version begins with, made before the old one is given up.
 *
 * The box and its instances stay where they are, so every pointer to them stays valid. What a version declares is in
 * objects that the box points to. State in instances whose type is the same stays there; of another type, it is next to
 * them, in an array by slot, and the bytes of the old state remain unused. */
#ifndef SL_RELOAD_H
#define SL_RELOAD_H

#include "core/box.h"

/* The objects of all functions: those that are kept are those of the box. */
struct sl_adoption {
    void **workers, **parameters, **function_counters, **texts, **beside;
};

static inline void **sl_adoption_copy(void **from, size_t count) {
    void **made = calloc(count + 1, sizeof *made);
    if (made && from)
        memcpy(made, from, count * sizeof *made);
    return made;
}

/* Begins with the objects of the box. False without memory. */
SL_COLD bool sl_adoption_begin(struct sl_adoption *made, const struct sl_box *box) {
    uint32_t count = box->function_count;
    *made = (struct sl_adoption){
        sl_adoption_copy(box->workers, count), sl_adoption_copy(box->parameters, count),
        sl_adoption_copy(box->function_counters, count), sl_adoption_copy((void **)(void *)box->texts, count),
        sl_adoption_copy(box->beside, count)};
    return made->workers && made->parameters && made->function_counters && made->texts && made->beside;
}

static inline void sl_adoption_swap_one(void ***one, void ***other) {
    void **first = *one;
    *one = *other;
    *other = first;
}

/* Exchanges these objects and those of the box. */
SL_COLD void sl_adoption_swap(struct sl_adoption *made, struct sl_box *box) {
    void **texts = (void **)(void *)box->texts;
    sl_adoption_swap_one(&made->workers, &box->workers);
    sl_adoption_swap_one(&made->parameters, &box->parameters);
    sl_adoption_swap_one(&made->function_counters, &box->function_counters);
    sl_adoption_swap_one(&made->beside, &box->beside);
    sl_adoption_swap_one(&made->texts, &texts);
    box->texts = (char **)(void *)texts;
}

static inline void sl_adoption_free(void **of, void **kept, uint32_t count) {
    for (uint32_t i = 0; of && i < count; i++)
        if (!kept || of[i] != kept[i])
            free(of[i]);
    free(of);
}

/* Frees the objects that the box has not. */
SL_COLD void sl_adoption_discard(struct sl_adoption *made, const struct sl_box *box) {
    uint32_t count = box->function_count;
    sl_adoption_free(made->workers, box->workers, count);
    sl_adoption_free(made->parameters, box->parameters, count);
    sl_adoption_free(made->function_counters, box->function_counters, count);
    sl_adoption_free(made->texts, (void **)(void *)box->texts, count);
    sl_adoption_free(made->beside, box->beside, count);
    *made = (struct sl_adoption){0};
}

#endif
