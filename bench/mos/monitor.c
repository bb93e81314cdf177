/* What examples/mos/midstat.c does, written for Sluice: connections with their states, their starts and ends. */
#include "sluice.h"

struct connection { uint64_t state; };
struct monitor { uint64_t live, started, changed, ended, by_state[32]; };
SLUICE_STATE(struct connection)
SLUICE_WORKER(struct monitor)

SLUICE_ON(tcp, created) {
    struct monitor *monitor = SLUICE_WORKER_OF(event->box);
    monitor->started++;
    monitor->live++;
    monitor->by_state[0]++;
}

SLUICE_ON(tcp, state) {
    struct monitor *monitor = SLUICE_WORKER_OF(event->box);
    struct connection *connection = SLUICE_STATE_OF(event);
    monitor->changed++;
    monitor->by_state[connection->state % 32]--;
    connection->state = data->after;
    monitor->by_state[connection->state % 32]++;
}

SLUICE_ON(tcp, end) {
    struct monitor *monitor = SLUICE_WORKER_OF(event->box);
    monitor->ended++;
    monitor->live--;
    monitor->by_state[SLUICE_STATE_OF(event)->state % 32]--;
}

SLUICE_CLOSE {
    sl_report(box, "started", SLUICE_WORKER_OF(box)->started);
    sl_report(box, "ended", SLUICE_WORKER_OF(box)->ended);
    sl_report(box, "changed", SLUICE_WORKER_OF(box)->changed);
}
