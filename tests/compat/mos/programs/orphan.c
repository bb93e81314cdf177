/* orphan: follows the connections to one port only, and counts what is left over.
 *   orphan -f mos.conf [-p port] [-o orphan filter] [-r raw filter]...
 * A stream socket with the SYN filter "tcp dst port PORT" and an orphan filter, and one raw socket
 * for each -r (default: "tcp", "tcp port PORT", "not tcp"). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>

#include <mos_api.h>
#include <mtcp_api.h>
#include "cpu.h"
#include "debug.h"

#define MAX_CORES 16
#define MAX_RAW   8

static struct percore {
	int raw_sock[MAX_RAW];
	uint64_t raw[MAX_RAW], raw_unknown, raw_bytes[MAX_RAW];
	uint64_t flows, foreign;			/* CONN_START; of another port than ours */
	uint64_t orphans, orphan_syn, orphan_rst, orphan_other, orphan_not_tcp, orphan_wrong_side;
	uint64_t flow_pkts, failed;
} g_core[MAX_CORES];

static mctx_t g_mctx[MAX_CORES];
static int g_max_cores = 1;
static int g_port = 80;
static char g_syn_filter[64], g_port_filter[64];
static char *g_orphan_filter = "tcp";
static char *g_raw_filter[MAX_RAW];
static int g_nraw;

static void
on_raw(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct pkt_info p;
	int i;

	(void)event; (void)arg;
	for (i = 0; i < g_nraw; i++)
		if (pc->raw_sock[i] == sock)
			break;
	if (i == g_nraw) {
		pc->raw_unknown++;
		return;
	}
	pc->raw[i]++;
	if (mtcp_getlastpkt(mctx, sock, side, &p) < 0)
		pc->failed++;
	else
		pc->raw_bytes[i] += p.eth_len;
}

static void
on_orphan(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct pkt_info p;

	(void)event; (void)arg;
	pc->orphans++;
	if (side != MOS_SIDE_BOTH)
		pc->orphan_wrong_side++;
	if (mtcp_getlastpkt(mctx, sock, side, &p) < 0) {
		pc->failed++;
		return;
	}
	if (p.iph->protocol != IPPROTO_TCP)
		pc->orphan_not_tcp++;
	else if (p.tcph->syn && !p.tcph->ack)
		pc->orphan_syn++;
	else if (p.tcph->rst)
		pc->orphan_rst++;
	else
		pc->orphan_other++;
}

static void
on_start(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct sockaddr_in addrs[2];
	socklen_t len = sizeof(struct sockaddr) * 2;

	(void)side; (void)event; (void)arg;
	pc->flows++;
	if (mtcp_getpeername(mctx, sock, (struct sockaddr *)addrs, &len, MOS_SIDE_BOTH) < 0)
		pc->failed++;
	else if (ntohs(addrs[1].sin_port) != g_port)
		pc->foreign++;
}

static void
on_pkt(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	(void)sock; (void)side; (void)event; (void)arg;
	g_core[mctx->cpu].flow_pkts++;
}

