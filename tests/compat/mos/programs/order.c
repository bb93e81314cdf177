/* order: logs every callback.  Sockets: RAW (BPF filter), S1 and S2 (stream, made in this order).
 *   order -f mos.conf [-r raw filter] [-1 SYN filter of S1] [-2 SYN filter of S2] [-g min payload]
 * Lines:
 *   reg KIND EVENT HOOK ok|errno ...            what each registration gave (and what the rules say)
 *   cb  N ts KIND sock HOOK SIDE EVENT seq=.. flags=.. len=..  |  ... nopkt
 *   filter counts at the end
 * User-defined events:
 *   PKT_IN ─┬─ DATA (payload)  ─┬─ PSH (PSH flag)
 *           │                   └─ BIG (payload of at least -g bytes; the limit is the filter's argument)
 *           └─ CTL (SYN, FIN or RST) ─── FIN (mtcp_alloc_event; raised by CTL's filter)
 *   TCP_STATE_CHANGE ─── EST (the side is ESTABLISHED)                                             */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <stdbool.h>
#include <inttypes.h>
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

static mctx_t g_mctx[MAX_CORES];
static int g_max_cores = 1;
static char *g_raw_filter = "tcp", *g_syn1, *g_syn2;
static int g_min = 100;
static uint64_t g_seq;			/* number of the callback; run with one core for a strict order */

enum { E_DATA, E_PSH, E_BIG, E_CTL, E_FIN, E_EST, NUSER };
static event_t g_user[NUSER];
static uint64_t g_filter_runs[NUSER], g_raised, g_raise_failed, g_raise_outside_refused, g_raise_outside_accepted;

static const struct evname {
	event_t ev;
	const char *name;
} g_builtin[] = {
	{ MOS_ON_PKT_IN, "PKT_IN" },
	{ MOS_ON_CONN_START, "CONN_START" },
	{ MOS_ON_CONN_NEW_DATA, "CONN_NEW_DATA" },
	{ MOS_ON_ERROR, "ERROR" },
	{ MOS_ON_TIMEOUT, "TIMEOUT" },
	{ MOS_ON_TCP_STATE_CHANGE, "TCP_STATE_CHANGE" },
	{ MOS_ON_ORPHAN, "ORPHAN" },
	{ MOS_ON_REXMIT, "REXMIT" },
	{ MOS_ON_CONN_END, "CONN_END" },
};
#define NBUILTIN ((int)(sizeof(g_builtin) / sizeof(g_builtin[0])))
static const char *const g_user_name[NUSER] = { "U_DATA", "U_PSH", "U_BIG", "U_CTL", "U_FIN", "U_EST" };

static const char *
event_name(event_t ev)
{
	int i;

	for (i = 0; i < NBUILTIN; i++)
		if (ev == g_builtin[i].ev)
			return g_builtin[i].name;
	for (i = 0; i < NUSER; i++)
		if (ev == g_user[i])
			return g_user_name[i];
	return "UNKNOWN";
}

static const char *
side_name(int side)
{
	return side == MOS_SIDE_CLI ? "CLI" : side == MOS_SIDE_SVR ? "SVR" : side == MOS_SIDE_BOTH ? "BOTH" : "?";
}

static void
log_cb(mctx_t mctx, int sock, int side, event_t event, const char *kind, const char *hook)
{
	struct pkt_info p;
	char fl[8], *q = fl;
	uint64_t n = __atomic_add_fetch(&g_seq, 1, __ATOMIC_RELAXED);

	flockfile(stdout);
	printf("cb %" PRIu64 " %" PRIu32 " %s %d %s %s %s", n, mtcp_cb_get_ts(mctx), kind, sock, hook,
	       side_name(side), event_name(event));
	memset(&p, 0, sizeof(p));
	errno = 0;
	if (mtcp_getlastpkt(mctx, sock, side, &p) < 0) {
		printf(" nopkt errno=%d\n", errno);
	} else if (!p.iph || p.iph->protocol != IPPROTO_TCP || !p.tcph) {
		printf(" nottcp\n");
	} else {
		if (p.tcph->syn) *q++ = 'S';
		if (p.tcph->fin) *q++ = 'F';
		if (p.tcph->rst) *q++ = 'R';
		if (p.tcph->psh) *q++ = 'P';
		if (p.tcph->ack) *q++ = 'A';
		if (q == fl) *q++ = '.';
		*q = '\0';
		printf(" seq=%" PRIu32 " flags=%s len=%u%s\n", p.seq, fl, (unsigned)p.payloadlen,
		       p.seq == ntohl(p.tcph->seq) ? "" : " (seq differs from header)");
	}
	funlockfile(stdout);
}

