/* bytes: counts and hashes (FNV-1a, 64 bits) what each side of a connection receives, and compares
 * retransmitted bytes with the ones in the buffer.  One line a connection, when it ends:
 *   client:port server:port bytes_to_server hash bytes_to_client hash rexmit changed
 * rexmit: REXMIT events with a payload; changed: bytes in them that differ from the buffer.
 *   bytes -f mos.conf [-b buffer] [-o overlap] [-q]
 * -b bytes of each buffer (else rmem_size of mos.conf), -o 0|1 overlap policy for both sides,
 * -q: do not drain in ERROR (so that mtcp_peek shows the loss). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
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

#define MAX_CORES 16
#define FNV_BASIS 0xcbf29ce484222325ULL
#define FNV_PRIME 0x100000001b3ULL

struct flow {
	struct sockaddr_in addrs[2];
	uint64_t bytes[2];		/* by receiving side: MOS_SIDE_CLI, MOS_SIDE_SVR */
	uint64_t hash[2];
	uint64_t lost[2];
	uint64_t rexmit, changed, compared;
	uint64_t errors;
	TAILQ_ENTRY(flow) link;
};
TAILQ_HEAD(flowq, flow);

static struct percore {
	struct flowq live;
	uint64_t started, ended, new_data, errors, lost, syn_rexmit, no_old, failed;
	char old[65536];
	char buf[16384];
} g_core[MAX_CORES];

static mctx_t g_mctx[MAX_CORES];
static int g_max_cores = 1;
static int g_bufsize = -1, g_overlap = -1, g_quiet_error;

static uint64_t
fnv1a(uint64_t h, const char *p, size_t n)
{
	while (n--) {
		h ^= (unsigned char)*p++;
		h *= FNV_PRIME;
	}
	return h;
}

static struct flow *
get_flow(mctx_t mctx, int sock)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct flow *f = mtcp_get_uctx(mctx, sock);
	socklen_t len = sizeof(struct sockaddr) * 2;

	if (f)
		return f;
	if (!(f = calloc(1, sizeof(*f))))
		return NULL;
	f->hash[0] = f->hash[1] = FNV_BASIS;
	if (mtcp_getpeername(mctx, sock, (struct sockaddr *)f->addrs, &len, MOS_SIDE_BOTH) < 0) {
		TRACE_ERROR("mtcp_getpeername: %s\n", strerror(errno));
		pc->failed++;
	}
	TAILQ_INSERT_TAIL(&pc->live, f, link);
	mtcp_set_uctx(mctx, sock, f);
	pc->started++;
	return f;
}

static void
print_flow(const struct flow *f)
{
	char a[INET_ADDRSTRLEN], b[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &f->addrs[0].sin_addr, a, sizeof(a));
	inet_ntop(AF_INET, &f->addrs[1].sin_addr, b, sizeof(b));
	printf("%s:%u %s:%u %llu %016llx %llu %016llx %llu %llu\n",
	       a, ntohs(f->addrs[0].sin_port), b, ntohs(f->addrs[1].sin_port),
	       (unsigned long long)f->bytes[MOS_SIDE_SVR], (unsigned long long)f->hash[MOS_SIDE_SVR],
	       (unsigned long long)f->bytes[MOS_SIDE_CLI], (unsigned long long)f->hash[MOS_SIDE_CLI],
	       (unsigned long long)f->rexmit, (unsigned long long)f->changed);
}

/* Read what the side has received so far. */
static void
drain(mctx_t mctx, int sock, int side, struct flow *f)
{
	struct percore *pc = &g_core[mctx->cpu];
	ssize_t n;

	for (;;) {
		errno = 0;
		n = mtcp_peek(mctx, sock, side, pc->buf, sizeof(pc->buf));
		if (n > 0) {
			f->bytes[side] += n;
			f->hash[side] = fnv1a(f->hash[side], pc->buf, n);
		} else if (n < 0 && errno == ENODATA) {		/* -n bytes were overwritten; once */
			f->lost[side] += -n;
			pc->lost += -n;
		} else {
			break;
		}
	}
}

static void
on_start(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	(void)side; (void)event; (void)arg;
	get_flow(mctx, sock);
}

static void
on_new_data(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct flow *f = get_flow(mctx, sock);

	(void)event; (void)arg;
	g_core[mctx->cpu].new_data++;
	if (!f || (side != MOS_SIDE_CLI && side != MOS_SIDE_SVR)) {
		g_core[mctx->cpu].failed++;
		return;
	}
	drain(mctx, sock, side, f);
}

