/* nDPI (Debian: libndpi-dev) in place of Sluice, without dissection: no protocol is switched on. See bench/peer.h.
 *
 * It keeps the states of connections (`none`), and no bytes. Finding a packet's connection is up to the program that uses
 * it: here a hash table with chains. */
#include "peer.h"

#include "packets.h"

#include <ndpi/ndpi_api.h>

struct connection {
    uint64_t low, high;              /* the ends: address << 16 | port, and the protocol above */
    struct connection *next;
    struct ndpi_flow_struct *flow;   /* after this struct */
};

static struct {
    struct ndpi_detection_module_struct *module;
    struct connection **chains;
    uint64_t mask;
    uint64_t flows, left_out;
} state;

static const char *peer_open(const struct peer_options *options)
{
    if (options->function != PEER_NONE)
        return "nDPI has only the function none";
    state.module = ndpi_init_detection_module(ndpi_no_prefs);
    if (!state.module)
        return "nDPI cannot be set up";
    NDPI_PROTOCOL_BITMASK nothing;
    NDPI_BITMASK_RESET(nothing);
    ndpi_set_protocol_detection_bitmask2(state.module, &nothing);
    ndpi_finalize_initialization(state.module);
    uint64_t chains = 1024;
    while (chains < options->connections)
        chains *= 2;
    state.mask = chains - 1;
    state.chains = calloc(chains, sizeof *state.chains);
    return state.chains ? NULL : "not enough memory";
}

static struct connection *find(uint64_t low, uint64_t high)
{
    uint64_t mixed = (low ^ high >> 3) * 0x9e3779b97f4a7c15;
    struct connection **link = &state.chains[mixed >> 24 & state.mask];
    for (struct connection *found = *link; found; found = found->next)
        if (found->low == low && found->high == high)
            return found;
    struct connection *made = calloc(1, sizeof *made + SIZEOF_FLOW_STRUCT);
    if (!made)
        abort();   /* a measurement without memory is none */
    *made = (struct connection){low, high, *link, (struct ndpi_flow_struct *)(void *)(made + 1)};
    state.flows++;
    return *link = made;
}

static void peer_burst(void *user, const struct sl_frame *frames, size_t count, size_t ahead)
{
    (void)user, (void)ahead;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *ip = frames[i].at + ETHERNET;
        uint32_t header = frames[i].captured < ETHERNET + IPV4 ? 0 : (ip[0] & 15u) * 4;
        if (header < IPV4 || get16(ip - 2) != 0x0800 || frames[i].captured < ETHERNET + header + UDP) {
            state.left_out++;
            continue;
        }
        uint64_t from = (uint64_t)get32(ip + 12) << 16 | get16(ip + header);
        uint64_t to = (uint64_t)get32(ip + 16) << 16 | get16(ip + header + 2);
        struct connection *connection =
            find((from < to ? from : to) | (uint64_t)ip[9] << 48, from < to ? to : from);
        ndpi_detection_process_packet(state.module, connection->flow, ip, (unsigned short)(frames[i].captured - ETHERNET),
                                      frames[i].time / 1000000);
    }
}

static void peer_close(struct peer_found *found)
{
    found->flows = (int64_t)state.flows;
    found->left_out = (int64_t)state.left_out;
}