#define CB(name, kind, hook)									\
static void name(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)		\
{												\
	(void)arg;										\
	log_cb(mctx, sock, side, event, kind, hook);						\
}
CB(raw_null, "RAW", "NULL")
CB(raw_rcv, "RAW", "RCV")
CB(raw_snd, "RAW", "SND")
CB(s1_null, "S1", "NULL")
CB(s1_rcv, "S1", "RCV")
CB(s1_snd, "S1", "SND")
CB(s2_null, "S2", "NULL")
CB(s2_rcv, "S2", "RCV")
CB(s2_snd, "S2", "SND")

/* NEW_DATA must be read, or it comes again after the next batch */
static void
read_all(mctx_t mctx, int sock, int side, const char *kind)
{
	char buf[4096];
	ssize_t n;
	long long got = 0;

	while ((n = mtcp_peek(mctx, sock, side, buf, sizeof(buf))) > 0)
		got += n;
	printf("read %s %d %s %lld\n", kind, sock, side_name(side), got);
	/* not in a filter: must be refused */
	if (mtcp_raise_event(mctx, g_user[E_FIN]) < 0)
		g_raise_outside_refused++;
	else
		g_raise_outside_accepted++;
}

static void
s1_data(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	(void)arg;
	log_cb(mctx, sock, side, event, "S1", "NULL");
	read_all(mctx, sock, side, "S1");
}

static void
s2_data(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	(void)arg;
	log_cb(mctx, sock, side, event, "S2", "NULL");
	read_all(mctx, sock, side, "S2");
}

/* ---- filters ---- */
static bool
get_pkt(mctx_t mctx, int sock, int side, struct pkt_info *p)
{
	return mtcp_getlastpkt(mctx, sock, side, p) == 0 && p->iph && p->iph->protocol == IPPROTO_TCP && p->tcph;
}

static bool
f_data(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct pkt_info p;

	(void)event; (void)arg;
	g_filter_runs[E_DATA]++;
	return get_pkt(mctx, sock, side, &p) && p.payloadlen > 0;
}

static bool
f_psh(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct pkt_info p;

	(void)event; (void)arg;
	g_filter_runs[E_PSH]++;
	return get_pkt(mctx, sock, side, &p) && p.tcph->psh;
}

static bool
f_big(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct pkt_info p;
	int min = 0;

	(void)event;
	g_filter_runs[E_BIG]++;
	if (arg && arg->arg && arg->len == sizeof(min))
		memcpy(&min, arg->arg, sizeof(min));
	return get_pkt(mctx, sock, side, &p) && p.payloadlen >= min;
}

static bool
f_ctl(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct pkt_info p;

	(void)event; (void)arg;
	g_filter_runs[E_CTL]++;
	if (!get_pkt(mctx, sock, side, &p) || !(p.tcph->syn || p.tcph->fin || p.tcph->rst))
		return false;
	if (p.tcph->fin) {
		if (mtcp_raise_event(mctx, g_user[E_FIN]) < 0)
			g_raise_failed++;
		else
			g_raised++;
	}
	return true;
}

static bool
f_est(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	int st = -1;
	socklen_t len = sizeof(st);

	(void)event; (void)arg;
	g_filter_runs[E_EST]++;
	if (mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, side == MOS_SIDE_CLI ? MOS_TCP_STATE_CLI : MOS_TCP_STATE_SVR,
			    &st, &len) < 0)
		return false;
	return st == 4;		/* ESTABLISHED */
}

static void
define_events(void)
{
	struct filter_arg fa = { .arg = &g_min, .len = sizeof(g_min) };
	int i;

	g_user[E_DATA] = mtcp_define_event(MOS_ON_PKT_IN, f_data, NULL);
	g_user[E_PSH] = mtcp_define_event(g_user[E_DATA], f_psh, NULL);
	g_user[E_BIG] = mtcp_define_event(g_user[E_DATA], f_big, &fa);
	g_user[E_CTL] = mtcp_define_event(MOS_ON_PKT_IN, f_ctl, NULL);
	g_user[E_FIN] = mtcp_alloc_event(g_user[E_CTL]);
	g_user[E_EST] = mtcp_define_event(MOS_ON_TCP_STATE_CHANGE, f_est, NULL);
	for (i = 0; i < NUSER; i++) {
		printf("event %s %#" PRIx64 "\n", g_user_name[i], (uint64_t)g_user[i]);
		if (g_user[i] == MOS_NULL_EVENT)
			TRACE_ERROR("event %s could not be made\n", g_user_name[i]);
	}
}

/* ---- registration ---- */
/* what the rules say of a stream socket */
static bool
stream_may(event_t ev, int hook)
{
	if (ev == g_user[E_EST])
		ev = MOS_ON_TCP_STATE_CHANGE;
	if (hook == MOS_NULL)
		return ev != MOS_ON_CONN_START && ev != MOS_ON_REXMIT && ev != MOS_ON_TCP_STATE_CHANGE && ev != MOS_ON_CONN_END;
	return ev != MOS_ON_CONN_NEW_DATA && ev != MOS_ON_ORPHAN && ev != MOS_ON_ERROR;
}

