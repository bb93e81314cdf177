/* firewall: decides on the SYN of a flow.
 *   firewall -f mos.conf -r rules [-t seconds]
 * Rules, one a line, the first that matches wins, '#' starts a comment:
 *   allow|deny  SRC  DST  SPORT  DPORT
 *   default allow|deny                      (allow, if there is none)
 * SRC and DST are any, a.b.c.d or a.b.c.d/len; SPORT and DPORT are any, n or n-m. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <sys/time.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>

#include <mos_api.h>
#include <mtcp_api.h>
#include "cpu.h"
#include "debug.h"

#define MAX_CORES 16
#define MAX_RULES 1024

struct rule {
	bool deny;
	uint32_t src, smask, dst, dmask;	/* host order */
	uint16_t sp[2], dp[2];
	char text[96];
};

static struct rule g_rule[MAX_RULES + 1];	/* the default is g_rule[g_nrules] */
static int g_nrules;

static struct percore {
	uint64_t hits[MAX_RULES + 1];
	uint64_t syn_events, accepted, denied, dropped_syn, dropped_other, late, failed;
} g_core[MAX_CORES];

static mctx_t g_mctx[MAX_CORES];
static int g_max_cores = 1;
static int g_interval = 1;
static event_t g_evt_syn;

static bool
catch_syn(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct pkt_info p;

	(void)event; (void)arg;
	if (mtcp_getlastpkt(mctx, sock, side, &p) < 0)
		return false;
	return p.tcph->syn && !p.tcph->ack;
}

static int
lookup(const struct pkt_info *p)
{
	uint32_t src = ntohl(p->iph->saddr), dst = ntohl(p->iph->daddr);
	uint16_t sp = ntohs(p->tcph->source), dp = ntohs(p->tcph->dest);
	int i;

	for (i = 0; i < g_nrules; i++) {
		const struct rule *r = &g_rule[i];

		if ((src & r->smask) == r->src && (dst & r->dmask) == r->dst &&
		    sp >= r->sp[0] && sp <= r->sp[1] && dp >= r->dp[0] && dp <= r->dp[1])
			break;
	}
	return i;
}

static int
drop(mctx_t mctx, int sock, int side)
{
	if (mtcp_setlastpkt(mctx, sock, side, 0, NULL, 0, MOS_DROP) < 0) {
		g_core[mctx->cpu].failed++;
		return -1;
	}
	return 0;
}

/* Packets of flows that are already denied (the parent event: it runs before the SYN event). */
static void
on_pkt(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct rule *r = mtcp_get_uctx(mctx, sock);

	(void)event; (void)arg;
	if (r && r->deny && drop(mctx, sock, side) == 0)
		g_core[mctx->cpu].dropped_other++;
}

static void
on_syn(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	struct percore *pc = &g_core[mctx->cpu];
	struct pkt_info p;
	int i, both = MOS_SIDE_BOTH;

	(void)arg;
	pc->syn_events++;
	if (event != g_evt_syn)
		pc->failed++;
	if (mtcp_get_uctx(mctx, sock))		/* repeated SYN of a denied flow, dropped by on_pkt */
		return;
	if (mtcp_getlastpkt(mctx, sock, side, &p) < 0) {
		pc->failed++;
		return;
	}
	i = lookup(&p);
	pc->hits[i]++;
	if (g_rule[i].deny) {
		pc->denied++;
		mtcp_set_uctx(mctx, sock, &g_rule[i]);
		if (drop(mctx, sock, side) == 0)
			pc->dropped_syn++;
	} else {
		pc->accepted++;
		if (mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_STOP_MON, &both, sizeof(both)) < 0)
			pc->failed++;
	}
}

static void
on_end(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
	(void)side; (void)event; (void)arg;
	if (!mtcp_get_uctx(mctx, sock))
		g_core[mctx->cpu].late++;	/* END of an accepted flow, though it was stopped */
}

static void
sum(struct percore *t)
{
	int i, k;

	memset(t, 0, sizeof(*t));
	for (i = 0; i < g_max_cores; i++) {
		const struct percore *c = &g_core[i];

		for (k = 0; k <= g_nrules; k++)
			t->hits[k] += c->hits[k];
		t->syn_events += c->syn_events;
		t->accepted += c->accepted;
		t->denied += c->denied;
		t->dropped_syn += c->dropped_syn;
		t->dropped_other += c->dropped_other;
		t->late += c->late;
		t->failed += c->failed;
	}
}

static void
print_counters(const char *tag)
{
	static struct percore t;

	sum(&t);
	printf("%s syn_events=%llu accepted=%llu denied=%llu dropped=%llu late=%llu failed=%llu\n", tag,
	       (unsigned long long)t.syn_events, (unsigned long long)t.accepted, (unsigned long long)t.denied,
	       (unsigned long long)(t.dropped_syn + t.dropped_other), (unsigned long long)t.late,
	       (unsigned long long)t.failed);
	fflush(stdout);
}

static void
on_timer(mctx_t mctx, int id, int side, event_t event, filter_arg_t *arg)
{
	struct timeval tv = { .tv_sec = g_interval, .tv_usec = 0 };

	(void)side; (void)event; (void)arg;
	print_counters("timer");
	if (mtcp_settimer(mctx, id, &tv, on_timer) < 0)
		g_core[mctx->cpu].failed++;
}

static int
parse_prefix(const char *s, uint32_t *addr, uint32_t *mask)
{
	char buf[32];
	char *slash, *end;
	struct in_addr a;
	long len = 32;

	if (strcmp(s, "any") == 0) {
		*addr = *mask = 0;
		return 0;
	}
	if (strlen(s) >= sizeof(buf))
		return -1;
	strcpy(buf, s);
	if ((slash = strchr(buf, '/'))) {
		*slash++ = '\0';
		len = strtol(slash, &end, 10);
		if (*slash == '\0' || *end || len < 0 || len > 32)
			return -1;
	}
	if (inet_pton(AF_INET, buf, &a) != 1)
		return -1;
	*mask = len ? ~0u << (32 - len) : 0;
	*addr = ntohl(a.s_addr) & *mask;
	return 0;
}

