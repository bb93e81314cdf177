"""The same rules on TCP, SCTP, QUIC with its keys, UDP, and in tunnels: the same alerts, however a pattern is cut."""

from __future__ import annotations

import importlib.util
import json
import random
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.main import main
from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.functions.detect.rules import Reader
from sluice.functions.detect.table import table
from sluice.lang import Pred, Stack, one_of
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.gre import gre_parser
from sluice.protocols.gtp import gtp_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ppp import ppp_parser
from sluice.protocols.sctp import sctp_layers
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from sluice.protocols.vxlan import vxlan_parser
from tests.cases.tunnel import OUTER, gtp, none, pptp, vxlan
from tests.functions.detect.boxes import START, connection, datagram, needs_ids, rule
from tests.protocols.test_sctp import BEGIN, END, data, handshake, packet
from tests.support.capture import pcap
from tests.support.connection import Host, pair
from tests.support.connection import handshake as opened
from tests.support.packets import eth, fragments4, ip4

pytestmark = needs_ids

SAID = b"GET /a/..%2fetc/passwd HTTP/1.1\r\nHost: www.example\r\n\r\n"
RULES = (
    rule('content:"/etc/passwd"; http_uri;')
    + rule('content:"..%2f"; content:"passwd"; distance:4; within:6;', sid=2)
    + rule(r'pcre:"/Host: w{3}\.\w+\r\n/";', sid=3)
    + rule('content:"GET "; depth:4; byte_test:1,=,0x2f,0,relative;', sid=4)
    + rule('content:"never";', sid=5)
)
CONTENTS = RULES.split("\n", 1)[1]
"""Without the rule about HTTP, which is read over TCP."""
EXPECTED = Counter({1: 1, 2: 1, 3: 1, 4: 1})
WITHOUT = Counter({2: 1, 3: 1, 4: 1})


def gre(frame: bytes) -> bytes:
    """GRE (RFC 2784) that carries the IP packet."""
    return eth(ip4(struct.pack(">HH", 0, 0x0800) + frame[14:], 47, *OUTER))


WRAPS = {"none": none, "gtp": gtp, "pptp": pptp, "vxlan": vxlan, "gre": gre}


def carried() -> Stack:
    """TCP, UDP and SCTP over IPv4, and the tunnels that lead back to IPv4."""
    s = Stack("carried", depth=16)
    s.eth, s.ipv4, s.tcp, s.udp = ethernet_parser(), ipv4_parser(), tcp_parser(), udp_parser()
    s.gtp, s.vxlan, s.gre, s.ppp = gtp_parser(), vxlan_parser(), gre_parser(), ppp_parser()
    s += sctp_layers()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    protocol = s.ipv4.header.protocol
    s += (s.ipv4 >> s.tcp) + Pred(protocol == 6)
    s += (s.ipv4 >> s.udp) + Pred(protocol == 17)
    s += (s.ipv4 >> s.gre) + Pred(protocol == 47)
    s += (s.ipv4 >> s.sctp_packet) + Pred(protocol == 132)
    s += (s.udp >> s.gtp) + Pred(one_of(2152, s.udp.header.sport, s.udp.header.dport))
    s += (s.udp >> s.vxlan) + Pred(s.udp.header.dport == 4789)
    s += (s.gtp >> s.ipv4) + Pred(s.gtp.header.MT == 255)
    s += (s.vxlan >> s.eth) + Pred(1)
    s += (s.gre >> s.ppp) + Pred((s.gre.header.version == 1) & (s.gre.header.S == 1))
    s += (s.gre >> s.ipv4) + Pred((s.gre.header.protocol == 0x0800) & (s.gre.header.version == 0))
    s += (s.ppp >> s.ipv4) + Pred(s.ppp.temp.protocol == 0x0021)
    return s


@pytest.fixture(scope="module")
def stack() -> CompiledStack:
    return compile_stack(carried(), tuple(find_functions(["ids"]).c))


Rows = list[dict[str, Any]]
Run = Callable[..., Rows]


