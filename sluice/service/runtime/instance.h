/* The life of an instance. */
#ifndef SERVICE_INSTANCE_H
#define SERVICE_INSTANCE_H

#include "service.h"

enum service_life {
    SERVICE_ASLEEP, /* until something changes */
    SERVICE_AGAIN,  /* its turn was over; it has more to do */
    SERVICE_DEAD,   /* it has ended, or failed */
};

/* Sets the channels of each port, also for instances that were made at another worker; their number. */
uint32_t service_core_channels(struct service_core *core, const uint32_t *counts);

/* Makes an instance in memory that has room for it: all channels closed, all rules at their beginning. */
void service_instance_begin(struct service_instance *self, struct service_core *core);

/* Gives its state the first values, when its client is known. */
void service_instance_start(struct service_instance *self);

/* Takes a frame for it, if it has none, and gives it back. The worker is the one to which its memory belongs. */
void service_instance_frame(struct service_instance *self);
void service_instance_unframe(struct service_instance *self);

/* Runs it until it waits, or its time slice is over. */
enum service_life service_instance_turn(struct service_instance *self);

/* A channel's connection has failed: whether the program handles `fault`. The rules that use the channel are then
 * notified, and the connection is closed. */
bool service_instance_broken(struct service_instance *self, struct service_channel *c);

#endif
