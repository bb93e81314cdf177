/* midstat: every second one line for each live connection: client, server, TCP state of both. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <sys/queue.h>
#include <sys/time.h>
#include <arpa/inet.h>
#include <netinet/in.h>

#include <mos_api.h>
#include <mtcp_api.h>
#include "cpu.h"
#include "debug.h"

#define MAX_CORES 16
#define NBUCKETS  4096

struct connection {
	int sock;
	struct sockaddr_in addrs[2];	/* client, server */
	int cli_state;
	int svr_state;
	TAILQ_ENTRY(connection) link;
	LIST_ENTRY(connection) hlink;
};
TAILQ_HEAD(connq, connection);
LIST_HEAD(connlist, connection);

static struct percore {
	struct connq live;
	struct connlist hash[NBUCKETS];
	uint64_t start_snd, start_rcv;	/* CONN_START at each hook */
	uint64_t end_snd, end_rcv;	/* CONN_END at each hook */
	uint64_t ended;			/* connections taken off the list */
	uint64_t strange;		/* a start for a live socket, an end for an unknown one */
	uint64_t failed;		/* calls that returned an error */
	uint64_t ticks;
} g_core[MAX_CORES];

static mctx_t g_mctx[MAX_CORES];
static int g_max_cores = 1;
static int g_ticks_left = -1;		/* -n: stop the timer after so many ticks */
static const struct timeval tv_1sec = { .tv_sec = 1, .tv_usec = 0 };

static const char *const state_name[] = {
	"CLOSED", "LISTEN", "SYN_SENT", "SYN_RCVD", "ESTABLISHED", "FIN_WAIT_1",
	"FIN_WAIT_2", "CLOSE_WAIT", "CLOSING", "LAST_ACK", "TIME_WAIT"
};

static const char *
state_str(int s)
{
	if (s < 0 || s >= (int)(sizeof(state_name) / sizeof(state_name[0])))
		return "?";
	return state_name[s];
}

static struct connection *
find_connection(int cpu, int sock)
{
	struct connection *c;

	LIST_FOREACH(c, &g_core[cpu].hash[(unsigned)sock % NBUCKETS], hlink)
		if (c->sock == sock)
			return c;
	return NULL;
}

static void
get_state(mctx_t mctx, struct connection *c, int side)
{
	socklen_t len = sizeof(int);
	int r;

	if (side == MOS_SIDE_CLI)
		r = mtcp_getsockopt(mctx, c->sock, SOL_MONSOCKET, MOS_TCP_STATE_CLI, &c->cli_state, &len);
	else
		r = mtcp_getsockopt(mctx, c->sock, SOL_MONSOCKET, MOS_TCP_STATE_SVR, &c->svr_state, &len);
	if (r < 0)
		g_core[mctx->cpu].failed++;
}

static void
print_stat(mctx_t mctx, int id, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct connection *c;
	struct timeval tv = tv_1sec;
	char a[INET_ADDRSTRLEN], b[INET_ADDRSTRLEN];
	int n = 0;

	(void)side; (void)event; (void)arg;
	pc->ticks++;
	TAILQ_FOREACH(c, &pc->live, link) {
		/* read the states again: they must agree with the ones seen at the last change */
		int cli = c->cli_state, svr = c->svr_state;

		get_state(mctx, c, MOS_SIDE_CLI);
		get_state(mctx, c, MOS_SIDE_SVR);
		inet_ntop(AF_INET, &c->addrs[0].sin_addr, a, sizeof(a));
		inet_ntop(AF_INET, &c->addrs[1].sin_addr, b, sizeof(b));
		printf("cpu %d tick %llu %s:%u %s:%u %s %s%s\n", mctx->cpu, (unsigned long long)pc->ticks,
		       a, ntohs(c->addrs[0].sin_port), b, ntohs(c->addrs[1].sin_port),
		       state_str(c->cli_state), state_str(c->svr_state),
		       (cli != c->cli_state || svr != c->svr_state) ? " (changed without event)" : "");
		n++;
	}
	printf("cpu %d tick %llu live %d\n", mctx->cpu, (unsigned long long)pc->ticks, n);
	fflush(stdout);

	if (g_ticks_left >= 0 && pc->ticks >= (uint64_t)g_ticks_left)
		return;
	if (mtcp_settimer(mctx, id, &tv, print_stat) < 0)	/* fires once, so again */
		pc->failed++;
}

static void
on_start_snd(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	socklen_t len = sizeof(struct sockaddr) * 2;
	struct connection *c;

	(void)event; (void)arg;
	pc->start_snd++;
	if (side != MOS_SIDE_CLI || find_connection(mctx->cpu, sock)) {
		pc->strange++;
		return;
	}
	if (!(c = calloc(1, sizeof(*c))))
		return;
	c->sock = sock;
	if (mtcp_getpeername(mctx, sock, (struct sockaddr *)c->addrs, &len, MOS_SIDE_BOTH) < 0) {
		TRACE_ERROR("mtcp_getpeername: %s\n", strerror(errno));
		pc->failed++;
		free(c);
		return;
	}
	get_state(mctx, c, MOS_SIDE_CLI);
	get_state(mctx, c, MOS_SIDE_SVR);
	TAILQ_INSERT_TAIL(&pc->live, c, link);
	LIST_INSERT_HEAD(&pc->hash[(unsigned)sock % NBUCKETS], c, hlink);
}

