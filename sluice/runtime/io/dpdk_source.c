/* Finds the back end for DPDK (dpdk/source.c), which is in a shared object of its own, as it needs DPDK's headers and
 * libraries. It is loaded when the first source is opened, and stays: DPDK is initialised once in a process. */
#include "io/source.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int sl_dpdk_source_open(struct sl_source **out, const char *device, const struct sl_source_options *options, char *message,
                        size_t message_size)
{
    int (*open_source)(struct sl_source **, const char *, const struct sl_source_options *, char *, size_t);
    void *library = dlopen(options->dpdk_library ? options->dpdk_library : SL_DPDK_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "sl_dpdk_open") : NULL;
    memcpy(&open_source, &found, sizeof found);
    *out = NULL;
    if (open_source)
        return open_source(out, device, options, message, message_size);
    snprintf(message, message_size, "%.128s: DPDK or its back end cannot be loaded (Debian: dpdk-dev): %.256s", device, dlerror());
    return -1;
}
