/* Fuzzes the sequence against the naive one of tests/runtime/stream/sequence_model.h. From this folder:
 *     clang -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined fuzz_sequence.c -o fuzz_sequence
 *     ./fuzz_sequence -max_len=4096 -max_total_time=60
 * A crash is a failed check of the model or a finding of the sanitizers; both print where. */
#include "../tests/runtime/stream/sequence_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size == 0)
        return 0;
    struct choices choices = {.at = bytes, .left = size, .seed = size};
    sequence_drive(&choices);
    return 0;
}
