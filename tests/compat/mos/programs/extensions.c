/* What mos_ext.h and mos_tls.h have, on a capture: `extensions CONF SCENARIO`. Prints what calls give. */
#include <mos_api.h>
#include <mos_ext.h>
#include <mos_tls.h>
#include <rss.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *scenario;
static int monitor, packets;
static struct mos_tls_events tls;

static bool is(const char *name) { return strcmp(scenario, name) == 0; }

/* The result of a call, and errno where it failed. */
static void say(const char *what, long result)
{
    if (result < 0)
        printf("%s %ld errno=%d\n", what, result, errno);
    else
        printf("%s %ld\n", what, result);
}

static void on_start(mctx_t mctx, void *arg)
{
    printf("start %d %s\n", mctx->cpu, (const char *)arg);
    say("again", mos_ext_on_start(mctx, on_start, NULL));
}

static void read_without_copy(mctx_t mctx, int sock, int side)
{
    const char *bytes;
    ssize_t count;
    while ((count = mos_ext_view(mctx, sock, side, &bytes)) > 0) {
        printf("view %d [%.*s]\n", side, (int)count, bytes);
        say("too far", mos_ext_consume(mctx, sock, side, (size_t)count + 10000));
        say("consume", mos_ext_consume(mctx, sock, side, (size_t)count));
    }
    say("view", count);
}

static void find(mctx_t mctx, int sock)
{
    struct sockaddr_in ends[2];
    socklen_t size = sizeof ends;
    mtcp_getpeername(mctx, sock, (struct sockaddr *)ends, &size, MOS_SIDE_BOTH);
    const struct sockaddr *client = (struct sockaddr *)&ends[0], *server = (struct sockaddr *)&ends[1];
    printf("found %d\n", mos_ext_find(mctx, monitor, client, server) == sock);
    say("turned", mos_ext_find(mctx, monitor, server, client));
    say("of a flow", mos_ext_find(mctx, sock, client, server));
    ends[0].sin_family = AF_UNIX;
    say("family", mos_ext_find(mctx, monitor, client, server));
}

static void read_by_copy(mctx_t mctx, int sock, int side)
{
    char bytes[100];
    ssize_t count = mtcp_peek(mctx, sock, side, bytes, sizeof bytes);
    printf("data %d [%.*s]\n", side, (int)(count > 0 ? count : 0), bytes);
}

static void on_data(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    (void)event, (void)arg;
    if (is("view")) {
        read_without_copy(mctx, sock, side);
    } else if (is("find")) {
        find(mctx, sock);
    } else {
        read_by_copy(mctx, sock, side);
    }
    if (is("reset"))
        say("reset without a packet", mos_ext_reset(mctx, sock));
}

static void on_packet(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    struct pkt_info info;
    (void)event, (void)arg;
    mtcp_getlastpkt(mctx, sock, side, &info);
    packets++;
    if (is("hash"))
        printf("hash %d\n", info.hash == GetRSSHash(info.iph->daddr, info.iph->saddr, info.tcph->dest, info.tcph->source));
    if (is("reset") && info.payloadlen == 4)
        say("reset", mos_ext_reset(mctx, sock));
    if (is("reset received") && info.payloadlen == 4)
        say("reset", mtcp_reset_conn(mctx, sock));   /* the same, by the name in mOS's header */
    if (is("deregister") && packets == 2)
        say("deregister", mtcp_register_callback(mctx, sock, MOS_ON_CONN_NEW_DATA, MOS_NULL, NULL));
    if (is("inject") && packets == 1) {
        say("inject", mos_ext_inject(mctx, info.in_ifidx, info.ethh, info.eth_len));
        say("nothing", mos_ext_inject(mctx, info.in_ifidx, info.ethh, 0));
        say("nowhere", mos_ext_inject(mctx, 40, info.ethh, info.eth_len));
    }
    if (is("size") && packets == 1) {
        int size = 16, got = 0;
        socklen_t len = sizeof got;
        say("size", mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &size, sizeof size));
        say("get", mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &got, &len));
        printf("%d\n", got);
        mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &got, &len);
        printf("%d\n", got);
    }
    if ((is("bypass") || is("drop")) && packets == 4)
        say("offload", mos_ext_offload(mctx, sock, is("drop") ? MOS_EXT_DROP : MOS_EXT_BYPASS));
    if (is("resume") && packets == 4) {
        int both = MOS_SIDE_BOTH;
        say("stop", mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_STOP_MON, &both, sizeof both));
    }
    if (is("two") && packets == 1)
        say("offload", mos_ext_offload(mctx, sock, MOS_EXT_BYPASS));
}

