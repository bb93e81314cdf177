/* nat: source NAT for TCP.  Packets of the client leave with an external address and a port of the pool;
 * packets of the server get back the client's address and port.
 *   nat -f mos.conf -e 203.0.113.1 [-p 10000-19999] [-s] [-v]
 * The pool is a queue: ports are handed out in rising order, a freed one goes to the tail. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <sys/queue.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>

#include <mos_api.h>
#include <mtcp_api.h>
#include "cpu.h"
#include "debug.h"
#ifdef NAT_RSS
#include "rss.h"
#endif

#define MAX_CORES 16

struct port {
	in_port_t port;			/* network order */
	TAILQ_ENTRY(port) link;
};
TAILQ_HEAD(portq, port);

struct binding {
	in_addr_t cli_addr;		/* as seen inside, network order */
	in_port_t cli_port;
	struct port *ext;
};

static struct percore {
	struct portq pool;
	uint64_t bound, freed, exhausted, out, in, failed, ends;
} g_core[MAX_CORES];

static mctx_t g_mctx[MAX_CORES];
static int g_max_cores = 1;
static in_addr_t g_ext_addr;
static int g_first = 10000, g_last = 19999;
static int g_separate;			/* -s: checksums in a call of their own */
static int g_verbose;

static struct port *
take_port(mctx_t mctx, in_addr_t svr, in_port_t svr_port)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct port *p;

#ifdef NAT_RSS
	/* answers must come to this core again */
	TAILQ_FOREACH(p, &pc->pool, link)
		if (GetRSSCPUCore(svr, g_ext_addr, svr_port, p->port, g_max_cores) == mctx->cpu)
			break;
#else
	(void)svr; (void)svr_port;
	p = TAILQ_FIRST(&pc->pool);
#endif
	if (p)
		TAILQ_REMOVE(&pc->pool, p, link);
	return p;
}

static struct binding *
bind_flow(mctx_t mctx, int sock, int side)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct pkt_info pi;
	struct binding *b;
	char a[INET_ADDRSTRLEN];

	if (mtcp_getlastpkt(mctx, sock, side, &pi) < 0) {
		pc->failed++;
		return NULL;
	}
	if (!(b = calloc(1, sizeof(*b))))
		return NULL;
	b->cli_addr = pi.iph->saddr;
	b->cli_port = pi.tcph->source;
	if (!(b->ext = take_port(mctx, pi.iph->daddr, pi.tcph->dest))) {
		pc->exhausted++;
		free(b);
		return NULL;
	}
	pc->bound++;
	mtcp_set_uctx(mctx, sock, b);
	if (g_verbose) {
		inet_ntop(AF_INET, &b->cli_addr, a, sizeof(a));
		printf("bind %s:%u %u\n", a, ntohs(b->cli_port), ntohs(b->ext->port));
	}
	return b;
}

static int
rewrite(mctx_t mctx, int sock, int side, off_t ip_off, in_addr_t addr, off_t tcp_off, in_port_t port)
{
	int ipopt = MOS_IP_HDR | MOS_OVERWRITE;
	int tcpopt = MOS_TCP_HDR | MOS_OVERWRITE;

	if (!g_separate) {
		ipopt |= MOS_UPDATE_IP_CHKSUM;
		tcpopt |= MOS_UPDATE_TCP_CHKSUM;	/* last: the pseudo header has the new address by now */
	}
	if (mtcp_setlastpkt(mctx, sock, side, ip_off, (uint8_t *)&addr, sizeof(addr), ipopt) < 0)
		return -1;
	if (mtcp_setlastpkt(mctx, sock, side, tcp_off, (uint8_t *)&port, sizeof(port), tcpopt) < 0)
		return -1;
	if (g_separate)
		return mtcp_setlastpkt(mctx, sock, side, 0, NULL, 0, MOS_UPDATE_IP_CHKSUM | MOS_UPDATE_TCP_CHKSUM);
	return 0;
}

