/* What the C tests need of a test framework. A failed check says where and aborts: the sanitizers and the
 * fuzzer then show the way there. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *check_context = "";   /* which seed, which row of a table */

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, check_context, #condition); \
            abort();                                                                                  \
        }                                                                                             \
    } while (0)

/* Two unsigned numbers are equal. */
#define CHECK_EQUAL(is, should_be)                                                                          \
    do {                                                                                                    \
        uint64_t is_ = (uint64_t)(is), should_be_ = (uint64_t)(should_be);                                  \
        if (is_ != should_be_) {                                                                            \
            fprintf(stderr, "%s:%d: %s: %s is %" PRIu64 ", not %" PRIu64 "\n", __FILE__, __LINE__,          \
                    check_context, #is, is_, should_be_);                                                   \
            abort();                                                                                        \
        }                                                                                                   \
    } while (0)

/* Names the case that begins. */
#define CASE(name) (check_context = (name), (void)puts(name))

/* Where a randomized test takes its choices from: a fuzzer's bytes, or (at == NULL) a seed. */
struct choices {
    const uint8_t *at;
    size_t left;
    uint64_t seed;
};

static inline uint64_t choose_word(struct choices *choices) {
    uint64_t z = (choices->seed += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A number below n, which is 1 to 65536; 0 for ever when a fuzzer's bytes are used up. */
static inline unsigned choose(struct choices *choices, unsigned n) {
    if (!choices->at)
        return (unsigned)(choose_word(choices) % n);
    unsigned value = 0;
    for (unsigned bytes = n > 256 ? 2 : 1; bytes && choices->left; bytes--, choices->left--)
        value = value << 8 | *choices->at++;
    return value % n;
}

#endif
