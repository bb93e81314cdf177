/* What generated code asks the box (box.h) that needs no stack. */
#include "function/sluice.h"
#include "check.h"

static void test_key_pair(void) {
    CASE("halves of a key are put in order by their first word that differs");
    enum { MOST = 3 };
    struct choices choices = {.seed = 5};
    unsigned swapped = 0, same = 0;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t one[MOST], other[MOST], key[2 * MOST];
        for (unsigned w = 0; w < MOST; w++) {
            one[w] = choose(&choices, 3) ? choose(&choices, 2) : UINT64_MAX;
            other[w] = choose(&choices, 3) ? choose(&choices, 2) : UINT64_MAX;
        }
        for (unsigned words = 1; words <= MOST; words++) {
            unsigned at = 0;
            while (at < words && one[at] == other[at])
                at++;
            bool higher = at < words && one[at] > other[at];
            CHECK(sl_key_pair(key, one, other, words) == higher);
            CHECK(memcmp(key, higher ? other : one, 8 * words) == 0);
            CHECK(memcmp(key + words, higher ? one : other, 8 * words) == 0);
            swapped += higher;
            same += at == words;
        }
    }
    CHECK(swapped > 1000 && same > 1000);
}

int main(void) {
    test_key_pair();
    return 0;
}