static void
reg(mctx_t mctx, int sock, const char *kind, bool stream, event_t ev, const callback_t cb[3], callback_t data)
{
	static const int hook[3] = { MOS_NULL, MOS_HK_RCV, MOS_HK_SND };
	static const char *const hook_name[3] = { "NULL", "RCV", "SND" };
	int i, r;

	for (i = 0; i < 3; i++) {
		callback_t c = (ev == MOS_ON_CONN_NEW_DATA && data) ? data : cb[i];

		errno = 0;
		r = mtcp_register_callback(mctx, sock, ev, hook[i], c);
		printf("reg %s %s %s ", kind, event_name(ev), hook_name[i]);
		if (r == 0)
			printf("ok");
		else
			printf("%d %s", r, errno == EINVAL ? "EINVAL" : strerror(errno));
		if (stream)
			printf("%s", stream_may(ev, hook[i]) == (r == 0) ? "" : " AGAINST RULE 6");
		printf("\n");
	}
}

static int
make_socket(mctx_t mctx, int type)
{
	int sock = mtcp_socket(mctx, AF_INET, type, 0);

	if (sock < 0) {
		TRACE_ERROR("mtcp_socket: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	return sock;
}

static void
bind_filter(mctx_t mctx, int sock, union monitor_filter *ft, const char *what)
{
	if (mtcp_bind_monitor_filter(mctx, sock, ft) < 0) {
		TRACE_ERROR("mtcp_bind_monitor_filter(%s): %s\n", what, strerror(errno));
		exit(EXIT_FAILURE);
	}
}

static void
init_monitor(mctx_t mctx)
{
	static const callback_t raw_cb[3] = { raw_null, raw_rcv, raw_snd };
	static const callback_t s1_cb[3] = { s1_null, s1_rcv, s1_snd };
	static const callback_t s2_cb[3] = { s2_null, s2_rcv, s2_snd };
	union monitor_filter ft;
	int raw, s1, s2, i;

	raw = make_socket(mctx, MOS_SOCK_MONITOR_RAW);
	memset(&ft, 0, sizeof(ft));
	ft.raw_pkt_filter = g_raw_filter;
	bind_filter(mctx, raw, &ft, g_raw_filter);

	s1 = make_socket(mctx, MOS_SOCK_MONITOR_STREAM);
	s2 = make_socket(mctx, MOS_SOCK_MONITOR_STREAM);
	if (g_syn1) {
		memset(&ft, 0, sizeof(ft));
		ft.stream_syn_filter = g_syn1;
		bind_filter(mctx, s1, &ft, g_syn1);
	}
	if (g_syn2) {
		memset(&ft, 0, sizeof(ft));
		ft.stream_syn_filter = g_syn2;
		bind_filter(mctx, s2, &ft, g_syn2);
	}
	printf("sockets RAW=%d S1=%d S2=%d cpu=%d\n", raw, s1, s2, mctx->cpu);

	reg(mctx, raw, "RAW", false, MOS_ON_PKT_IN, raw_cb, NULL);
	reg(mctx, raw, "RAW", false, g_user[E_CTL], raw_cb, NULL);	/* user-defined event on a raw socket */
	for (i = 0; i < NBUILTIN; i++) {
		reg(mctx, s1, "S1", true, g_builtin[i].ev, s1_cb, s1_data);
		reg(mctx, s2, "S2", true, g_builtin[i].ev, s2_cb, s2_data);
	}
	for (i = 0; i < NUSER; i++) {
		reg(mctx, s1, "S1", true, g_user[i], s1_cb, NULL);
		reg(mctx, s2, "S2", true, g_user[i], s2_cb, NULL);
	}
	fflush(stdout);
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
	int opt, i;

	while ((opt = getopt(argc, argv, "c:f:r:1:2:g:")) != -1) {
		switch (opt) {
		case 'c': g_max_cores = atoi(optarg); break;
		case 'f': fname = optarg; break;
		case 'r': g_raw_filter = optarg; break;
		case '1': g_syn1 = optarg; break;
		case '2': g_syn2 = optarg; break;
		case 'g': g_min = atoi(optarg); break;
		default:
			fprintf(stderr, "usage: %s [-f mos.conf] [-c cores] [-r filter] [-1 filter] [-2 filter] [-g bytes]\n", argv[0]);
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

	define_events();
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

	printf("total callbacks=%" PRIu64 " raised=%" PRIu64 " raise_failed=%" PRIu64
	       " raise_outside_filter_refused=%" PRIu64 " accepted=%" PRIu64 "\n",
	       g_seq, g_raised, g_raise_failed, g_raise_outside_refused, g_raise_outside_accepted);
	for (i = 0; i < NUSER; i++)
		if (i != E_FIN)
			printf("filter %s runs=%" PRIu64 "\n", g_user_name[i], g_filter_runs[i]);
	return 0;
}
