/* Says what every callback sees, and tries what may not be done; `rules CONFIG WHAT...` with WHAT of
 * snd rcv null raw orphan: what to register; two: two monitors; data, drain: read, all at NEW_DATA or at ERROR;
 * drop, chomp, insert: change packets with payload; stop: at the first payload; close: sockets, in their
 * callbacks; scribble: in what getlastpkt gave; reopen: makes a SYN of payload after a FIN; resize: to what has no
 * memory; peek, fragments: at MOS_HK_RCV; buffer=N, overlap, enlarge, peers, timer, contexts: a second one, with a timer; user, errors. */
#include <mos_api.h>
#include <mtcp_api.h>

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"PKT_IN", "", "CONN_START", "", "NEW_DATA", "ERROR", "TIMEOUT", "STATE_CHANGE", "ORPHAN", "REXMIT", "CONN_END"};
static const char *const states[] = {"CLOSED", "LISTEN", "SYN_SENT", "SYN_RCVD", "ESTABLISHED", "FIN_WAIT_1", "FIN_WAIT_2",
                                     "CLOSE_WAIT", "CLOSING", "LAST_ACK", "TIME_WAIT"};
static int count;
static char **given;
static int monitor;
static event_t parent_event, child_event, grandchild_event, raised_event;
static unsigned asked;

static bool has(const char *what)
{
    for (int i = 0; i < count; i++)
        if (strcmp(given[i], what) == 0)
            return true;
    return false;
}

static int value(const char *what, int otherwise)
{
    for (int i = 0; i < count; i++)
        if (strncmp(given[i], what, strlen(what)) == 0 && given[i][strlen(what)] == '=')
            return atoi(given[i] + strlen(what) + 1);
    return otherwise;
}

static const char *event_name(event_t event)
{
    if (event == parent_event)
        return "PAYLOAD";
    if (event == child_event)
        return "LONG";
    if (event == grandchild_event)
        return "LONGER";
    if (event == raised_event)
        return "RAISED";
    return names[__builtin_ctzll(event)];
}

static void print_state(mctx_t mctx, int sock, int name)
{
    int state = 0;
    socklen_t length = sizeof state;
    if (mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, name, &state, &length) == 0)
        printf(" %s", states[state]);
    else
        printf(" errno=%d", errno);
}

/* HOOK sock side EVENT client's-state server's-state packet or -, its payload's offset and length */
static void say(mctx_t mctx, const char *hook, int sock, int side, event_t event)
{
    struct pkt_info packet;
    printf("%s %d %s %s", hook, sock, side == MOS_SIDE_CLI ? "cli" : side == MOS_SIDE_SVR ? "svr" : "both", event_name(event));
    print_state(mctx, sock, MOS_TCP_STATE_CLI);
    print_state(mctx, sock, MOS_TCP_STATE_SVR);
    if (mtcp_getlastpkt(mctx, sock, side, &packet) == 0)
        printf(" packet %llu %u", (unsigned long long)packet.offset, packet.payloadlen);
    else
        printf(" - errno=%d", errno);
    printf("\n");
}

static int state_of(mctx_t mctx, int sock, int name)
{
    int state = 0;
    socklen_t length = sizeof state;
    return mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, name, &state, &length) ? -1 : state;
}

/* After a FIN of the client's: a SYN with another number. */
static int reopen(mctx_t mctx, int sock, int side)
{
    enum { SEQ = 4, FLAGS = 13 };
    byte number[4] = {0x12, 0x34, 0x56, 0x78}, syn = 2;
    if (state_of(mctx, sock, MOS_TCP_STATE_CLI) < TCP_FIN_WAIT_1)
        return 0;
    if (mtcp_setlastpkt(mctx, sock, side, SEQ, number, sizeof number, MOS_TCP_HDR | MOS_OVERWRITE))
        return -1;
    return mtcp_setlastpkt(mctx, sock, side, FLAGS, &syn, 1, MOS_TCP_HDR | MOS_OVERWRITE | MOS_UPDATE_TCP_CHKSUM);
}

