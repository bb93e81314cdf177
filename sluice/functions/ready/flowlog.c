/* The extended flow log: the rows of flow_log, with the members that flow_extras.h adds. */
#include "sluice.h"

#include "flow_extras.h"

#define FLOW_EXTRAS_ROW struct flow_extras extras;
#define FLOW_EXTRAS_WORKER struct flow_extras_worker extras;
#define FLOW_EXTRAS(call) call

#include "flow_log.c"
