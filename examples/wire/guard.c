/* Stops connections in which a side says "secret": no byte of the word's last segment arrives.
 *
 * Every segment with payload is held until its bytes were searched. Segments in order are searched at once, so they are not
 * delayed; one that arrives before its predecessor waits for it. */
#include "sluice.h"

SLUICE_INLINE
SLUICE_COUNTER(stopped, "connections that were stopped")

struct flow {
    bool stopped;
    uint8_t matched[2];   /* by side: how many bytes of the word the stream ends with */
};
SLUICE_STATE(struct flow)

static const char word[] = "secret";

/* Whether the word ends in these bytes. Its first letter does not occur in it again, so a mismatch leaves at most one. */
static bool search(uint8_t *matched, sl_bytes bytes)
{
    for (uint32_t i = 0; i < bytes.captured; i++) {
        *matched = bytes.at[i] == (uint8_t)word[*matched] ? (uint8_t)(*matched + 1) : bytes.at[i] == (uint8_t)word[0];
        if (*matched == sizeof word - 1)
            return true;
    }
    return false;
}

SLUICE_ON(tcp, packet)
{
    if (SLUICE_STATE_OF(event)->stopped)
        SLUICE_DROP(event->box);
    else if (event->unit.length > (uint32_t)(event->unit.at[12] >> 4) * 4)
        SLUICE_HOLD(event);
}

SLUICE_ON(tcp, data)
{
    struct flow *flow = SLUICE_STATE_OF(event);
    if (flow->stopped || !search(&flow->matched[event->side], data->bytes)) {
        SLUICE_RELEASE(event);
        return;
    }
    flow->stopped = true;
    SLUICE_COUNTER_OF(event->box, stopped)++;
    SLUICE_DISCARD(event);
    SLUICE_RESET(event->box);
}