static void change(mctx_t mctx, int sock, int side)
{
    struct pkt_info packet;
    byte mark[4] = "<>!";
    int result = 0, sums = MOS_UPDATE_IP_CHKSUM | MOS_UPDATE_TCP_CHKSUM;
    if (mtcp_getlastpkt(mctx, sock, side, &packet) || !packet.payloadlen)
        return;
    if (has("length")) {   /* as mOS's manual says: first what the IP packet's length is to be */
        const int more = has("chomp") ? -2 : 3;
        uint16_t total = htons((uint16_t)(ntohs(packet.iph->tot_len) + more));
        mtcp_setlastpkt(mctx, sock, side, 2, (byte *)&total, sizeof total, MOS_IP_HDR | MOS_OVERWRITE);
    }
    if (has("reopen"))
        result = reopen(mctx, sock, side);
    else if (has("drop"))
        result = mtcp_setlastpkt(mctx, sock, side, 0, NULL, 0, MOS_DROP);
    else if (has("chomp"))
        result = mtcp_setlastpkt(mctx, sock, side, 1, NULL, 2, MOS_TCP_PAYLOAD | MOS_CHOMP | sums);
    else if (has("insert"))
        result = mtcp_setlastpkt(mctx, sock, side, 1, mark, 3, MOS_TCP_PAYLOAD | MOS_INSERT | sums);
    else
        return;
    printf("change %d errno=%d\n", result, result ? errno : 0);
}

/* The payload as a string, and the type that the Ethernet header says, then written over. */
static void scribble(mctx_t mctx, int sock, int side)
{
    struct pkt_info packet;
    if (mtcp_getlastpkt(mctx, sock, side, &packet) || !packet.payloadlen)
        return;
    printf("string %s type %04x aligned %d\n", (char *)packet.payload, ntohs(packet.ethh->h_proto), (uintptr_t)packet.iph % 4 == 0);
    memset(packet.ethh, 0, sizeof *packet.ethh);
    memset(packet.tcph, 0, sizeof *packet.tcph);
    memset(packet.payload, 'X', packet.payloadlen);
}

static void stop(mctx_t mctx, int sock, int side)
{
    struct pkt_info packet;
    int both = MOS_SIDE_BOTH;
    if (has("stop") && mtcp_getlastpkt(mctx, sock, side, &packet) == 0 && packet.payloadlen)
        printf("stop %d\n", mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_STOP_MON, &both, sizeof both));
}

static void print_held(mctx_t mctx, int sock, int side)
{
    struct pkt_info packet;
    char held[64];
    if (mtcp_getlastpkt(mctx, sock, side, &packet) || !packet.payloadlen)
        return;
    ssize_t n = mtcp_ppeek(mctx, sock, side, held, packet.payloadlen < 64 ? packet.payloadlen : 64, packet.offset);
    printf("held %zd %.*s new %.*s\n", n, n > 0 ? (int)n : 0, held, (int)packet.payloadlen, packet.payload);
}

static void read_all(mctx_t mctx, int sock, int side)
{
    char bytes[65536];
    for (;;) {
        ssize_t n = mtcp_peek(mctx, sock, side, bytes, sizeof bytes);
        if (n < 0)
            printf("lost %zd errno=%d\n", -n, errno);
        else if (n == 0)
            break;
        else
            printf("read %d %s %zd %.*s\n", sock, side ? "svr" : "cli", n, n < 64 ? (int)n : 64, bytes);
    }
}

static void on_snd(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg);
static mctx_t thread_mctx;

static void *peers_in_thread(void *sock)
{
    struct sockaddr_in one;
    socklen_t length = sizeof(struct sockaddr);
    mtcp_getpeername(thread_mctx, *(int *)sock, (struct sockaddr *)&one, &length, MOS_SIDE_CLI);
    printf(" thread %d", errno);
    return NULL;
}

