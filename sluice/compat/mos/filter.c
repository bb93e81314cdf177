/* Filters that programs bind to sockets, in pcap's syntax. */
#include "monitor.h"

struct sl_filter *mos_filter_new(const char *expression)
{
    char why[SL_SOURCE_MESSAGE];
    struct sl_filter *filter = sl_filter_open(expression, 0, why, sizeof why);
    if (!filter)
        fprintf(stderr, "libsluice_mos: %s\n", why);
    return filter;
}

bool mos_filter_accepts(struct sl_filter *filter, const struct sl_frame *frame)
{
    return !filter || sl_filter_accepts(filter, frame);
}

void mos_filter_free(struct sl_filter *filter) { sl_filter_close(filter); }
