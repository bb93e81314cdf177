#define _GNU_SOURCE
#include "io/queues.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#if defined(__linux__) && __has_include(<linux/ethtool.h>)

#include "io/interface.h"

#include <linux/ethtool.h>
#include <stdlib.h>

enum { INDIRECTION_MOST = 4096 };   /* entries of the table from hashes to queues; drivers have up to 2,048 */

/* ethtool's request, with room for the table and the key in its last member. */
union request {
    struct ethtool_rxfh head;
    uint8_t bytes[sizeof(struct ethtool_rxfh) + INDIRECTION_MOST * sizeof(uint32_t) + SL_RSS_KEY_MOST];
};

static uint8_t *rest_of(union request *request) { return request->bytes + offsetof(struct ethtool_rxfh, rss_config); }

/* Reads the key of an interface. Returns 0, or why it cannot. */
static const char *read_key(int control, const char *interface, union request *request, struct sl_rss *out)
{
    request->head = (struct ethtool_rxfh){.cmd = ETHTOOL_GRSSH};
    if (sl_interface_ethtool(control, interface, request))
        return errno == EOPNOTSUPP ? "its driver has no hash with a key" : strerror(errno);
    const uint32_t entries = request->head.indir_size, size = request->head.key_size;
    if (!size)
        return "its driver has no hash with a key";
    if (entries > INDIRECTION_MOST || size > SL_RSS_KEY_MOST)
        return "the key of its hash is longer than those that are known here";
    request->head = (struct ethtool_rxfh){.cmd = ETHTOOL_GRSSH, .indir_size = entries, .key_size = size};
    if (sl_interface_ethtool(control, interface, request))
        return strerror(errno);
    if (request->head.hfunc && !(request->head.hfunc & 1))   /* ETH_RSS_HASH_TOP */
        return "its hash is not Toeplitz's (`ethtool -X ... hfunc toeplitz`)";
    out->size = size;
    memcpy(out->key, rest_of(request) + entries * sizeof(uint32_t), size);
    return NULL;
}

static int write_key(int control, const char *interface, union request *request, const struct sl_rss *key)
{
    request->head = (struct ethtool_rxfh){.cmd = ETHTOOL_SRSSH, .indir_size = ETH_RXFH_INDIR_NO_CHANGE, .key_size = key->size};
    memcpy(rest_of(request), key->key, key->size);
    return sl_interface_ethtool(control, interface, request);
}

const char *sl_rss_make_symmetric(int control, const char *interface, struct sl_rss *before)
{
    struct sl_rss symmetric;
    union request *request = calloc(1, sizeof *request);
    before->size = 0;
    if (!request)
        return "no memory";
    const char *why = read_key(control, interface, request, before);
    symmetric.size = before->size;
    for (uint32_t i = 0; i < symmetric.size; i++)
        symmetric.key[i] = i % 2 ? 0x5a : 0x6d;
    if (!why && memcmp(symmetric.key, before->key, before->size) == 0)
        before->size = 0;
    else if (!why && write_key(control, interface, request, &symmetric)) {
        why = errno == EOPNOTSUPP ? "its driver keeps the key of its hash" : strerror(errno);
        before->size = 0;
    }
    free(request);
    return why;
}

void sl_rss_restore(int control, const char *interface, const struct sl_rss *before)
{
    union request *request = before->size ? calloc(1, sizeof *request) : NULL;
    if (request)
        (void)write_key(control, interface, request, before);   /* the interface may be gone */
    free(request);
}

#else

const char *sl_rss_make_symmetric(int control, const char *interface, struct sl_rss *before)
{
    (void)control;
    (void)interface;
    before->size = 0;
    return "the kernel's headers (linux/ethtool.h) were not there when this was compiled";
}

void sl_rss_restore(int control, const char *interface, const struct sl_rss *before)
{
    (void)control;
    (void)interface;
    (void)before;
}

#endif