static void
on_error(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct flow *f = get_flow(mctx, sock);

	(void)event; (void)arg;
	g_core[mctx->cpu].errors++;
	if (!f || (side != MOS_SIDE_CLI && side != MOS_SIDE_SVR)) {
		g_core[mctx->cpu].failed++;
		return;
	}
	f->errors++;
	if (!g_quiet_error)
		drain(mctx, sock, side, f);
}

static void
on_rexmit(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct flow *f = get_flow(mctx, sock);
	struct pkt_info p;
	uint32_t i, k, len, found = 0;
	ssize_t n;

	(void)event; (void)arg;
	if (!f || mtcp_getlastpkt(mctx, sock, side, &p) < 0) {
		pc->failed++;
		return;
	}
	if (p.payloadlen == 0) {		/* repeated SYN or SYN/ACK */
		pc->syn_rexmit++;
		return;
	}
	f->rexmit++;
	len = p.payloadlen;
	/* The packet may begin or end in a hole: step over bytes that the buffer does not have. */
	for (i = 0; i < len; ) {
		n = mtcp_ppeek(mctx, sock, side, pc->old, len - i, p.offset + i);
		if (n <= 0) {
			i++;
			continue;
		}
		if ((uint32_t)n > len - i)
			n = len - i;
		for (k = 0; k < (uint32_t)n; k++)
			f->changed += pc->old[k] != (char)p.payload[i + k];
		found += n;
		i += n;
	}
	f->compared += found;
	if (!found)
		pc->no_old++;			/* nothing left in the buffer to compare with */
}

static void
on_end(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct flow *f = mtcp_get_uctx(mctx, sock);

	(void)side; (void)event; (void)arg;
	if (!f)
		return;
	drain(mctx, sock, MOS_SIDE_SVR, f);	/* data that came in the batch of the end */
	drain(mctx, sock, MOS_SIDE_CLI, f);
	mtcp_set_uctx(mctx, sock, NULL);
	print_flow(f);
	TAILQ_REMOVE(&pc->live, f, link);
	free(f);
	pc->ended++;
}

static void
init_monitor(mctx_t mctx)
{
	int sock;

	TAILQ_INIT(&g_core[mctx->cpu].live);
	if ((sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0)) < 0) {
		TRACE_ERROR("mtcp_socket: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (g_bufsize >= 0 &&
	    (mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &g_bufsize, sizeof(g_bufsize)) < 0 ||
	     mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &g_bufsize, sizeof(g_bufsize)) < 0)) {
		TRACE_ERROR("mtcp_setsockopt(buffer): %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (g_overlap >= 0 &&
	    (mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIOVERLAP, &g_overlap, sizeof(g_overlap)) < 0 ||
	     mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVROVERLAP, &g_overlap, sizeof(g_overlap)) < 0)) {
		TRACE_ERROR("mtcp_setsockopt(overlap): %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (mtcp_register_callback(mctx, sock, MOS_ON_CONN_START, MOS_HK_SND, on_start) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_CONN_NEW_DATA, MOS_NULL, on_new_data) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_ERROR, MOS_NULL, on_error) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_REXMIT, MOS_HK_RCV, on_rexmit) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_CONN_END, MOS_HK_SND, on_end) < 0) {
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
	struct flow *f;
	unsigned long long started = 0, ended = 0, open = 0, newdata = 0, errors = 0, lost = 0, synre = 0, noold = 0, failed = 0;
	int opt, i;

	while ((opt = getopt(argc, argv, "c:f:b:o:q")) != -1) {
		switch (opt) {
		case 'c': g_max_cores = atoi(optarg); break;
		case 'f': fname = optarg; break;
		case 'b': g_bufsize = atoi(optarg); break;
		case 'o': g_overlap = atoi(optarg); break;
		case 'q': g_quiet_error = 1; break;
		default:
			fprintf(stderr, "usage: %s [-f mos.conf] [-c cores] [-b buffer] [-o 0|1] [-q]\n", argv[0]);
			return EXIT_FAILURE;
		}
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

	/* connections that never got an END: same line */
	for (i = 0; i < g_max_cores; i++) {
		TAILQ_FOREACH(f, &g_core[i].live, link) {
			print_flow(f);
			open++;
		}
		started += g_core[i].started;
		ended += g_core[i].ended;
		newdata += g_core[i].new_data;
		errors += g_core[i].errors;
		lost += g_core[i].lost;
		synre += g_core[i].syn_rexmit;
		noold += g_core[i].no_old;
		failed += g_core[i].failed;
	}
	fflush(stdout);
	fprintf(stderr, "total started=%llu ended=%llu open=%llu new_data=%llu errors=%llu lost=%llu syn_rexmit=%llu not_compared=%llu failed=%llu\n",
		started, ended, open, newdata, errors, lost, synre, noold, failed);
	return 0;
}
