// made by: fuzz/make_more_logs.py
/* Fuzzes icmplog, dhcplog, ntplog, sshlog, smtplog, ftplog, filelog and gtplog over tcp_ip, as fuzz_logs.c does its logs.
 * Run: scripts/fuzz.sh fuzz_more_logs */
#define FUZZ_PORTS {22, 25, 21, 80}
#define FUZZ_DATAGRAMS {67, 123, 2123, 2152}
/* A bound of each function in the order of make_more_logs.py; NULL: it has none. */
#define FUZZ_OPTIONS {"waiting", NULL, NULL, "connections", "memory=65536,connections", "transfers", "files", "tunnels"}
#define FUZZ_KEYED {false, false, false, false, true, true, true, false}
#include "fuzz_logs.c"
