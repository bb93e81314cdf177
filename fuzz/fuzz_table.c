/* Fuzzes the table against the naive one of tests/runtime/core/table_model.h. From this folder:
 *     clang -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined fuzz_table.c -o fuzz_table
 *     ./fuzz_table -max_len=4096 -max_total_time=60 */
#include "../tests/runtime/core/table_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size == 0)
        return 0;
    struct choices choices = {.at = bytes, .left = size, .seed = size};
    unsigned keys = 1 + choose(&choices, 1000);
    /* Few hashes: chains are where the index has its boundaries. */
    table_drive(&choices, size, keys, 1 + choose(&choices, keys), choose(&choices, 20));
    return 0;
}
