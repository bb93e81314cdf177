/* Counts packets of TCP, without receive buffers: a function of a chain that does next to nothing, over mOS. */
#include <mos_api.h>

#include <stdint.h>
#include <stdio.h>

static uint64_t packets;

static void on_packet(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    (void)mctx, (void)sock, (void)side, (void)event, (void)arg;
    packets++;
}

int main(int argc, char **argv)
{
    struct mtcp_conf conf;
    int none = 0;
    if (argc < 3 || mtcp_init(argv[2]) || mtcp_getconf(&conf))
        return 1;
    mctx_t mctx = mtcp_create_context(0);
    int sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0);
    if (!mctx || sock < 0 || mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &none, sizeof none) ||
        mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &none, sizeof none) ||
        mtcp_register_callback(mctx, sock, MOS_ON_PKT_IN, MOS_HK_SND, on_packet))
        return 1;
    mtcp_app_join(mctx);
    mtcp_destroy();
    printf("%llu packets\n", (unsigned long long)packets);
    return 0;
}
