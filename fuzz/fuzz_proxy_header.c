// Headers of the PROXY protocol. One that is accepted has its size within the bytes, is not accepted when it is cut, and what is
// written from its addresses is read as the same addresses.
#include "../sluice/service/runtime/proxy_header.c"

#include "expect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct service_ends ends, again;
    int found = service_proxy_read(data, size, &ends);

    EXPECT(found >= SERVICE_PROXY_BAD && found <= (int)size && found <= SERVICE_PROXY_MOST);
    EXPECT(found > 0 || ends.family == 0);
    if (found == 0)
        EXPECT(size < SERVICE_PROXY_MOST);
    for (size_t cut = 0; (int)cut < found; cut++)
        EXPECT(service_proxy_read(data, cut, &again) == 0);
    if (ends.family == 0)
        return 0;
    for (uint32_t version = 1; version <= 2; version++) {
        uint8_t out[SERVICE_PROXY_OWN];
        size_t written = service_proxy_write(version, &ends, out);

        EXPECT(written <= sizeof out && service_proxy_read(out, written, &again) == (int)written);
        EXPECT(memcmp(&ends, &again, sizeof ends) == 0);
    }
    return 0;
}