@pytest.fixture
def alerts(stack: CompiledStack, tmp_path: Path) -> Run:
    def run(frames: list[bytes], rules: str, parameters: str = "") -> Rows:
        reader = Reader()
        reader.read(rules, "a.rules")
        (tmp_path / "table").write_bytes(table(reader.found.rules))
        options = f"table={tmp_path}/table,out={tmp_path}/rows{parameters}"
        with Box(stack, Settings(seed=1, timeouts=False, max_instances=1 << 12), [], [options]) as box:
            for number, frame in enumerate(frames):
                box.packet(frame, START + number * 1000, 1, len(frame))
            box.finish()
        return [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]

    return run


def sids(rows: Rows) -> Counter[int]:
    return Counter(row["alert"]["signature_id"] for row in rows)


@pytest.mark.parametrize("name", WRAPS)
def test_tcp_in_tunnels_cut_at_every_byte(name: str, alerts: Run) -> None:
    """Each cut is a connection of its own."""
    frames: list[bytes] = []
    for cut in range(1, len(SAID)):
        client, server = pair(port=20000 + cut)
        frames += [*opened(client, server), client.at(0, SAID[:cut]), client.at(cut, SAID[cut:])]
    rows = alerts([WRAPS[name](frame) for frame in frames], RULES)
    assert sids(rows) == Counter({sid: len(SAID) - 1 for sid in EXPECTED})
    assert all(name == "none" or name in str(row["layers"]) or name == "pptp" for row in rows)


@pytest.mark.parametrize("name", WRAPS)
def test_tcp_in_tunnels_reordered_repeated_and_in_fragments(name: str, alerts: Run) -> None:
    wrap, chance = WRAPS[name], random.Random(name)
    for trial in range(6):
        client, server = pair(port=30000 + trial)
        first = [wrap(frame) for frame in opened(client, server)]
        segments = [client.at(at, SAID[at : at + 7]) for at in range(0, len(SAID), 7)]
        segments += chance.sample(segments, 3)
        chance.shuffle(segments)
        frames = first + [wrap(frame) for frame in segments]
        assert sids(alerts(frames, RULES)) == EXPECTED
    client, server = pair()
    inner = [wrap(part) for part in reversed(fragments4(opened_data(client, server), 16, 24))]
    assert sids(alerts([wrap(frame) for frame in OPENED] + inner, RULES)) == EXPECTED
    outer = wrap(eth(ip4(opened_data(*pair()))))
    parts = fragments4(outer[34:], 64, protocol=outer[23], src=outer[26:30], dst=outer[30:34])
    assert sids(alerts([wrap(frame) for frame in OPENED] + parts[::-1], RULES)) == EXPECTED


def opened_data(client: Host, server: Host) -> bytes:
    """The TCP segment with all data, after the handshake."""
    opened(client, server)
    return client.data(SAID)[34:]


OPENED = opened(*pair())


def test_messages_of_sctp(alerts: Run) -> None:
    """Whole, fragmented at every byte, and out of order. A row says so."""
    frames = [each.data for each in handshake()]
    rows = alerts([*frames, packet(data(0, SAID)).data], RULES)
    assert sids(rows) == EXPECTED
    assert (rows[0]["proto"], rows[0]["src_port"], rows[0]["direction"]) == ("SCTP", 5000, "to_server")
    for cut in range(1, len(SAID), 3):
        parts = [packet(data(0, SAID[:cut], BEGIN)).data, packet(data(1, SAID[cut:], END)).data]
        assert sids(alerts([*frames, *parts], RULES)) == EXPECTED
        assert sids(alerts([*frames, *parts[::-1], *parts], RULES)) == EXPECTED
    wrapped = [vxlan(frame) for frame in [*frames, packet(data(0, SAID)).data]]
    assert sids(alerts(wrapped, RULES)) == EXPECTED
    two = [packet(data(0, b"GET /..%2f")).data, packet(data(1, SAID, ssn=1)).data]
    assert sids(alerts([*frames, *two], RULES)) == Counter({1: 1, 2: 1, 3: 1, 4: 2})
    only = rule('content:"GET";', "sctp any any -> any 36412") + rule('content:"GET";', "tcp any any -> any 80", 2)
    assert sids(alerts([*frames, packet(data(0, SAID)).data, *connection([(">", SAID)])], only)) == Counter(
        {1: 1, 2: 1}
    )
    assert alerts([*frames, packet(data(0, SAID)).data], RULES, ",streams=no") == []


