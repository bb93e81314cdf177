/* libnids (Debian: libnids-dev) in place of Sluice: its TCP, without verifying checksums. See bench/peer.h.
 *
 * It takes a packet at a time, and delivers both directions of a connection whose SYN it saw. `none` has it collect
 * nothing. There is room for as many connections as asked for, in a hash table of twice their number. */
#include "peer.h"
#include "patterns.h"

#include <nids.h>

struct streams {
    struct pattern_stream side[2];
};

static enum peer_function function;
static uint64_t flows;

static void deliver(struct streams *streams, unsigned side, const struct half_stream *half)
{
    if (half->count_new <= 0)
        return;
    peer_deliver((const uint8_t *)half->data, (uint32_t)half->count_new);
    if (function == PEER_SEARCH)
        patterns_search(&streams->side[side], (const uint8_t *)half->data, (uint32_t)half->count_new);
}

static void on_tcp(struct tcp_stream *stream, void **user)
{
    (void)user;
    if (stream->nids_state == NIDS_JUST_EST) {
        flows++;
        if (function == PEER_NONE)
            return;
        stream->client.collect++;
        stream->server.collect++;
        if (function == PEER_SEARCH && !(stream->user = calloc(1, sizeof(struct streams))))
            abort();
        return;
    }
    if (stream->nids_state == NIDS_DATA) {
        deliver(stream->user, 0, &stream->client);
        deliver(stream->user, 1, &stream->server);
        return;
    }
    if (stream->user) {
        patterns_end(&((struct streams *)stream->user)->side[0]);
        patterns_end(&((struct streams *)stream->user)->side[1]);
        free(stream->user);
        stream->user = NULL;
    }
}

static void silent(void) {}

static const char *peer_open(const struct peer_options *options)
{
    static struct nids_chksum_ctl unchecked = {.action = NIDS_DONT_CHKSUM};
    function = options->function;
    nids_params.pcap_desc = pcap_open_dead(DLT_EN10MB, 65535);
    nids_params.n_tcp_streams = (int)(2 * options->connections);
    nids_params.scan_num_hosts = 0;   /* it looks for port scans otherwise */
    nids_params.syslog = silent;
    nids_params.pcap_filter = NULL;
    nids_params.multiproc = 0;
    if (!nids_params.pcap_desc || !nids_init())
        return nids_errbuf;
    nids_register_chksum_ctl(&unchecked, 1);
    nids_register_tcp(on_tcp);
    return function == PEER_SEARCH ? patterns_open(options->patterns) : NULL;
}

static void peer_burst(void *user, const struct sl_frame *frames, size_t count, size_t ahead)
{
    (void)user, (void)ahead;
    for (size_t i = 0; i < count; i++) {
        struct pcap_pkthdr header = {.caplen = frames[i].captured, .len = frames[i].length};
        header.ts.tv_sec = (time_t)(frames[i].time / 1000000000);
        header.ts.tv_usec = (suseconds_t)(frames[i].time % 1000000000 / 1000);
        nids_pcap_handler(NULL, &header, (u_char *)(uintptr_t)frames[i].at);
    }
}

static void peer_close(struct peer_found *found)
{
    found->flows = (int64_t)flows;
    found->deliveries = (int64_t)peer_deliveries.calls;
    found->delivered_bytes = (int64_t)peer_deliveries.bytes;
    if (function == PEER_SEARCH)
        found->matches = (int64_t)patterns_matches();
}