static void
init_monitor(mctx_t mctx)
{
	struct percore *pc = &g_core[mctx->cpu];
	union monitor_filter ft;
	int sock, i, optval = 0;

	for (i = 0; i < g_nraw; i++) {
		if ((sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_RAW, 0)) < 0) {
			TRACE_ERROR("mtcp_socket(raw): %s\n", strerror(errno));
			exit(EXIT_FAILURE);
		}
		memset(&ft, 0, sizeof(ft));
		ft.raw_pkt_filter = g_raw_filter[i];
		if (mtcp_bind_monitor_filter(mctx, sock, &ft) < 0 ||
		    mtcp_register_callback(mctx, sock, MOS_ON_PKT_IN, MOS_NULL, on_raw) < 0) {
			TRACE_ERROR("raw socket \"%s\": %s\n", g_raw_filter[i], strerror(errno));
			exit(EXIT_FAILURE);
		}
		pc->raw_sock[i] = sock;
	}

	if ((sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0)) < 0) {
		TRACE_ERROR("mtcp_socket(stream): %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	memset(&ft, 0, sizeof(ft));
	ft.stream_syn_filter = g_syn_filter;
	ft.stream_orphan_filter = g_orphan_filter;
	if (mtcp_bind_monitor_filter(mctx, sock, &ft) < 0) {
		TRACE_ERROR("mtcp_bind_monitor_filter: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &optval, sizeof(optval)) < 0 ||
	    mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &optval, sizeof(optval)) < 0) {
		TRACE_ERROR("mtcp_setsockopt: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (mtcp_register_callback(mctx, sock, MOS_ON_ORPHAN, MOS_NULL, on_orphan) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_CONN_START, MOS_HK_SND, on_start) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_PKT_IN, MOS_HK_SND, on_pkt) < 0) {
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
	int opt, i, k;

	while ((opt = getopt(argc, argv, "c:f:p:o:r:")) != -1) {
		switch (opt) {
		case 'c': g_max_cores = atoi(optarg); break;
		case 'f': fname = optarg; break;
		case 'p': g_port = atoi(optarg); break;
		case 'o': g_orphan_filter = optarg; break;
		case 'r':
			if (g_nraw < MAX_RAW) {
				g_raw_filter[g_nraw++] = optarg;
				break;
			}
			/* fall through */
		default:
			fprintf(stderr, "usage: %s [-f mos.conf] [-c cores] [-p port] [-o filter] [-r filter]... (at most %d)\n",
				argv[0], MAX_RAW);
			return EXIT_FAILURE;
		}
	}
	snprintf(g_syn_filter, sizeof(g_syn_filter), "tcp dst port %d", g_port);
	if (g_nraw == 0) {
		snprintf(g_port_filter, sizeof(g_port_filter), "tcp port %d", g_port);
		g_raw_filter[g_nraw++] = "tcp";
		g_raw_filter[g_nraw++] = g_port_filter;
		g_raw_filter[g_nraw++] = "not tcp";
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
		for (k = 0; k < g_nraw; k++) {
			t.raw[k] += g_core[i].raw[k];
			t.raw_bytes[k] += g_core[i].raw_bytes[k];
		}
		t.raw_unknown += g_core[i].raw_unknown;
		t.flows += g_core[i].flows;
		t.foreign += g_core[i].foreign;
		t.flow_pkts += g_core[i].flow_pkts;
		t.orphans += g_core[i].orphans;
		t.orphan_syn += g_core[i].orphan_syn;
		t.orphan_rst += g_core[i].orphan_rst;
		t.orphan_other += g_core[i].orphan_other;
		t.orphan_not_tcp += g_core[i].orphan_not_tcp;
		t.orphan_wrong_side += g_core[i].orphan_wrong_side;
		t.failed += g_core[i].failed;
	}
	for (k = 0; k < g_nraw; k++)
		printf("raw \"%s\" packets=%llu bytes=%llu\n", g_raw_filter[k],
		       (unsigned long long)t.raw[k], (unsigned long long)t.raw_bytes[k]);
	printf("total flows=%llu foreign=%llu flow_packets=%llu orphans=%llu syn=%llu rst=%llu other=%llu not_tcp=%llu wrong_side=%llu raw_unknown=%llu failed=%llu\n",
	       (unsigned long long)t.flows, (unsigned long long)t.foreign, (unsigned long long)t.flow_pkts,
	       (unsigned long long)t.orphans, (unsigned long long)t.orphan_syn, (unsigned long long)t.orphan_rst,
	       (unsigned long long)t.orphan_other, (unsigned long long)t.orphan_not_tcp,
	       (unsigned long long)t.orphan_wrong_side, (unsigned long long)t.raw_unknown, (unsigned long long)t.failed);
	return 0;
}
