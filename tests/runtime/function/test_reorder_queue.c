/* in_order.h: what ended is given out in the order of beginning, or out of it where too much waits. */
#include "function/reorder_queue.h"
#include "check.h"

#include <string.h>

enum { MOST = 64 };

static struct sl_turn turns[MOST + 1];   /* by number, from 1 */

/* What is given out now, as letters: a for 1. */
static const char *given(struct sl_in_order *order) {
    static char text[MOST + 1];
    size_t n = 0;
    for (struct sl_turn *turn; (turn = sl_in_order_next(order));)
        text[n++] = (char)('a' + turn->number - 1);
    text[n] = 0;
    return text;
}

static void begin(struct sl_in_order *order, const char *letters) {
    for (; *letters; letters++)
        sl_in_order_begin(order, &turns[*letters - 'a' + 1], (uint64_t)(*letters - 'a' + 1));
}

static const char *end(struct sl_in_order *order, const char *letters) {
    for (; *letters; letters++)
        CHECK(sl_in_order_end(order, &turns[*letters - 'a' + 1]));
    return given(order);
}

#define GIVES(call, letters) CHECK(strcmp(call, letters) == 0)

static void test_turns(void) {
    CASE("what ended waits for all that began earlier");
    struct sl_in_order order = {.most = 1000};
    GIVES(given(&order), "");
    begin(&order, "abcde");
    GIVES(end(&order, "c"), "");
    GIVES(end(&order, "b"), "");
    GIVES(end(&order, "a"), "abc");
    begin(&order, "f");
    GIVES(end(&order, "f"), "");
    GIVES(end(&order, "ed"), "def");
    CHECK(order.kept == 0 && order.late == 0 && order.first == NULL && order.last == NULL);
    sl_in_order_close(&order);

    CASE("what is removed is not waited for");
    order.most = 1000;
    begin(&order, "abc");
    GIVES(end(&order, "c"), "");
    sl_in_order_remove(&order, &turns[2]);
    GIVES(end(&order, "a"), "ac");
    CHECK(order.kept == 0 && order.first == NULL && order.last == NULL);
    sl_in_order_close(&order);

    CASE("beginnings out of order find their place");
    order.most = 1000;
    begin(&order, "bdac");
    GIVES(end(&order, "dbc"), "");
    GIVES(end(&order, "a"), "abcd");
    CHECK_EQUAL(order.late, 0);
    sl_in_order_close(&order);
}

static void test_bound(void) {
    CASE("beyond the bound the earliest that waits goes, and what it overtook is late");
    struct sl_in_order order = {.most = 3};
    begin(&order, "abc");
    GIVES(end(&order, "cb"), "");
    begin(&order, "d");
    GIVES(given(&order), "b");
    CHECK_EQUAL(order.kept, 3);
    begin(&order, "e");
    GIVES(given(&order), "c");
    GIVES(end(&order, "a"), "a");
    CHECK_EQUAL(order.late, 1);
    GIVES(end(&order, "de"), "de");
    CHECK_EQUAL(order.late, 1);

    CASE("when more are open than the bound, nothing waits");
    order.most = 1;
    begin(&order, "fghi");
    GIVES(end(&order, "h"), "h");
    GIVES(end(&order, "f"), "f");
    CHECK_EQUAL(order.late, 2);
    GIVES(end(&order, "ig"), "gi");
    CHECK_EQUAL(order.late, 3);
    sl_in_order_close(&order);
}

static void test_random(void) {
    CASE("any order of ends: all come, in order unless the bound bites, and no more than the bound wait");
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct choices choices = {NULL, 0, seed};
        struct sl_in_order order = {.most = seed % 2 ? 1000 : 1 + choose(&choices, MOST)};
        struct sl_turn *open[MOST];
        unsigned opened = 0, begun = 0, came = 0, late = 0;
        uint64_t last = 0;
        while (came < MOST) {
            if (begun < MOST && (!opened || choose(&choices, 2))) {
                begun++;
                open[opened++] = &turns[begun];
                sl_in_order_begin(&order, &turns[begun], begun);
            } else {
                unsigned which = choose(&choices, opened);
                CHECK(sl_in_order_end(&order, open[which]));
                open[which] = open[--opened];
            }
            for (struct sl_turn *turn; (turn = sl_in_order_next(&order)); came++) {
                late += turn->number < last;
                last = turn->number > last ? turn->number : last;
            }
            CHECK(order.kept == opened + order.waiting_count);
            CHECK(order.kept <= order.most || order.waiting_count == 0);
        }
        CHECK(order.kept == 0 && order.late == late && (seed % 2 == 0 || late == 0));
        sl_in_order_close(&order);
    }
}

int main(void) {
    test_turns();
    test_bound();
    test_random();
    return 0;
}
