#ifndef SERVICE_HEALTH_H
#define SERVICE_HEALTH_H

#include "worker.h"

/* Health checks of backends, by a separate thread. */
struct service_health {
    pthread_t thread;
    struct service_probe *probes; /* one for each backend that is checked */
    uint32_t count;
    int wake; /* a descriptor that ends the thread; -1: nothing is checked */
};

/* Starts to check the backends of services whose interval is not 0. An error's text, or null. */
const char *service_health_start(struct service_health *health, struct service_config *configs, uint32_t services);

void service_health_stop(struct service_health *health);

#endif
