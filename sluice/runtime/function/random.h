/* Random numbers that several processes agree on, and that a replay repeats: no log has them, as they are calculated from
 * what the packet log has.
 *
 * A number is SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) of the packet's number and
 * time (without a packet, of the time of the box), the connection, the function, and how many numbers the function had
 * for the connection at this packet, with a key from the seed of the box. So it does not depend on which instance of a
 * function handles the packet, nor on what other connections do meanwhile. Senders cannot predict it without the seed. */
#ifndef SL_FUNCTION_RANDOM_H
#define SL_FUNCTION_RANDOM_H

#include "core/box.h"
#include "core/siphash.h"

/* How many numbers a function had so far for the connection of an event, at what happens now. The counts are exact unless
 * events of more than SL_RANDOM_FLOWS pairs of connection and function alternate at one packet: that of the oldest pair
 * begins at 0 again. */
static inline uint64_t sl_random_count(const struct sl_event *event, uint64_t function, uint64_t packet, uint64_t time,
                                       bool ending) {
    struct sl_random *random = &event->box->random;
    uint64_t flow = sl_event_number(event);
    if (random->packet != packet || random->time != time || random->ending != ending) {
        random->packet = packet;
        random->time = time;
        random->ending = ending;
        random->flows = 0;
    }
    for (uint32_t i = 0; i < sl_min(random->flows, SL_RANDOM_FLOWS); i++)
        if (random->flow[i].number == flow && random->flow[i].function == function)
            return random->flow[i].count++;
    uint32_t place = random->flows++ % SL_RANDOM_FLOWS;
    random->flow[place].number = flow;
    random->flow[place].function = function;
    random->flow[place].count = 1;
    return 0;
}

/* A random number of 64 bits, another one at each call. It is the same when the packet is handled again after a failure,
 * and in each process of a chain. `function`: its name, which the macro sl_random(event) gives. */
SL_COLD uint64_t sl_random_by(const struct sl_event *event, const char *function) {
    const struct sl_box *box = event->box;
    uint64_t seed = box->seed ^ UINT64_C(0x72616e646f6d), name = UINT64_C(0xcbf29ce484222325);
    uint64_t key[2];
    key[0] = sl_splitmix(&seed);
    key[1] = sl_splitmix(&seed);
    for (; *function; function++)   /* FNV-1a */
        name = (name ^ (uint8_t)*function) * UINT64_C(0x100000001b3);
    /* Without a packet, the number of the last one is not the same in all processes; timers that fire at one time, and
     * the end of input after them, are batches of their own, which may be handled by different processes. */
    uint64_t packet = box->frame ? box->number : 0, time = box->frame ? box->time : box->now;
    bool ending = !box->frame && box->finish.again;
    uint64_t count = sl_random_count(event, name, packet, time, ending);
    const uint64_t words[] = {packet, time, sl_event_number(event), name, count << 1 | ending};
    return sl_siphash((const uint8_t *)key, (const uint8_t *)words, sizeof words);
}

#endif
