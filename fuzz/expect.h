/* What harnesses have in common: EXPECT ends the process with the condition that does not hold. */
#ifndef FUZZ_EXPECT_H
#define FUZZ_EXPECT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size);

#endif
