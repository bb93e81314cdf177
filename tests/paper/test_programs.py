"""Appendix C and Figure 2 of the paper, as they stand in it, run on real captures.

They have faults that our own protocols do not share: an IP instance is found by the addresses alone, so that
any other packet of the two hosts ends a datagram; the SYN/ACK lies outside TCP's first window, so that the
passive side's stream begins with whatever comes first; every reset is believed.
"""

import hashlib
import ipaddress
import warnings
from collections import defaultdict
from collections.abc import Iterator

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang import DescriptionWarning, Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from tests.paper.programs import figure2, gtp_stack
from tests.paper.programs.ip import ip_parser
from tests.paper.programs.tcp import tcp_parser
from tests.support.connection import goodbye, handshake, pair
from tests.support.corpus import corpus, truth
from tests.support.packets import A4, B4, UDP, eth, fragments4, ip4, tcp
from tests.support.run import Result, run, run_capture, watch_all

PASSES = ("all", "none")


def compile_quietly(stack: Stack, *more: tuple[str, str], passes: str = "all") -> CompiledStack:
    """C.2 leads out of a state that accepts, which is a warning; test_warning looks at it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        return watch_all(stack, *more, passes=passes)


def tcp_over_ip() -> Stack:
    """Ethernet, C.1 and C.2."""
    stack = Stack("paper_tcp")
    stack.eth, stack.ip = ethernet_parser(), ip_parser()
    stack.tcp = tcp_parser(stack.ip)
    stack += (stack.eth >> stack.ip) + Pred(stack.eth.header.type == 0x0800)
    over_ip = stack.ip.psm.dump | stack.ip.psm.last
    stack += (stack.ip >> stack.tcp) + Pred(over_ip & (stack.ip.header.protocol == 6))
    return stack


def number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


@pytest.fixture(scope="module", params=PASSES)
def figure_2(request: pytest.FixtureRequest) -> CompiledStack:
    return watch_all(figure2.st, ("ip", "ip_frag"), passes=request.param)


@pytest.fixture(scope="module", params=PASSES)
def paper_tcp(request: pytest.FixtureRequest) -> CompiledStack:
    return compile_quietly(tcp_over_ip(), passes=request.param)


@pytest.fixture(scope="module", params=PASSES)
def paper_gtp(request: pytest.FixtureRequest) -> CompiledStack:
    return compile_quietly(gtp_stack.stack, passes=request.param)


def test_warning() -> None:
    with pytest.warns(DescriptionWarning, match=r"tcp\.py:\d+: transition 'rst7' leads out of state 'TERMINATE'"):
        watch_all(tcp_over_ip())


# --- Figure 2 ------


def test_figure_2_raises_an_event_for_each_fragment(figure_2: CompiledStack) -> None:
    body = tcp(1, 2, 99, "A", bytes(200))
    result = run(figure_2, [eth(ip4(body, id=1)), *fragments4(body, 64, 64), eth(ip4(body, id=2))])
    fragments = result.named("ip_frag")
    assert [event.packet for event in fragments] == [2, 3, 4]
    assert {(event.sip, event.dip) for event in fragments} == {(0x0A000001, 0x0A000002)}
    assert fragments[0].sip == int.from_bytes(A4, "big") and fragments[0].dip == int.from_bytes(B4, "big")
    assert [event.bytes for event in result.named("data")] == [body, body, body]
    assert result.count("ip", "instances") == result.count("ip", "ended:accept") == 3


def test_figure_2_on_a_capture(figure_2: CompiledStack) -> None:
    """Every fragment; and whole packets that come while a datagram of the same two hosts is incomplete."""
    known = truth()["gen__tcp_over_ipfrag.pcap"]
    result = run_capture(figure_2, corpus() / known["file"])
    events = [(event.packet, event.sip, event.dip) for event in result.named("ip_frag")]
    assert len(events) == len(set(events))
    fragments = {
        (frame, number(datagram["src"]), number(datagram["dst"]))
        for datagram in known["reassembled"]
        for frame in datagram["fragments"]
    }
    assert len(fragments) == known["counts"]["ip4_fragments"] and fragments <= set(events)


# --- C.1 and C.2 ------


def ends_and_streams(
    result: Result,
) -> Iterator[tuple[frozenset[tuple[int, int]], dict[tuple[int, int], bytes]]]:
    """For every TCP instance in order: its two ends, and what each of them sent."""
    found: dict[int, dict[tuple[int, int], bytes]] = {}
    for event in result.events:
        if event.layer == "tcp" and event.instance:
            streams = found.setdefault(
                event.instance, {(event.saddr, event.sport): b"", (event.daddr, event.dport): b""}
            )
            if event.name == "data":
                streams[event.saddr, event.sport] += event.bytes
    for streams in found.values():
        yield frozenset(streams), streams


def agree(result: Result, name: str, passed_over: set[str]) -> int:
    """How many TCP flows over IPv4 of a capture were found with the truth's streams, none of them otherwise.

    A flow with one of the flags in `passed_over` must have been found only.
    """
    first: dict[frozenset[tuple[int, int]], dict[tuple[int, int], bytes]] = {}
    for ends, streams in ends_and_streams(result):
        first.setdefault(ends, streams)
    good = 0
    for flow in truth()[name]["tcp"]:
        if ":" in flow["a"][0]:
            continue
        a, b = ((number(address), port) for address, port in (flow["a"], flow["b"]))
        streams = first[frozenset((a, b))]
        if passed_over & set(flow["flags"]):
            continue
        for end, way in ((a, "a2b"), (b, "b2a")):
            assert hashlib.sha256(streams[end]).hexdigest() == flow[way]["sha256"], (flow["id"], way)
        good += 1
    return good


def test_c2_delivers_both_streams(paper_tcp: CompiledStack) -> None:
    client, server = pair()
    frames = [
        *handshake(client, server),
        client.data(b"question"),
        server.data(b"answer"),
        *goodbye(client, server),
    ]
    result = run(paper_tcp, frames)
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    ends = [result.row[key] for key in ("proto", "src", "sport", "dst", "dport")]
    assert ends == ["tcp", "10.0.0.1", 40000, "10.0.0.2", 80]
    assert result.state == "TERMINATE" and result.row["end"] == "closed"
    assert result.live == {"ip": 0, "tcp": 0}


def test_c2_puts_segments_in_order(paper_tcp: CompiledStack) -> None:
    client, server = pair()
    frames = handshake(client, server)
    pieces = {name: client.data(name.encode() * 100) for name in "ABCDE"}
    result = run(paper_tcp, [*frames, *(pieces[name] for name in "BDACE"), *goodbye(client, server)])
    assert result.stream(40000) == b"".join(name.encode() * 100 for name in "ABCDE")
    assert result.live["tcp"] == 0


def test_c2_keeps_out_what_is_out_of_window(paper_tcp: CompiledStack) -> None:
    client, server = pair(window=1000)
    frames = [*handshake(client, server), client.data(b"in"), server.send("A")]
    result = run(paper_tcp, [*frames, client.at(2000, b"out"), client.at(2, b"side")])
    assert result.stream(40000) == b"inside"
    assert [event.packet for event in result.named("out_of_wnd")] == [2, 6]  # the SYN/ACK, too


def test_c2_on_a_capture(paper_tcp: CompiledStack) -> None:
    """Every connection over IPv4, without exception."""
    name = "gen__tcp_clean.pcap"
    assert agree(run_capture(paper_tcp, corpus() / name), name, set()) == 59


# --- C.3 ------


def test_c3_finds_the_inner_tcp(paper_gtp: CompiledStack) -> None:
    """Whatever the program's first window and its belief in resets allow."""
    name = "gen__gtp_tcp.pcap"
    result = run_capture(paper_gtp, corpus() / name)
    assert agree(result, name, {"ooo", "data_after_rst"}) == 14
    assert {row["layers"] for row in result.rows} == {"eth/ip1/udp/gtp/ip2/tcp"}
    packets: dict[frozenset[int], int] = defaultdict(int)
    for row in result.rows:
        packets[frozenset((row["sport"], row["dport"]))] += row["src_pkts"] + row["dst_pkts"]
    for flow in truth()[name]["tcp"]:
        there = flow["a2b"]["packets"] + flow["b2a"]["packets"]
        assert packets[frozenset((flow["a"][1], flow["b"][1]))] == there


def test_c3_reassembles_the_outer_packet_first(paper_gtp: CompiledStack) -> None:
    inner = ip4(tcp(1, 2, 99, "S"), src=b"\1\1\1\1", dst=b"\2\2\2\2")
    tunnel = bytes.fromhex("30ff") + len(inner).to_bytes(2, "big") + bytes(4) + inner
    datagram = (2152).to_bytes(2, "big") * 2 + (8 + len(tunnel)).to_bytes(2, "big") + bytes(2) + tunnel
    result = run(paper_gtp, fragments4(datagram, 16, 32, protocol=UDP))
    assert (result.row["sport"], result.row["dport"], result.state) == (1, 2, "SYN_SENT")
    assert result.count("ip1", "held") == 2


def test_c3_leaves_other_messages(paper_gtp: CompiledStack) -> None:
    echo = bytes.fromhex("320100040000000000000000")
    datagram = (2152).to_bytes(2, "big") * 2 + (8 + len(echo)).to_bytes(2, "big") + bytes(2) + echo
    result = run(paper_gtp, [eth(ip4(datagram, UDP))])
    assert result.count("gtp", "ended") == 1 and result.rows == []
