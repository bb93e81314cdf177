/* What the fuzzers of imported state do with the program. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void program_process(unsigned packet);
/* Of all that its variables lead to. */
uint64_t program_sum(void);
/* An object that a variable points to. */
const void *program_object(void);
#define PROGRAM_BYTES 256
size_t program_bytes(uint8_t *to);
