/* Random numbers of functions: what they depend on. */
#include "check.h"
#include "function/random.h"

static struct sl_layer_info layer = {.index = 0};

/* A box at a packet, or after it. */
static struct sl_box *box_at(uint64_t number, uint64_t time, bool in_packet, bool ending) {
    static struct sl_box boxes[8];
    static const struct sl_frame frame;
    static unsigned next;
    struct sl_box *box = &boxes[next++ % 8];
    *box = (struct sl_box){.seed = 5, .number = number, .time = time, .now = time, .frame = in_packet ? &frame : NULL};
    box->finish.again = ending;
    return box;
}

/* A number for a packet without a connection. */
static uint64_t draw(struct sl_box *box, const char *function) {
    const struct sl_event event = {.box = box, .layer = &layer, .owner = &layer};
    return sl_random_by(&event, function);
}

int main(void)
{
    CASE("numbers of a packet differ, and are the same in another box");
    struct sl_box *one = box_at(7, 100, true, false), *other = box_at(7, 100, true, false);
    uint64_t first = draw(one, "f"), second = draw(one, "f");
    CHECK(first != second && draw(other, "f") == first && draw(other, "f") == second);

    CASE("another function's numbers are others, and do not change what a function gets");
    other = box_at(7, 100, true, false);
    CHECK(draw(other, "g") != first && draw(other, "f") == first && draw(other, "g") != second);
    CHECK(draw(other, "f") == second);

    CASE("they depend on the seed, the packet's number, and its time");
    other = box_at(7, 100, true, false);
    other->seed = 6;
    CHECK(draw(other, "f") != first);
    CHECK(draw(box_at(8, 100, true, false), "f") != first && draw(box_at(7, 101, true, false), "f") != first);

    CASE("the next packet begins to count anew, whether or not the box had a number for the one before");
    one->number = 8;
    other = box_at(8, 100, true, false);
    CHECK(draw(one, "f") == draw(other, "f"));

    CASE("a timer before a packet, and the end of input, do not depend on the number of the last packet");
    CHECK(draw(box_at(7, 100, false, false), "f") == draw(box_at(6, 100, false, false), "f"));
    CHECK(draw(box_at(7, 100, false, true), "f") == draw(box_at(6, 100, false, true), "f"));

    CASE("nor does the end of input depend on whether a timer fired in the same process");
    one = box_at(7, 100, false, false);
    draw(one, "f");
    one->finish.again = true;
    CHECK(draw(one, "f") == draw(box_at(7, 100, false, true), "f"));
    CHECK(draw(box_at(7, 100, false, true), "f") != draw(box_at(7, 100, false, false), "f"));

    CASE("of more than are counted, the oldest begins to count anew, and no other");
    one = box_at(9, 100, true, false);
    first = draw(one, "f");
    for (char name[2] = {1}; name[0] < SL_RANDOM_FLOWS; name[0]++)
        draw(one, name);
    second = draw(one, "f");
    CHECK(second != first);
    draw(one, "g");
    CHECK(draw(one, "\2") != draw(box_at(9, 100, true, false), "\2"));
    CHECK(draw(one, "f") == first);
    return 0;
}
