/* Without nghttp2. */
#include "h2.h"

const char *service_h2_memory(uint64_t bytes)
{
    (void)bytes;
    return NULL;
}

const char *service_h2_missing(void) { return "HTTP/2: this program was compiled without nghttp2"; }

bool service_h2_begin(struct service_instance *self)
{
    (void)self;
    return false;
}

enum service_life service_h2_turn(struct service_instance *self)
{
    (void)self;
    return SERVICE_DEAD;
}

void service_h2_end(struct service_instance *self) { (void)self; }
bool service_h2_reset_slow(struct service_instance *self) { return (void)self, false; }
void service_h2_event(void *stream, uint32_t events) { (void)stream, (void)events; }
int service_h2_pair(struct service_channel *c) { return (void)c, -1; }
void service_h2_pair_event(void *stream, uint32_t events) { (void)stream, (void)events; }
bool service_h2_silent(struct service_instance *self) { return (void)self, false; }
void service_h2_close_pairs(struct service_lane *lane) { (void)lane; }
struct service_probe_h2 *service_probe_h2_begin(void) { return NULL; }

uint32_t service_probe_h2_ask(struct service_probe_h2 *probe, const char *host, const char *path, bool secure, char *to,
                              uint32_t room)
{
    return (void)probe, (void)host, (void)path, (void)secure, (void)to, (void)room, 0;
}

int service_probe_h2_take(struct service_probe_h2 *probe, const char *bytes, size_t size)
{
    return (void)probe, (void)bytes, (void)size, -1;
}

void service_probe_h2_end(struct service_probe_h2 *probe) { (void)probe; }
