/* The life of an instance. */
#ifndef SERVICE_INSTANCE_H
#define SERVICE_INSTANCE_H

#include "service.h"

enum service_life {
    SERVICE_ASLEEP, /* until something changes */
    SERVICE_AGAIN,  /* its turn was over; it has more to do */
    SERVICE_DEAD,   /* it has ended, or failed */
};

/* Makes an instance in memory that has room for it: all channels closed, all rules at their beginning. */
void service_instance_begin(struct service_instance *self, struct service_core *core);

/* Runs it for at most `steps` steps of its rules. */
enum service_life service_instance_turn(struct service_instance *self, unsigned steps);

/* Closes all its connections. */
void service_instance_close(struct service_instance *self);

#endif
