/* Writes a row for each flow, as flow_log does, with more: community-id, bytes on the wire, round-trip times, retransmissions,
 * TTLs, VLANs and tunnels (flow_extras.h). */
#include "sluice.h"

#include "flow_extras.h"

#define FLOW_EXTRAS_ROW struct flow_extras extras;
#define FLOW_EXTRAS_WORKER struct flow_extras_worker extras;
#define FLOW_EXTRAS(call) call

#include "flow_log.c"