@pytest.mark.parametrize("name", WRAPS)
def test_datagrams(name: str, alerts: Run) -> None:
    rules = CONTENTS.replace("alert tcp any any -> any any", "alert udp any any -> any 2000")  # not those of tunnels
    whole = datagram(SAID)
    assert sids(alerts([WRAPS[name](whole)], rules)) == WITHOUT
    parts = fragments4(whole[34:], 16, 24, protocol=17)
    assert sids(alerts([WRAPS[name](part) for part in parts[::-1]], rules)) == WITHOUT


@pytest.mark.skipif(importlib.util.find_spec("aioquic") is None, reason="no aioquic: scripts/setup.sh gets it")
def test_the_name_in_a_hello_of_quic(tmp_path: Path) -> None:
    """Initial packets need no key log. A name that is not there, and a version that was not chosen, match nothing."""
    from tests.quic import traffic as quic

    traffic = quic.make(lambda run: run.send(0, SAID), link=quic.Link(loss=0.1, late=0.4, seed=5))
    (tmp_path / "in.pcap").write_bytes(pcap(traffic.packets, traffic.times))
    rules = [
        f'tls.sni; content:"{quic.NAME}";',
        'tls.sni; content:"evil";',
        "ssl_version:tls1.3;",
        "ssl_version:tls1.2;",
    ]
    text = "".join(rule(options, "tls any any -> any any", sid) for sid, options in enumerate(rules, 1))
    (tmp_path / "a.rules").write_text(text)
    words = ["ids", str(tmp_path / "a.rules"), "-r", str(tmp_path / "in.pcap"), "--stack", "quic", "--json"]
    assert main([*words, "-o", str(tmp_path / "rows")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert sids(rows)[1] == 1 and set(sids(rows)) == {1, 3}
    assert {row["proto"] for row in rows} == {"QUIC"}


@pytest.mark.slow_matrix
@pytest.mark.skipif(importlib.util.find_spec("aioquic") is None, reason="no aioquic: scripts/setup.sh gets it")
def test_streams_of_quic_with_keys(tmp_path: Path) -> None:
    from tests.quic import traffic as quic

    def ask(run: quic.Run) -> None:
        run.send(0, b"-" * 3000 + SAID)
        run.send(4, SAID)

    def answer(run: quic.Run) -> None:
        run.send(0, b"." * 9000 + b"evil", from_server=True)

    traffic = quic.make(ask, answer, link=quic.Link(loss=0.1, late=0.4, seed=3))
    (tmp_path / "keys").write_text(traffic.keylog)
    (tmp_path / "in.pcap").write_bytes(pcap(traffic.packets, traffic.times))
    evil = rule('content:"evil"; flow:to_client;', "quic any 443 -> any any", 6)
    (tmp_path / "a.rules").write_text(CONTENTS + evil)
    words = ["ids", str(tmp_path / "a.rules"), "-r", str(tmp_path / "in.pcap"), "--stack", "quic", "--json"]
    assert main([*words, "--keylog", str(tmp_path / "keys"), "-o", str(tmp_path / "rows")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert sids(rows) == Counter({2: 2, 3: 2, 4: 1, 6: 1})
    assert {(row["proto"], row["dest_port"]) for row in rows if row["direction"] == "to_server"} == {("QUIC", 443)}
    assert main([*words, "-o", str(tmp_path / "rows")]) == 0
    assert (tmp_path / "rows").read_text() == ""
