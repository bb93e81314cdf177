/* Sluice's function `search`: looks for the expressions of a file, its option, in both directions of every TCP stream.
 *
 *     export SLUICE_CFLAGS="-I bench -Wl,--no-as-needed -lhs"
 *     sluice bench tcp_ip -r TRACE -f bench/search.c:bench/patterns.txt */
#include "sluice.h"

#include "patterns.h"

struct streams {
    struct pattern_stream side[2];
};
SLUICE_STATE(struct streams)

struct totals {
    uint64_t calls, bytes;
};
SLUICE_WORKER(struct totals)

SLUICE_OPEN {
    (void)box;
    const char *wrong = patterns_open(options);
    if (wrong)
        fprintf(stderr, "search: %s\n", wrong);
    return wrong ? -1 : 0;
}

SLUICE_ON(tcp, data) {
    struct totals *totals = SLUICE_WORKER_OF(event->box);
    totals->calls++;
    totals->bytes += data->bytes.captured;
    patterns_search(&SLUICE_STATE_OF(event)->side[event->side], data->bytes.at, data->bytes.captured);
}

SLUICE_ON(tcp, end) {
    (void)data;
    patterns_end(&SLUICE_STATE_OF(event)->side[0]);
    patterns_end(&SLUICE_STATE_OF(event)->side[1]);
}

SLUICE_CLOSE {
    sl_report(box, "deliveries", SLUICE_WORKER_OF(box)->calls);
    sl_report(box, "delivered_bytes", SLUICE_WORKER_OF(box)->bytes);
    sl_report(box, "matches", patterns_matches());
    patterns_close();
}
