"""The headers, as programs include them: mos_api.h alone, beside the kernel's or the C library's, and in C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sluice.engine.compiler import compiler
from tests.compat.mos.programs import library

USES = """
static void on_packet(mctx_t mctx, int sock, int side, uint64_t events, filter_arg_t *arg)
{
    struct pkt_info p;
    struct sockaddr_in ends[2];
    socklen_t length = sizeof(struct sockaddr) * 2;
    int state = TCP_CLOSED;
    socklen_t size = sizeof state;
    (void)events;
    (void)arg;
    if (mtcp_getlastpkt(mctx, sock, side, &p))
        return;
    mtcp_getpeername(mctx, sock, (struct sockaddr *)ends, &length, MOS_SIDE_BOTH);
    if (p.tcph->syn && !p.tcph->ack && p.tcph->dest == htons(80) && p.iph->protocol == IPPROTO_TCP && p.ethh->h_proto)
        mtcp_setlastpkt(mctx, sock, side, 0, NULL, 0, MOS_DROP);
    mtcp_getsockopt(mctx, sock, SOL_MONSOCKET, MOS_TCP_STATE_CLI, &state, &size);
    switch (state) {
    case TCP_LISTEN: case TCP_SYN_SENT: case TCP_SYN_RCVD: case TCP_ESTABLISHED: case TCP_FIN_WAIT_1:
    case TCP_FIN_WAIT_2: case TCP_CLOSE_WAIT: case TCP_CLOSING: case TCP_LAST_ACK: case TCP_TIME_WAIT:
        mtcp_set_uctx(mctx, sock, NULL);
    }
}

int main(void)
{
    struct mtcp_conf conf;
    if (mtcp_init("mos.conf") || mtcp_getconf(&conf))
        return 1;
    mctx_t mctx = mtcp_create_context(conf.num_cores - 1);
    int sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0);
    if (mtcp_register_callback(mctx, sock, MOS_ON_PKT_IN, MOS_HK_SND, on_packet))
        return 1;
    mtcp_app_join(mctx);
    return mtcp_destroy();
}
"""
SIXTH = """
int core(in_addr_t a, in_addr_t b, in_port_t c, in_port_t d)
{
    return GetRSSCPUCore(a, b, c, d, 4) + GetRSSCPUCore(a, b, c, d, 4, 0);
}
"""
OWN_MACRO = "#define EXIT_WITH_ERROR(f, m...) { fprintf(stderr, f, ##m); exit(errno); }\n"


def compiles(tmp_path: Path, text: str, name: str, *flags: str) -> None:
    source = tmp_path / name
    source.write_text(text)
    command = [*compiler(), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, f"-I{library() / 'include'}"]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "includes",
    [
        "mos_api.h",
        "mtcp_api.h mos_api.h",
        "mos_api.h mtcp_epoll.h",
        "linux/if_ether.h linux/tcp.h mos_api.h",
        "linux/ip.h linux/tcp.h mos_api.h",
        "mos_api.h linux/if_ether.h linux/ip.h linux/tcp.h",
        "netinet/ip.h netinet/tcp.h mos_api.h",
        "mos_api.h netinet/ip.h netinet/tcp.h netinet/if_ether.h",
        "sys/queue.h mos_api.h cpu.h rss.h debug.h",
    ],
)
@pytest.mark.parametrize("name", ["program.c", "program.cpp"])
def test_a_program_with_these_headers_compiles(tmp_path: Path, includes: str, name: str) -> None:
    text = "".join(f"#include <{header}>\n" for header in includes.split())
    compiles(tmp_path, text + USES, name, *([] if name.endswith(".cpp") else ["-fgnu89-inline"]))


@pytest.mark.parametrize("header", ["rss.h", "mtcp_util.h", "debug.h"])
def test_the_core_of_a_flow_has_five_arguments_or_six(tmp_path: Path, header: str) -> None:
    compiles(tmp_path, f'#include "{header}"\n{SIXTH}', "core.c")


def test_debug_brings_what_programs_expect_of_it_and_leaves_them_their_macros(tmp_path: Path) -> None:
    body = 'int main(void) { pthread_t self = pthread_self(); assert(self); TRACE_INFO("x"); EXIT_WITH_ERROR("no"); }'
    compiles(tmp_path, f'#include "debug.h"\n{OWN_MACRO}{body}\n', "messages.c")