static void
on_start_rcv(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	(void)event; (void)arg;
	g_core[mctx->cpu].start_rcv++;
	if (side != MOS_SIDE_SVR || !find_connection(mctx->cpu, sock))
		g_core[mctx->cpu].strange++;
}

static void
on_change(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct connection *c = find_connection(mctx->cpu, sock);

	(void)event; (void)arg;
	if (c)		/* the change to SYN_SENT may come before the list has it */
		get_state(mctx, c, side);
}

static void
on_end_rcv(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	(void)sock; (void)side; (void)event; (void)arg;
	g_core[mctx->cpu].end_rcv++;
}

static void
on_end_snd(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct connection *c = find_connection(mctx->cpu, sock);

	(void)side; (void)event; (void)arg;
	pc->end_snd++;
	if (!c) {
		pc->strange++;
		return;
	}
	TAILQ_REMOVE(&pc->live, c, link);
	LIST_REMOVE(c, hlink);
	free(c);
	pc->ended++;
}

static void
init_monitor(mctx_t mctx)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct timeval tv = tv_1sec;
	int sock, optval = 0, i;

	TAILQ_INIT(&pc->live);
	for (i = 0; i < NBUCKETS; i++)
		LIST_INIT(&pc->hash[i]);

	if ((sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0)) < 0) {
		TRACE_ERROR("mtcp_socket: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	/* states only: no stream buffers */
	if (mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &optval, sizeof(optval)) < 0 ||
	    mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &optval, sizeof(optval)) < 0) {
		TRACE_ERROR("mtcp_setsockopt: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (mtcp_register_callback(mctx, sock, MOS_ON_CONN_START, MOS_HK_SND, on_start_snd) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_CONN_START, MOS_HK_RCV, on_start_rcv) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_TCP_STATE_CHANGE, MOS_HK_SND, on_change) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_TCP_STATE_CHANGE, MOS_HK_RCV, on_change) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_CONN_END, MOS_HK_SND, on_end_snd) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_CONN_END, MOS_HK_RCV, on_end_rcv) < 0) {
		TRACE_ERROR("mtcp_register_callback: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (mtcp_settimer(mctx, sock, &tv, print_stat) < 0) {
		TRACE_ERROR("mtcp_settimer: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
}

static void
sigint_handler(int signum)
{
	int i;

	(void)signum;
	/* ends the threads: mtcp_app_join returns and main prints the totals */
	for (i = 0; i < g_max_cores; i++) {
		mctx_t m = g_mctx[i];

		g_mctx[i] = NULL;
		if (m)
			mtcp_destroy_context(m);
	}
}

int
main(int argc, char **argv)
{
	const char *fname = "mos.conf";
	struct mtcp_conf mcfg;
	struct percore t;
	struct connection *c;
	unsigned long long live = 0;
	int opt, i;

	while ((opt = getopt(argc, argv, "c:f:n:")) != -1) {
		switch (opt) {
		case 'c': g_max_cores = atoi(optarg); break;
		case 'f': fname = optarg; break;
		case 'n': g_ticks_left = atoi(optarg); break;
		default:
			fprintf(stderr, "usage: %s [-f mos.conf] [-c cores] [-n ticks]\n", argv[0]);
			return EXIT_FAILURE;
		}
	}
	if (g_max_cores < 1 || g_max_cores > MAX_CORES || g_max_cores > GetNumCPUs()) {
		fprintf(stderr, "bad number of cores: %d (this machine has %d)\n", g_max_cores, GetNumCPUs());
		return EXIT_FAILURE;
	}
	if (mtcp_init(fname)) {
		fprintf(stderr, "mtcp_init(%s) failed\n", fname);
		return EXIT_FAILURE;
	}
	mtcp_getconf(&mcfg);
	mcfg.num_cores = g_max_cores;
	mtcp_setconf(&mcfg);
	mtcp_register_signal(SIGINT, sigint_handler);

	for (i = 0; i < g_max_cores; i++) {
		if (!(g_mctx[i] = mtcp_create_context(i))) {
			fprintf(stderr, "mtcp_create_context(%d) failed\n", i);
			return EXIT_FAILURE;
		}
		init_monitor(g_mctx[i]);
	}
	for (i = 0; i < g_max_cores; i++)
		if (g_mctx[i])
			mtcp_app_join(g_mctx[i]);
	for (i = 0; i < g_max_cores; i++)
		if (g_mctx[i])
			mtcp_destroy_context(g_mctx[i]);
	mtcp_destroy();

	memset(&t, 0, sizeof(t));
	for (i = 0; i < g_max_cores; i++) {
		t.start_snd += g_core[i].start_snd;
		t.start_rcv += g_core[i].start_rcv;
		t.end_snd += g_core[i].end_snd;
		t.end_rcv += g_core[i].end_rcv;
		t.ended += g_core[i].ended;
		t.strange += g_core[i].strange;
		t.failed += g_core[i].failed;
		TAILQ_FOREACH(c, &g_core[i].live, link)
			live++;
	}
	printf("total started_snd=%llu started_rcv=%llu end_snd=%llu end_rcv=%llu ended=%llu live=%llu strange=%llu failed=%llu\n",
	       (unsigned long long)t.start_snd, (unsigned long long)t.start_rcv,
	       (unsigned long long)t.end_snd, (unsigned long long)t.end_rcv, (unsigned long long)t.ended,
	       live, (unsigned long long)t.strange, (unsigned long long)t.failed);
	return 0;
}