/* What the calls for sockets and flows give in another thread than that of the callbacks: their errors. */
static void *calls_in_thread(void *argument)
{
    const int sock = *(int *)argument;
    char bytes[8];
    int value = 0;
    socklen_t length = sizeof value;
    struct timeval second = {1, 0};
    struct pkt_info info;
    printf("foreign");
#define ERROR_OF(call) (errno = 0, (void)(call), printf(" %d", errno))
    ERROR_OF(mtcp_close(thread_mctx, sock));
    ERROR_OF(mtcp_close(thread_mctx, monitor));
    ERROR_OF(mtcp_setsockopt(thread_mctx, sock, SOL_MONSOCKET, MOS_STOP_MON, &value, sizeof value));
    ERROR_OF(mtcp_getsockopt(thread_mctx, sock, SOL_MONSOCKET, MOS_TCP_STATE_CLI, &value, &length));
    ERROR_OF(mtcp_set_uctx(thread_mctx, sock, bytes));
    ERROR_OF(mtcp_get_uctx(thread_mctx, sock));
    ERROR_OF(mtcp_peek(thread_mctx, sock, MOS_SIDE_SVR, bytes, sizeof bytes));
    ERROR_OF(mtcp_ppeek(thread_mctx, sock, MOS_SIDE_SVR, bytes, sizeof bytes, 0));
    ERROR_OF(mtcp_settimer(thread_mctx, 1, &second, NULL));
    ERROR_OF(mtcp_settimer(thread_mctx, 1, &second, on_snd));
    ERROR_OF(mtcp_register_callback(thread_mctx, sock, MOS_ON_PKT_IN, MOS_HK_SND, NULL));
    ERROR_OF(mtcp_bind_monitor_filter(thread_mctx, monitor, NULL));
    ERROR_OF(mtcp_getlastpkt(thread_mctx, sock, MOS_SIDE_SVR, &info));
    ERROR_OF(mtcp_socket(thread_mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0));
    printf("\n");
    return NULL;
}

/* What calls without a context give: their errors. */
static void calls_without_context(void)
{
    char bytes[8];
    int value = 0;
    socklen_t length = sizeof value;
    struct timeval second = {1, 0};
    struct pkt_info info = {0};
    struct sockaddr_in end;
    printf("without");
    ERROR_OF(mtcp_socket(NULL, AF_INET, MOS_SOCK_MONITOR_STREAM, 0));
    ERROR_OF(mtcp_close(NULL, 0));
    ERROR_OF(mtcp_setsockopt(NULL, 0, SOL_MONSOCKET, MOS_STOP_MON, &value, sizeof value));
    ERROR_OF(mtcp_getsockopt(NULL, 0, SOL_MONSOCKET, MOS_TCP_STATE_CLI, &value, &length));
    ERROR_OF(mtcp_set_uctx(NULL, 0, bytes));
    ERROR_OF(mtcp_get_uctx(NULL, 0));
    ERROR_OF(mtcp_peek(NULL, 0, MOS_SIDE_SVR, bytes, sizeof bytes));
    ERROR_OF(mtcp_ppeek(NULL, 0, MOS_SIDE_SVR, bytes, sizeof bytes, 0));
    ERROR_OF(mtcp_settimer(NULL, 1, &second, on_snd));
    ERROR_OF(mtcp_cb_get_ts(NULL));
    ERROR_OF(mtcp_register_callback(NULL, 0, MOS_ON_PKT_IN, MOS_HK_SND, on_snd));
    ERROR_OF(mtcp_bind_monitor_filter(NULL, 0, NULL));
    ERROR_OF(mtcp_raise_event(NULL, raised_event));
    ERROR_OF(mtcp_getlastpkt(NULL, 0, MOS_SIDE_SVR, &info));
    ERROR_OF(mtcp_setlastpkt(NULL, 0, MOS_SIDE_SVR, 0, NULL, 0, MOS_DROP));
    ERROR_OF(mtcp_sendpkt(NULL, 0, &info));
    ERROR_OF(mtcp_reset_conn(NULL, 0));
    ERROR_OF(mtcp_getpeername(NULL, 0, (struct sockaddr *)&end, &length, MOS_SIDE_CLI));
    ERROR_OF(mtcp_bind(NULL, 0, (struct sockaddr *)&end, sizeof end));
    ERROR_OF(mtcp_listen(NULL, 0, 1));
    ERROR_OF(mtcp_accept(NULL, 0, NULL, NULL));
    ERROR_OF(mtcp_connect(NULL, 0, (struct sockaddr *)&end, sizeof end));
    ERROR_OF(mtcp_read(NULL, 0, bytes, sizeof bytes));
    ERROR_OF(mtcp_write(NULL, 0, bytes, sizeof bytes));
    ERROR_OF(mtcp_abort(NULL, 0));
    ERROR_OF(mtcp_ioctl(NULL, 0, 0, &value));
    ERROR_OF(mtcp_setsock_nonblock(NULL, 0));
    ERROR_OF(mtcp_getsockname(NULL, 0, (struct sockaddr *)&end, &length));
    ERROR_OF(mtcp_epoll_create(NULL, 1));
    ERROR_OF(mtcp_init_rss(NULL, 0, 1, 0, 0));
    ERROR_OF(mtcp_get_connection_cnt(NULL));
    mtcp_app_join(NULL);
    printf("\n");
}

