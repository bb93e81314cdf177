/* Writes a row for each flow, as flow_log does, with more: community-id, bytes on the wire, round-trip times, retransmissions,
 * TTLs, VLANs and tunnels (flow_extras.h), and where `dpi` is in the box, what the flow carries. */
#include "sluice.h"

#include "dpi_event.h"
#include "flow_extras.h"

SLUICE_EXPECT(dpi_application, DPI_APPLICATION)

#define FLOW_EXTRAS_ROW struct flow_extras extras;
#define FLOW_EXTRAS_WORKER struct flow_extras_worker extras;
#define FLOW_EXTRAS(call) call

#include "flow_log.c"

/* dpi precedes flowlog in the box, or has decided before the flow ends: else its row is complete already. */
SLUICE_ON(chain, dpi_application) {
    struct flow_log *log = SLUICE_WORKER_OF(event->box);
    struct row *row = event->instance ? SLUICE_STATE_OF(event)->row : NULL;
    bool placed = row && flow_extras_application(&log->extras, &row->extras, data->application, data->category, data->guessed,
                                                 data->hostname, data->risk_names);
    log->extras.applications_left_out += !placed;
}