static int offloaded;

static void on_timer(mctx_t mctx, int id, int side, event_t event, filter_arg_t *arg)
{
    (void)id, (void)side, (void)event, (void)arg;
    if (is("resume")) {
        say("resume", mos_ext_resume(mctx, offloaded, MOS_SIDE_BOTH));
        say("side", mos_ext_resume(mctx, offloaded, 7));
    } else if (is("bypass") || is("drop")) {
        say("take back", mos_ext_take_back(mctx, offloaded));
    }
}

static void on_begin(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    struct timeval after = {5, 500000};
    (void)side, (void)event, (void)arg;
    offloaded = sock;
    mtcp_settimer(mctx, 1, &after, on_timer);
}

static void on_end(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    (void)mctx, (void)sock, (void)event, (void)arg;
    printf("end %d after %d packets\n", side, packets);
}

static void on_tls(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    struct mos_tls_record record;
    int more = 0;
    (void)arg;
    printf("%s %d", event == tls.record ? "records" : event == tls.handshake ? "handshake" : "session", side);
    while (event == tls.record && (more = mos_tls_next(mctx, sock, side, &record)) > 0)
        printf(" %d:%llu+%d", record.type, (unsigned long long)record.offset, record.length);
    puts(more < 0 ? " overwritten" : "");
}

int main(int argc, char **argv)
{
    if (argc < 3 || mtcp_init(argv[1]))
        return 1;
    scenario = argv[2];
    mctx_t mctx = mtcp_create_context(0);
    monitor = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0);
    if (is("start"))
        mos_ext_on_start(mctx, on_start, "argument");
    if (is("two"))
        mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0);
    if (is("calls")) {
        struct sockaddr_in none = {.sin_family = AF_INET};
        say("reset", mos_ext_reset(mctx, monitor));
        say("resume", mos_ext_resume(mctx, 99, MOS_SIDE_BOTH));
        say("offload", mos_ext_offload(mctx, monitor, MOS_EXT_DROP));
        say("find", mos_ext_find(mctx, monitor, (struct sockaddr *)&none, (struct sockaddr *)&none));
        say("inject", mos_ext_inject(mctx, 0, argv[1], 4));
        say("context", mos_ext_on_start(NULL, on_start, NULL));
    }
    if (is("tls")) {
        struct mos_tls_events again;
        say("define", mos_tls_define(&tls));
        printf("same %d\n", mos_tls_define(&again) == 0 && memcmp(&again, &tls, sizeof tls) == 0);
        const event_t events[] = {tls.record, tls.handshake, tls.session};
        for (unsigned i = 0; i < 3; i++)
            if (mtcp_register_callback(mctx, monitor, events[i], MOS_NULL, on_tls))
                return 2;
    } else if (mtcp_register_callback(mctx, monitor, MOS_ON_CONN_NEW_DATA, MOS_NULL, on_data) ||
               mtcp_register_callback(mctx, monitor, MOS_ON_PKT_IN, is("reset received") ? MOS_HK_RCV : MOS_HK_SND, on_packet) ||
               mtcp_register_callback(mctx, monitor, MOS_ON_CONN_START, MOS_HK_SND, on_begin) ||
               mtcp_register_callback(mctx, monitor, MOS_ON_CONN_END, MOS_HK_RCV, on_end)) {
        return 2;
    }
    mtcp_app_join(mctx);
    return mtcp_destroy();
}