static void call_in_thread(mctx_t mctx, int sock)
{
    pthread_t thread;
    thread_mctx = mctx;
    if (pthread_create(&thread, NULL, calls_in_thread, &sock) == 0)
        pthread_join(thread, NULL);
}

/* What getpeername gives: both ends, the client, both where there is room; and why not: one sockaddr for both,
 * another thread, no flow. */
static void print_peers(mctx_t mctx, int sock)
{
    struct sockaddr_in ends[2], one, two_ends[2];
    char text[2][INET_ADDRSTRLEN];
    socklen_t two = 2 * sizeof(struct sockaddr), single = sizeof(struct sockaddr), more = 4 * sizeof(struct sockaddr);
    printf("peers %d", mtcp_getpeername(mctx, sock, (struct sockaddr *)ends, &two, MOS_SIDE_BOTH));
    for (int i = 0; i < 2; i++)
        printf(" %s:%u", inet_ntop(AF_INET, &ends[i].sin_addr, text[i], sizeof text[i]), ntohs(ends[i].sin_port));
    printf(" cli %d", mtcp_getpeername(mctx, sock, (struct sockaddr *)&one, &single, MOS_SIDE_CLI) || one.sin_port != ends[0].sin_port);
    printf(" svr %d", mtcp_getpeername(mctx, sock, (struct sockaddr *)two_ends, &more, MOS_SIDE_SVR) || memcmp(two_ends, ends, sizeof ends));
    mtcp_getpeername(mctx, sock, (struct sockaddr *)ends, &single, MOS_SIDE_BOTH);
    printf(" one %d", errno);
    pthread_t thread;
    thread_mctx = mctx;
    if (pthread_create(&thread, NULL, peers_in_thread, &sock) == 0)
        pthread_join(thread, NULL);
    mtcp_getpeername(mctx, 0, (struct sockaddr *)ends, &two, MOS_SIDE_BOTH);
    printf(" none %d\n", errno);
}

static void on_snd(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    (void)arg;
    say(mctx, "SND", sock, side, event);
    if (event == MOS_ON_PKT_IN) {
        if (has("peers"))
            print_peers(mctx, sock);
        if (has("foreign"))
            call_in_thread(mctx, sock);
        change(mctx, sock, side);
        if (has("scribble"))
            scribble(mctx, sock, side);
        stop(mctx, sock, side);
        if (has("close"))
            mtcp_close(mctx, monitor);
    }
}

/* As mOS counts them: room in bytes, then how many there are, with one of no bytes after them. */
static void print_fragments(mctx_t mctx, int sock)
{
    struct tcp_ring_fragment list[4];
    struct tcp_buf_info info;
    socklen_t length = sizeof list, one = sizeof list[0] - 1, size = sizeof info;
    printf("fragments %d", mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, MOS_FRAGINFO_SVRBUF, list, &length));
    for (socklen_t i = 0; i < length; i++)
        printf(" %llu+%u", (unsigned long long)list[i].offset, list[i].len);
    printf(" end %u", length < 4 ? list[length].len : 0);
    printf(" room %d", mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, MOS_FRAGINFO_SVRBUF, list, &one));
    printf(" errno=%d", errno);
    if (mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, MOS_INFO_SVRBUF, &info, &size) == 0)
        printf(" info %u %u %u", info.last_byte_read - info.init_seq, info.next_byte_expected - info.init_seq,
               info.last_byte_received - info.init_seq);
    printf("\n");
}

