/* Contexts in threads: each counts what it sees, and prints it at the end. Usage: contexts CONFIG CONTEXTS
 *
 * A context's digest is over all its callbacks in their order. `refused`: how often a call for a flow of the context before
 * it, in whose thread it is not, failed with EPERM. */
#include <mos_api.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16 };

static struct context {
    mctx_t mctx;
    unsigned long callbacks, bytes, ends, ticks, refused;
    uint64_t digest;
    pthread_t thread;
    atomic_int flow;   /* a socket, 0: none yet */
} contexts[MOST];
static int count;

static void note(struct context *c, uint64_t what) { c->digest = (c->digest ^ what) * 0x100000001b3; }

/* A flow of the context before this one, which lives in another thread. */
static void call_other(struct context *c)
{
    struct context *other = &contexts[(c - contexts + count - 1) % count];
    int flow = atomic_load(&other->flow), state = 0;
    struct sockaddr_in ends[2];
    socklen_t size = sizeof ends, length = sizeof state;
    if (other == c || !flow)
        return;
    errno = 0;
    int peers = mtcp_getpeername(other->mctx, flow, (struct sockaddr *)ends, &size, MOS_SIDE_BOTH);
    if (peers != -1 || errno != EPERM)
        abort();
    if (mtcp_getsockopt(other->mctx, flow, SOL_MONSOCKET, MOS_TCP_STATE_CLI, &state, &length) != -1 || errno != EPERM)
        abort();
    c->refused++;
}

static void on_event(mctx_t m, int sock, int side, event_t event, filter_arg_t *arg)
{
    struct context *c = &contexts[m->cpu];
    struct sockaddr_in ends[2];
    socklen_t size = sizeof ends, length = sizeof(int);
    int state = 0;
    (void)arg;
    if (c->callbacks++ == 0)
        c->thread = pthread_self();
    if (!pthread_equal(c->thread, pthread_self()))
        abort();
    if (mtcp_getpeername(m, sock, (struct sockaddr *)ends, &size, MOS_SIDE_BOTH) ||
        mtcp_getsockopt(m, sock, SOL_MONSOCKET, side ? MOS_TCP_STATE_SVR : MOS_TCP_STATE_CLI, &state, &length))
        abort();
    note(c, event);
    note(c, ((uint64_t)ends[0].sin_addr.s_addr << 32) | ((uint32_t)ends[0].sin_port << 16) | (uint32_t)state);
    if (event == MOS_ON_CONN_NEW_DATA) {
        char data[4096];
        ssize_t got = mtcp_peek(m, sock, side, data, sizeof data);
        c->bytes += got > 0 ? (unsigned long)got : 0;
    }
    c->ends += event == MOS_ON_CONN_END;
    if (c->callbacks % 64 == 0)
        mtcp_register_callback(m, sock, MOS_ON_REXMIT, MOS_HK_RCV, on_event);
    atomic_store(&c->flow, sock);
    call_other(c);
}

static void on_timer(mctx_t m, int id, int side, event_t event, filter_arg_t *arg)
{
    struct timeval second = {1, 0};
    (void)side, (void)event, (void)arg;
    contexts[m->cpu].ticks++;
    note(&contexts[m->cpu], 1);
    mtcp_settimer(m, id, &second, on_timer);
}

int main(int argc, char **argv)
{
    struct mtcp_conf conf;
    struct timeval second = {1, 0};
    if (argc != 3 || mtcp_init(argv[1]))
        return 1;
    count = atoi(argv[2]);
    mtcp_getconf(&conf);
    conf.num_cores = count;
    mtcp_setconf(&conf);
    for (int i = 0; i < count; i++) {
        mctx_t m = contexts[i].mctx = mtcp_create_context(i);
        int monitor = m ? mtcp_socket(m, AF_INET, MOS_SOCK_MONITOR_STREAM, 0) : -1;
        if (monitor < 0 || mtcp_register_callback(m, monitor, MOS_ON_PKT_IN, MOS_HK_SND, on_event) ||
            mtcp_register_callback(m, monitor, MOS_ON_PKT_IN, MOS_HK_RCV, on_event) ||
            mtcp_register_callback(m, monitor, MOS_ON_CONN_NEW_DATA, MOS_NULL, on_event) ||
            mtcp_register_callback(m, monitor, MOS_ON_CONN_END, MOS_HK_SND, on_event))
            return 1;
        mtcp_settimer(m, 7, &second, on_timer);
    }
    for (int i = 0; i < count; i++)
        mtcp_app_join(contexts[i].mctx);
    for (int i = 0; i < count; i++) {
        const struct context *c = &contexts[i];
        printf("%d callbacks %lu bytes %lu ends %lu ticks %lu digest %016llx\n", i, c->callbacks, c->bytes, c->ends, c->ticks,
               (unsigned long long)c->digest);
        if (c->callbacks && c->refused)
            fprintf(stderr, "%d refused %lu\n", i, c->refused);
    }
    mtcp_destroy();
    return 0;
}
