/* What edited connections hold is counted as memory: also of edits that take bytes out. */
#include "check.h"
#include "function/edit.h"

static struct sl_box box;

int main(void)
{
    struct sl_edit_box own = {0};
    struct sl_edits edits = {.open = calloc(1, sizeof *edits.open)};
    const uint32_t count = 20000;

    CASE("edits without output are counted");
    edits.open->own = &own;
    own.open = 1;
    for (uint32_t i = 0; i < count; i++)
        CHECK(sl_edits_replace(&edits, 0, 2 * i, 1, NULL, 0));
    CHECK(own.held >= count * sizeof(struct sl_edit));

    CASE("their memory is given back once they are acknowledged");
    sl_edit_fold(&edits.open->side[0].map, 2 * count);
    sl_edit_count(edits.open);
    CHECK(own.held < 1 << 16);
    CHECK(sl_edits_replace(&edits, 0, 2 * count, 1, "x", 1));

    CASE("nothing is held once the connection is closed");
    sl_edits_close(&box, &edits);
    CHECK(own.held == 0 && own.open == 0);
    return 0;
}
