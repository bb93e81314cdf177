#include "ring.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker.h"

enum {
    PLAIN_POINTS = 100,
    WEIGHTED_POINTS = 160,
    WORDS = 4,            /* points of a MD5 */
    DEFAULT_PORT = 11211, /* which is left out */
};

static int compare(const void *a, const void *b)
{
    const struct service_point *one = a, *other = b;

    if (one->value != other->value)
        return one->value < other->value ? -1 : 1;
    return (one->index > other->index) - (one->index < other->index);
}

/* Writes the points of a backend; how many. */
static uint32_t add_points(struct service_point *points, const struct service_address *address, uint32_t index,
                           enum service_ring_kind kind)
{
    uint32_t count = kind == SERVICE_KETAMA ? PLAIN_POINTS : WEIGHTED_POINTS, step = kind == SERVICE_KETAMA ? 1 : WORDS;
    char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "0", name[NI_MAXHOST + NI_MAXSERV + 16];

    if (address->length)
        getnameinfo((const struct sockaddr *)&address->storage, address->length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    for (uint32_t i = 0; i < count; i += step) {
        int size = atoi(port) == DEFAULT_PORT ? snprintf(name, sizeof name, "%s-%u", host, i / step)
                                              : snprintf(name, sizeof name, "%s:%s-%u", host, port, i / step);
        uint32_t words[WORDS];

        if (kind == SERVICE_KETAMA)
            words[0] = service_one_at_a_time((const uint8_t *)name, (uint32_t)size);
        else
            service_md5((const uint8_t *)name, (uint64_t)size, words);
        for (uint32_t k = 0; k < step; k++)
            points[i + k] = (struct service_point){words[k], index};
    }
    return count;
}

static struct service_ring *make(const struct service_config *config, uint32_t port, enum service_ring_kind kind)
{
    uint64_t most = (uint64_t)config->counts[port] * WEIGHTED_POINTS;
    struct service_ring *ring = malloc(sizeof *ring + most * sizeof ring->points[0]);

    if (!ring)
        return NULL;
    ring->count = 0;
    for (uint32_t i = 0; i < config->counts[port]; i++)
        ring->count += add_points(ring->points + ring->count, &config->backends[port][i], i, kind);
    qsort(ring->points, ring->count, sizeof ring->points[0], compare);
    return ring;
}

bool service_rings_make(struct service_config *config)
{
    for (uint32_t kind = 0; kind < SERVICE_RINGS; kind++)
        for (uint32_t port = 0; port < config->program->port_count; port++) {
            if (!(config->program->rings[kind] >> port & 1) || config->counts[port] == 0)
                continue;
            config->rings[kind * SERVICE_PORTS + port] = make(config, port, kind);
            if (!config->rings[kind * SERVICE_PORTS + port])
                return false;
        }
    return true;
}

void service_rings_free(struct service_config *config)
{
    for (uint32_t i = 0; i < SERVICE_RINGS * SERVICE_PORTS; i++)
        free(config->rings[i]);
}