static void on_rcv(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    (void)arg;
    say(mctx, "RCV", sock, side, event);
    if (event == MOS_ON_PKT_IN)
        change(mctx, sock, side);
    if (event == MOS_ON_REXMIT)
        print_held(mctx, sock, side);
    if (event == MOS_ON_PKT_IN && has("peek"))
        read_all(mctx, sock, side);
    if (event == MOS_ON_PKT_IN && side == MOS_SIDE_SVR && has("fragments"))
        print_fragments(mctx, sock);
}

static void resize(mctx_t mctx, int sock, int side)
{
    int size = 2147483647;
    socklen_t length = sizeof size;
    const int name = side ? MOS_SVRBUF : MOS_CLIBUF, result = mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, name, &size, sizeof size);
    printf("resize %d errno=%d", result, errno);
    mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, name, &size, &length);
    printf(" size %d\n", size);
}

static void on_null(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    (void)arg;
    say(mctx, "NULL", sock, side, event);
    if (event == MOS_ON_ORPHAN && has("close"))
        mtcp_close(mctx, sock);
    if (event == MOS_ON_ERROR && has("drain"))
        read_all(mctx, sock, side);
    if (event == MOS_ON_ERROR && has("enlarge")) {
        int size = 65536;
        mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, side ? MOS_SVRBUF : MOS_CLIBUF, &size, sizeof size);
    }
    if (event == MOS_ON_CONN_NEW_DATA && has("data"))
        read_all(mctx, sock, side);
    if (event == MOS_ON_CONN_NEW_DATA && has("resize"))
        resize(mctx, sock, side);
}

static void on_raw(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    struct pkt_info packet;
    (void)side;
    (void)arg;
    printf("RAW %d %s", sock, event_name(event));
    if (mtcp_getlastpkt(mctx, sock, MOS_SIDE_BOTH, &packet) == 0)
        printf(" protocol %d", packet.iph->protocol);
    printf("\n");
    if (has("close"))
        mtcp_close(mctx, sock);
}

static void on_timer(mctx_t mctx, int id, int side, event_t event, filter_arg_t *arg)
{
    struct timeval second = {1, 0};
    (void)side;
    (void)event;
    (void)arg;
    printf("TIMER %d at %u\n", id, mtcp_cb_get_ts(mctx));
    if (id == 7)
        mtcp_settimer(mctx, id, &second, on_timer);
}

static bool has_payload(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    struct pkt_info packet;
    (void)event;
    asked++;
    return mtcp_getlastpkt(mctx, sock, side, &packet) == 0 && packet.payloadlen >= *(int *)arg->arg;
}

static bool longer(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    if (has_payload(mctx, sock, side, event, arg))
        mtcp_raise_event(mctx, raised_event);
    return has_payload(mctx, sock, side, event, arg);
}

static int registered(mctx_t mctx, int sock, event_t event, int hook, callback_t callback)
{
    int result = mtcp_register_callback(mctx, sock, event, hook, callback);
    if (result)
        printf("register %s %s errno=%d\n", event_name(event), hook == MOS_NULL ? "null" : hook == MOS_HK_RCV ? "rcv" : "snd", errno);
    return result;
}