static void
on_pkt_snd(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct binding *b = mtcp_get_uctx(mctx, sock);
	int r;

	(void)event; (void)arg;
	if (!b && side == MOS_SIDE_CLI)		/* PKT_IN comes before CONN_START, so bind here */
		b = bind_flow(mctx, sock, side);
	if (!b) {
		/* no port left: nothing of this flow may leave with an inside address */
		if (mtcp_setlastpkt(mctx, sock, side, 0, NULL, 0, MOS_DROP) < 0)
			pc->failed++;
		return;
	}
	if (side == MOS_SIDE_CLI) {
		r = rewrite(mctx, sock, side, offsetof(struct iphdr, saddr), g_ext_addr,
			    offsetof(struct tcphdr, source), b->ext->port);
		pc->out++;
	} else {
		r = rewrite(mctx, sock, side, offsetof(struct iphdr, daddr), b->cli_addr,
			    offsetof(struct tcphdr, dest), b->cli_port);
		pc->in++;
	}
	if (r < 0) {
		TRACE_ERROR("mtcp_setlastpkt: %s\n", strerror(errno));
		pc->failed++;
	}
}

static void
on_end_snd(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct binding *b = mtcp_get_uctx(mctx, sock);

	(void)side; (void)event; (void)arg;
	pc->ends++;
	if (!b)
		return;
	mtcp_set_uctx(mctx, sock, NULL);	/* whether END comes once or once a side */
	TAILQ_INSERT_TAIL(&pc->pool, b->ext, link);
	pc->freed++;
	free(b);
}

static void
init_monitor(mctx_t mctx)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct port *p;
	int sock, optval = 0, i;

	TAILQ_INIT(&pc->pool);
	for (i = g_first + mctx->cpu; i <= g_last; i += g_max_cores) {
		if (!(p = calloc(1, sizeof(*p))))
			exit(EXIT_FAILURE);
		p->port = htons(i);
		TAILQ_INSERT_TAIL(&pc->pool, p, link);
	}
	if ((sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0)) < 0) {
		TRACE_ERROR("mtcp_socket: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &optval, sizeof(optval)) < 0 ||
	    mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &optval, sizeof(optval)) < 0) {
		TRACE_ERROR("mtcp_setsockopt: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (mtcp_register_callback(mctx, sock, MOS_ON_PKT_IN, MOS_HK_SND, on_pkt_snd) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_CONN_END, MOS_HK_SND, on_end_snd) < 0) {
		TRACE_ERROR("mtcp_register_callback: %s\n", strerror(errno));
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
	int opt, i;

	while ((opt = getopt(argc, argv, "c:f:e:p:sv")) != -1) {
		switch (opt) {
		case 'c': g_max_cores = atoi(optarg); break;
		case 'f': fname = optarg; break;
		case 'e':
			if (inet_pton(AF_INET, optarg, &g_ext_addr) != 1) {
				fprintf(stderr, "bad address: %s\n", optarg);
				return EXIT_FAILURE;
			}
			break;
		case 'p':
			if (sscanf(optarg, "%d-%d", &g_first, &g_last) != 2 || g_first < 1 ||
			    g_last < g_first || g_last > 65535) {
				fprintf(stderr, "bad ports: %s\n", optarg);
				return EXIT_FAILURE;
			}
			break;
		case 's': g_separate = 1; break;
		case 'v': g_verbose = 1; break;
		default:
			goto usage;
		}
	}
	if (!g_ext_addr) {
usage:
		fprintf(stderr, "usage: %s [-f mos.conf] [-c cores] -e address [-p first-last] [-s] [-v]\n", argv[0]);
		return EXIT_FAILURE;
	}
	if (g_max_cores < 1 || g_max_cores > MAX_CORES || g_max_cores > GetNumCPUs()) {
		fprintf(stderr, "bad number of cores: %d\n", g_max_cores);
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
		t.bound += g_core[i].bound;
		t.freed += g_core[i].freed;
		t.ends += g_core[i].ends;
		t.exhausted += g_core[i].exhausted;
		t.out += g_core[i].out;
		t.in += g_core[i].in;
		t.failed += g_core[i].failed;
	}
	printf("total bound=%llu freed=%llu ends=%llu exhausted=%llu from_client=%llu from_server=%llu failed=%llu\n",
	       (unsigned long long)t.bound, (unsigned long long)t.freed, (unsigned long long)t.ends,
	       (unsigned long long)t.exhausted, (unsigned long long)t.out, (unsigned long long)t.in,
	       (unsigned long long)t.failed);
	return 0;
}
