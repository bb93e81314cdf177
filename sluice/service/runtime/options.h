#ifndef SERVICE_OPTIONS_H
#define SERVICE_OPTIONS_H

#include "worker.h"

/* Those of all services. */
struct service_options {
    uint32_t workers, slice; /* nanoseconds */
    const struct service_poll_kind *poll;
    bool by_item; /* see worker.h */
    uint32_t drain; /* seconds in which connections may end after another process has taken over */
    int metrics_listener; /* a socket that was given to this process; -1: it makes its own */
    struct service_address metrics; /* where counters are read; its length is 0 without */
};

/* Reads the options; those of each service into its place. An error's text, or null. */
const char *service_read_options(int count, char **arguments, struct service_config *configs, unsigned services,
                                 struct service_options *options);

#endif