static void watch(mctx_t mctx, int sock)
{
    static const event_t flow_events[] = {MOS_ON_PKT_IN, MOS_ON_CONN_START, MOS_ON_TIMEOUT, MOS_ON_TCP_STATE_CHANGE, MOS_ON_REXMIT, MOS_ON_CONN_END};
    int sizes[2] = {value("buffer", 8192), value("buffer", 8192)}, last = MOS_OVERLAP_POLICY_LAST;
    mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &sizes[0], sizeof sizes[0]);
    mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &sizes[1], sizeof sizes[1]);
    if (has("overlap"))
        mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVROVERLAP, &last, sizeof last);
    for (size_t i = 0; i < sizeof flow_events / sizeof *flow_events; i++) {
        if (has("snd"))
            registered(mctx, sock, flow_events[i], MOS_HK_SND, on_snd);
        if (has("rcv"))
            registered(mctx, sock, flow_events[i], MOS_HK_RCV, on_rcv);
    }
    if (has("null") || has("data")) {
        registered(mctx, sock, MOS_ON_CONN_NEW_DATA, MOS_NULL, on_null);
        registered(mctx, sock, MOS_ON_ERROR, MOS_NULL, on_null);
    }
    if (has("orphan"))
        registered(mctx, sock, MOS_ON_ORPHAN, MOS_NULL, on_null);
    if (has("user")) {
        registered(mctx, sock, parent_event, MOS_HK_SND, on_snd);
        registered(mctx, sock, grandchild_event, MOS_HK_SND, on_snd);
        registered(mctx, sock, raised_event, MOS_HK_SND, on_snd);
    }
    if (has("errors"))
        for (int bit = 0; bit < 11; bit++)
            for (int hook = 0; hook < 3; hook++)
                if (names[bit][0])
                    registered(mctx, sock, (event_t)1 << bit, hook == 0 ? MOS_NULL : hook == 1 ? MOS_HK_RCV : MOS_HK_SND, on_null);
}

int main(int argc, char **argv)
{
    struct mtcp_conf conf;
    if (argc < 2 || mtcp_init(argv[1]))
        return 1;
    given = argv + 2;
    count = argc - 2;
    mtcp_getconf(&conf);
    conf.num_cores = 2;
    mtcp_setconf(&conf);
    int one = 1, ten = 10, hundred = 100;
    filter_arg_t args[] = {{&one, sizeof one}, {&ten, sizeof ten}, {&hundred, sizeof hundred}};
    parent_event = mtcp_define_event(MOS_ON_PKT_IN, has_payload, &args[0]);
    child_event = mtcp_define_event(parent_event, has_payload, &args[1]);
    grandchild_event = mtcp_define_event(child_event, longer, &args[2]);
    raised_event = mtcp_alloc_event(child_event);
    mtcp_define_event(parent_event, has_payload, &args[2]);   /* nobody listens */
    if (mtcp_define_event(parent_event, has_payload, &args[1]) != child_event)
        printf("not shared\n");
    mctx_t mctx = mtcp_create_context(0);
    if (!mctx)
        return 1;
    int sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0);
    monitor = sock;
    watch(mctx, sock);
    if (has("two"))
        watch(mctx, mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0));
    if (has("raw")) {
        union monitor_filter filter = {.raw_pkt_filter = "udp"};
        int all = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_RAW, 0), some = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_RAW, 0);
        printf("filter %d\n", mtcp_bind_monitor_filter(mctx, some, &filter));
        filter.raw_pkt_filter = "no such word";
        printf("filter %d\n", mtcp_bind_monitor_filter(mctx, some, &filter));
        printf("none %d\n", mtcp_bind_monitor_filter(mctx, all, NULL));
        registered(mctx, all, MOS_ON_PKT_IN, MOS_NULL, on_raw);
        registered(mctx, some, MOS_ON_PKT_IN, MOS_NULL, on_raw);
    }
    if (has("timer")) {
        struct timeval half = {0, 500000}, second = {1, 0};
        mtcp_settimer(mctx, 3, &half, on_timer);
        mtcp_settimer(mctx, 7, &second, on_timer);
    }
    if (has("contexts")) {
        struct timeval after = {0, 750000};
        mtcp_settimer(mtcp_create_context(1), 5, &after, on_timer);
    }
    if (has("errors")) {
        printf("raise %d", mtcp_raise_event(mctx, raised_event));
        printf(" errno=%d\n", errno);
        calls_without_context();
    }
    mtcp_app_join(mctx);
    mtcp_destroy_context(mctx);
    mtcp_destroy();
    if (has("user"))
        printf("asked %u\n", asked);
    return 0;
}