static int
parse_ports(const char *s, uint16_t r[2])
{
	unsigned lo, hi;
	char junk;

	if (strcmp(s, "any") == 0) {
		r[0] = 0;
		r[1] = 65535;
		return 0;
	}
	if (sscanf(s, "%u-%u%c", &lo, &hi, &junk) != 2) {
		if (sscanf(s, "%u%c", &lo, &junk) != 1)
			return -1;
		hi = lo;
	}
	if (lo > hi || hi > 65535)
		return -1;
	r[0] = lo;
	r[1] = hi;
	return 0;
}

static int
parse_action(const char *s, bool *deny)
{
	*deny = strcmp(s, "deny") == 0;
	return (*deny || strcmp(s, "allow") == 0) ? 0 : -1;
}

static void
read_rules(const char *fname)
{
	char line[256], w[6][40];
	bool def_deny = false;
	int n, lineno = 0;
	FILE *fp = fopen(fname, "r");

	if (!fp) {
		perror(fname);
		exit(EXIT_FAILURE);
	}
	while (fgets(line, sizeof(line), fp)) {
		struct rule *r = &g_rule[g_nrules];

		lineno++;
		line[strcspn(line, "#\r\n")] = '\0';
		n = sscanf(line, "%39s %39s %39s %39s %39s %39s", w[0], w[1], w[2], w[3], w[4], w[5]);
		if (n <= 0)
			continue;
		if (n == 2 && strcmp(w[0], "default") == 0 && parse_action(w[1], &def_deny) == 0)
			continue;
		if (n != 5 || g_nrules >= MAX_RULES || parse_action(w[0], &r->deny) < 0 ||
		    parse_prefix(w[1], &r->src, &r->smask) < 0 || parse_prefix(w[2], &r->dst, &r->dmask) < 0 ||
		    parse_ports(w[3], r->sp) < 0 || parse_ports(w[4], r->dp) < 0) {
			fprintf(stderr, "%s:%d: bad rule\n", fname, lineno);
			exit(EXIT_FAILURE);
		}
		snprintf(r->text, sizeof(r->text), "%.10s %.20s %.20s %.12s %.12s", w[0], w[1], w[2], w[3], w[4]);
		g_nrules++;
	}
	fclose(fp);
	memset(&g_rule[g_nrules], 0, sizeof(g_rule[0]));
	g_rule[g_nrules].deny = def_deny;
	snprintf(g_rule[g_nrules].text, sizeof(g_rule[0].text), "default %s", def_deny ? "deny" : "allow");
}

static void
init_monitor(mctx_t mctx)
{
	struct timeval tv = { .tv_sec = g_interval, .tv_usec = 0 };
	int sock, optval = 0;

	if ((sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0)) < 0) {
		TRACE_ERROR("mtcp_socket: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &optval, sizeof(optval)) < 0 ||
	    mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &optval, sizeof(optval)) < 0) {
		TRACE_ERROR("mtcp_setsockopt: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	/* only at SND may a packet be dropped */
	if (mtcp_register_callback(mctx, sock, g_evt_syn, MOS_HK_SND, on_syn) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_PKT_IN, MOS_HK_SND, on_pkt) < 0 ||
	    mtcp_register_callback(mctx, sock, MOS_ON_CONN_END, MOS_HK_SND, on_end) < 0) {
		TRACE_ERROR("mtcp_register_callback: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
	/* core 0 prints for all */
	if (mctx->cpu == 0 && g_interval > 0 && mtcp_settimer(mctx, sock, &tv, on_timer) < 0) {
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
	const char *fname = "mos.conf", *rules = NULL;
	static struct percore t;
	struct mtcp_conf mcfg;
	int opt, i;

	while ((opt = getopt(argc, argv, "c:f:r:t:")) != -1) {
		switch (opt) {
		case 'c': g_max_cores = atoi(optarg); break;
		case 'f': fname = optarg; break;
		case 'r': rules = optarg; break;
		case 't': g_interval = atoi(optarg); break;
		default: rules = NULL; optind = argc; break;
		}
	}
	if (!rules) {
		fprintf(stderr, "usage: %s [-f mos.conf] [-c cores] -r rules [-t seconds]\n", argv[0]);
		return EXIT_FAILURE;
	}
	if (g_max_cores < 1 || g_max_cores > MAX_CORES || g_max_cores > GetNumCPUs()) {
		fprintf(stderr, "bad number of cores: %d\n", g_max_cores);
		return EXIT_FAILURE;
	}
	read_rules(rules);
	if (mtcp_init(fname)) {
		fprintf(stderr, "mtcp_init(%s) failed\n", fname);
		return EXIT_FAILURE;
	}
	mtcp_getconf(&mcfg);
	mcfg.num_cores = g_max_cores;
	mtcp_setconf(&mcfg);
	mtcp_register_signal(SIGINT, sigint_handler);

	g_evt_syn = mtcp_define_event(MOS_ON_PKT_IN, catch_syn, NULL);
	if (g_evt_syn == MOS_NULL_EVENT) {
		fprintf(stderr, "mtcp_define_event failed\n");
		return EXIT_FAILURE;
	}
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

	sum(&t);
	for (i = 0; i <= g_nrules; i++)
		printf("rule %d hits=%llu %s\n", i + 1, (unsigned long long)t.hits[i], g_rule[i].text);
	print_counters("total");
	return 0;
}
