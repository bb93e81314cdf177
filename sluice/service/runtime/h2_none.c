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
