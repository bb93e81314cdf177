#ifndef SERVICE_METRICS_H
#define SERVICE_METRICS_H

#include "worker.h"

/* The meaning of each counter. */
extern const char *const service_counter_texts[];

/* The sum of a counter of a service over all workers. */
uint64_t service_counted(const struct service_team *team, uint32_t service, int counter);

/* Listens for requests of metrics. The descriptor, or -1 with `errno`; the address is then that which the kernel chose.
 * `given`: a listening socket that is used then; -1 for none. */
int service_metrics_listen(struct service_address *address, int given);

/* Answers requests with all counters, in the text format of Prometheus, until `stop` can be read. `listener`: -1 for none. */
void service_metrics_serve(const struct service_team *team, int listener, int stop);

#endif
