"""What the firewall decides on packets: states of connections, verdicts, counters, limits."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.functions.firewall.rules import read_rules
from sluice.functions.firewall.table import table
from tests.functions.security import Ran, icmp4, icmp6, read_pcap, run, wrong_checksums
from tests.support.capture import pcap
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.packets import A4, A6, B4, B6, eth, fragments4, fragments6, ip4, ip6, tcp, udp

STATEFUL = "ct state established,related accept\n ct state invalid counter drop\n"


def chain(rules: str, policy: str = "drop") -> str:
    """A file with these rules in one chain."""
    return f"table inet t {{\n chain c {{\n type filter hook forward priority 0; policy {policy};\n {rules}\n }}\n}}\n"


def fire(
    rules: str,
    frames: Sequence[bytes],
    parameters: str = "",
    *,
    whole: bool = False,
    step: float = 0.001,
    times: Sequence[float] | None = None,
) -> Ran:
    """Run the firewall with rules in one chain, or, if `whole`, with a whole file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.nft")
        path.write_text(rules if whole else chain(rules))
        Path(folder, "table").write_bytes(table(read_rules(str(path))))
        given_ = ",".join(filter(None, [f"table={folder}/table", parameters]))
        ran = run("firewall", frames, given_, step=step, times=times)
    assert ran.reports["firewall_undecided"] == 0
    decided = sum(ran.reports[f"firewall_{name}"] for name in ("accepted", "dropped", "rejected"))
    assert decided <= len(frames)
    return ran


def passes(rules: str, frame: bytes) -> bool:
    """Whether one packet passes."""
    return fire(rules, [frame]).left == [frame]


def datagram(sport: int = 1000, dport: int = 53, src: bytes = A4, dst: bytes = B4, body: bytes = b"x") -> bytes:
    return eth(ip4(udp(sport, dport, body), 17, src, dst))


def test_a_connection_passes_one_way() -> None:
    client, server = pair()
    frames = [*handshake(client, server), client.data(b"hello"), server.data(b"answer"), *goodbye(client, server)]
    outside, inside = pair(port=41000)
    back = [*handshake(inside, outside), inside.data(b"no")]
    ran = fire(STATEFUL + "ip saddr 10.0.0.1 tcp dport 80 accept", frames + back)
    assert ran.left == frames
    assert (ran.reports["firewall_connections"], ran.reports["firewall_dropped"]) == (1, 4)


def test_a_connection_is_new_until_it_is_answered() -> None:
    """And a packet that was dropped begins none: the answer to it is none either."""
    client, server = pair()
    first = [client.send("S"), client.send("S", number=1000), server.send("SA"), client.send("A")]
    rules = "ct state new limit rate 1/day burst 1 packets accept\n ct state established accept"
    assert fire(rules, first).left == [first[0], first[2], first[3]]
    assert fire("ct state established accept", first).left == []


def test_states_of_datagrams_and_echoes() -> None:
    there, back = datagram(1000, 53), datagram(53, 1000, B4, A4)
    ping, pong = icmp4(8, 0, b"\0\7\0\1data", A4, B4), icmp4(0, 0, b"\0\7\0\1data", B4, A4)
    ping6, pong6 = icmp6(128, 0, b"\0\7\0\1", A6, B6), icmp6(129, 0, b"\0\7\0\1", B6, A6)
    rules = STATEFUL + "ip saddr 10.0.0.1 accept\n ip6 saddr 2001:db8::1 accept"
    assert fire(rules, [there, back, ping, pong, ping6, pong6]).left == [there, back, ping, pong, ping6, pong6]
    assert fire(rules, [back, pong, pong6]).left == []
    assert fire("ct state invalid accept", [back, pong, pong6]).left == [pong, pong6]


def test_icmp_errors_are_related_to_the_flow_that_they_quote() -> None:
    there = datagram(1000, 53)
    error = icmp4(3, 3, bytes(4) + there[14:], B4, A4)
    other = icmp4(3, 3, bytes(4) + datagram(1001, 53)[14:], B4, A4)
    cut = icmp4(3, 3, bytes(4) + there[14:38], B4, A4)
    ran = fire("ct state related accept\n udp dport 53 accept", [error, there, error, other, cut])
    assert ran.left == [there, error] and ran.reports["firewall_related"] == 1
    pings = [icmp4(8, 0, b"\0\7\0\1data", A4, B4), icmp4(8, 0, b"\0\x08\0\1data", A4, B4)]
    expired = [icmp4(11, 0, bytes(4) + ping[14:], bytes([10, 9, 9, 9]), A4) for ping in pings]
    left = fire("ct state related accept\n icmp type echo-request accept", [pings[0], *expired]).left
    assert left == [pings[0], expired[0]]
    client, server = pair(version=6)
    syn = client.send("S")
    too_big = icmp6(2, 0, bytes(4) + syn[14:], server.address, client.address)
    assert fire("ct state related accept\n tcp dport 80 accept", [syn, too_big]).left == [syn, too_big]


def test_invalid_segments() -> None:
    client, server = pair()
    odd = [eth(ip4(tcp(1, 2, 9, flags), 6)) for flags in ("", "F", "FPU", "SF", "SR", "SA", "R", "FA")]
    assert fire("ct state invalid counter drop\n accept", odd).left == []
    established = handshake(client, server)
    far = client.send("A", number=client.next + 3_000_000)
    ran = fire("ct state invalid drop\n accept", [*established, far, client.data(b"near")])
    assert ran.left == [*established, ran.left[3]] and ran.left[3] != far
    middle = [client.data(b"middle"), server.data(b"answer")]
    assert fire("ct state invalid drop\n accept", middle).left == middle
    assert fire("ct state invalid drop\n accept", middle, "pick_up=no").left == []


def test_malformed_and_cut_packets_are_decided_on() -> None:
    bad_length = eth(ip4(udp(1, 2, bytes(8))[:4] + b"\0\3" + bytes(10), 17))
    frames = [
        bad_length,
        eth(ip4(tcp(1, 2, 1, "S")[:12] + b"\x10" + bytes(7), 6)),
        eth(ip4(tcp(1, 2, 1, "S")[:13], 6)),
        eth(ip4(udp(1, 2)[:3], 17)),
        eth(ip4(b"", 1)),
        eth(b"\x41" + ip4(b"", 6)[1:]),
        eth(b"\x45\0\0"),
        eth(ip6(tcp(1, 2, 1, "S")[:5])),
    ]
    ran = fire("ct state invalid drop\n accept", frames)
    assert ran.left == [] and ran.reports["firewall_invalid"] == len(frames)


def test_other_protocols_are_not_tracked() -> None:
    gre, tunnel = eth(ip4(bytes(8), 47)), eth(ip4(ip4(tcp(1, 80, 1, "S"), 6, B4, A4), 4))
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    rules = "ct state untracked ip protocol { 47, 4 } accept\n tcp dport 80 accept"
    assert fire(rules, [gre, tunnel, arp]).left == [gre, tunnel, arp]
    assert fire("ip saddr 10.0.0.2 accept", [gre, tunnel, arp]).left == [arp]  # the outer header alone decides


def test_every_protocol_is_decided_on() -> None:
    """Also ICMP over IPv6 and ICMPv6 over IPv4, for which the stack has no layer."""
    frames = [
        eth(ip(bytes(40), protocol)) for ip in (ip4, ip6) for protocol in range(256) if protocol not in (0, 43, 60)
    ]
    assert fire("", frames).left == []


def test_fragments_share_the_verdict_of_their_datagram() -> None:
    body = udp(1000, 53, bytes(range(200)))
    good, bad = fragments4(body, 64, 64, protocol=17), fragments4(udp(1000, 54, bytes(200)), 64, 64, protocol=17, id=9)
    lone = fragments4(body, 64, 64, protocol=17, id=11)[:2]
    frames = [good[2], bad[0], good[0], bad[2], lone[0], good[1], bad[1], lone[1]]
    ran = fire("udp dport 53 accept", frames)
    assert sorted(ran.left) == sorted(good) and ran.reports["firewall_accepted"] == 1
    six = fragments6(body, 64, 64, protocol=17)
    assert sorted(fire("udp dport 53 accept", six).left) == sorted(six)
    assert fire("udp dport 54 accept", six).left == []


def test_rejections() -> None:
    client, _ = pair(checksums=True)
    syn = client.send("S")
    (reset,) = fire("tcp dport 80 reject with tcp reset", [syn]).left
    assert reset[:6] == syn[6:12] and reset[26:30] == syn[30:34] and reset[47] == 0x14 and not wrong_checksums(reset)
    (answer,) = fire("reject", [datagram()]).left
    assert answer[34:36] == b"\3\3" and not wrong_checksums(answer)
    (answer,) = fire("reject with icmp type admin-prohibited", [datagram()]).left
    assert answer[34:36] == b"\3\x0d"
    (answer,) = fire("reject with icmpx type admin-prohibited", [eth(ip6(udp(1, 2, b"x"), 17))]).left
    assert answer[54:56] == b"\1\1" and not wrong_checksums(answer)
    ran = fire("reject", [datagram(dst=b"\xe0\0\0\1")])
    assert ran.left == [] and ran.reports["firewall_not_answered"] == 1


def test_matches() -> None:
    frame = datagram(1000, 53)
    yes = [
        "ip saddr 10.0.0.1",
        "ip saddr 10.0.0.0/30",
        "ip saddr 10.0.0.0-10.0.0.9",
        "ip saddr { 1.1.1.1, 10.0.0.1 }",
        "ip daddr != 10.0.0.1",
        "udp dport 50-60",
        "udp dport domain",
        "udp dport != { 54, 99-200 }",
        "udp sport >= 1000",
        "udp dport < 54",
        "th dport 53",
        "ip protocol udp",
        "meta l4proto { tcp, udp }",
        "meta nfproto ipv4",
        "ip ttl 64",
        "ip ttl > 3",
        "ip length 29",
        "ip dscp cs0",
        "ip id 7",
        "ether saddr 02:00:00:00:00:02",
        "ether type ip",
        "meta length 29",
        "ct direction original",
    ]
    no = [
        "ip saddr 10.0.0.2",
        "ip saddr != 10.0.0.0/8",
        "ip6 saddr ::/0",
        "ip6 daddr != ::1",
        "tcp dport 53",
        "tcp dport != 80",
        "udp dport { 54, 99-200 }",
        "udp sport > 1000",
        "udp dport < 0",
        "icmp type != 8",
        "tcp flags != syn",
        "ip ttl <= 63",
        "ether daddr 02:00:00:00:00:03",
        "meta nfproto ipv6",
        "ct direction reply",
        "sctp dport 53",
    ]
    rules = "".join(f"{match} counter\n" for match in yes + no)
    counts = [row["packets"] for row in fire(rules, [frame]).rows if row["firewall"] == "counter"]
    assert counts == [1] * len(yes) + [0] * len(no)


def test_flags_of_tcp() -> None:
    holds = {
        "tcp flags syn": "S SA",
        "tcp flags == syn": "S",
        "tcp flags syn,rst": "S SA R",
        "tcp flags != syn": "SA A R",
        "tcp flags & (syn|ack) == syn": "S",
        "tcp flags & (fin | rst) != 0x0": "R",
        "tcp flags syn / syn,ack,rst": "S",
        "tcp flags { syn, syn | ack }": "S SA",
        "tcp flags & ack": "SA A",
    }
    rules = "".join(f"{match} counter\n" for match in holds)
    for flags in ("S", "SA", "A", "R"):
        rows = fire(rules, [eth(ip4(tcp(1, 2, 1, flags), 6))]).rows
        found = [match for match, row in zip(holds, rows, strict=False) if row["packets"]]
        assert found == [match for match, texts in holds.items() if flags in texts.split()], flags


def test_jumps_returns_and_later_chains() -> None:
    text = """
    table inet a {
        chain one { udp dport 53 return; udp dport 54 accept; goto two; }
        chain two { udp dport 55 counter }
        chain first {
            type filter hook prerouting priority filter - 10; policy accept
            jump one
            udp dport 53 counter
        }
    }
    table ip b { chain last { type filter hook forward priority filter +10; policy drop; udp dport 54-55 accept; } }
    """
    frames = [datagram(1, port) for port in (53, 54, 55)]
    ran = fire(text, frames, whole=True)
    assert ran.left == frames[1:]
    assert {row["line"]: row["packets"] for row in ran.rows if row["firewall"] == "counter"} == {4: 1, 8: 1}
    assert [(row["chain"], row["packets"]) for row in ran.rows if row["firewall"] == "policy"] == [
        ("first", 2),
        ("last", 1),
    ]


def test_limits_follow_the_time_of_packets() -> None:
    frames = [datagram(1, 53) for _ in range(40)]
    assert len(fire("limit rate 10/second burst 5 packets accept", frames, step=0.05).left) == 5 + 19 - 1 + 1
    over = fire("limit rate over 10/second burst 5 packets drop\n accept", frames, step=0.05)
    assert len(over.left) == 24
    size = len(frames[0]) - 14
    assert len(fire(f"limit rate {2 * size} bytes/second accept", frames, step=0.0001).left) == 2


def test_logs_and_counters() -> None:
    client, _ = pair()
    syn = client.send("S")
    rows = fire('log prefix "seen: " level info counter accept', [syn, syn]).rows
    first = rows[0]
    assert (first["prefix"], first["packet"], first["src"], first["dport"], first["state"]) == (
        "seen: ",
        1,
        "10.0.0.1",
        80,
        "new",
    )
    assert rows[2]["packets"] == 2 and rows[2]["bytes"] == 80
    assert rows[3]["chain"] == "c" and rows[3]["packets"] == 0


FTP_RULES = STATEFUL + "tcp dport 21 accept"


def ftp(
    lines: list[tuple[str, bytes]], data: tuple[bytes, bytes, int, int], parameters: str = "", size: int = 1460
) -> bool:
    """Whether a data connection passes after these lines of the client (">") and the server ("<")."""
    client, server = pair(port=40000)
    server.port = 21
    frames = handshake(client, server)
    for who, line in lines:
        host = client if who == ">" else server
        frames += [host.data(line[at : at + size]) for at in range(0, len(line), size)]
    src, dst, sport, dport = data
    opener, other = Host(src, sport, 1), Host(dst, dport, 2)
    opener.peer, other.peer = other, opener
    opening = handshake(opener, other)
    left = fire(FTP_RULES, [*frames, *opening], parameters).left
    assert left[: len(frames)] == frames
    assert left[len(frames) :] in (opening, [])
    return left != frames


def test_data_connections_of_ftp() -> None:
    passive = [(">", b"PASV\r\n"), ("<", b"227 Entering Passive Mode (10,0,0,2,195,80)\r\n")]
    active = [(">", b"PORT 10,0,0,1,195,80\r\n"), ("<", b"200 ok\r\n")]
    to_server, to_client = (A4, B4, 41000, 50000), (B4, A4, 20, 50000)
    for size in (1460, 1):
        assert ftp(passive, to_server, size=size)
        assert ftp(active, to_client, size=size)
    assert ftp([(">", b"EPSV\r\n"), ("<", b"229 Entering (|||50000|)\r\n")], to_server)
    assert ftp([(">", b"EPRT |1|10.0.0.1|50000|\r\n")], to_client)
    assert not ftp(passive, (A4, B4, 41000, 50001))
    assert not ftp(passive, to_server, "ftp=0")
    assert not ftp(
        [("<", b"227 Entering Passive Mode (10,0,0,3,195,80)\r\n")], (A4, bytes([10, 0, 0, 3]), 41000, 50000)
    )
    assert not ftp([(">", b"PORT 10,0,0,1,0,22\r\n")], (B4, A4, 20, 22))
    assert not ftp([("<", b"228 x (10,0,0,2,195,80)\r\n")], to_server)
    assert not ftp([(">", b"227 x (10,0,0,1,195,80)\r\n")], to_client)


def test_a_data_port_is_announced_again_later() -> None:
    client, server = pair(port=40000)
    server.port = 21
    frames = handshake(client, server)
    times = [1000.0] * len(frames)
    opened: list[bytes] = []
    for port, when in ((41000, 1001.0), (41001, 1350.0)):
        frames += [client.data(b"EPSV\r\n"), server.data(b"229 Entering (|||50000|)\r\n")]
        opener = Host(A4, port, 1, peer=Host(B4, 50000, 2))
        opened.append(opener.send("S"))
        frames.append(opened[-1])
        times += [when] * 3
    late = Host(A4, 41002, 1, peer=Host(B4, 50000, 2)).send("S")
    frames += [client.data(b"EPSV\r\n"), server.data(b"229 Entering (|||50000|)\r\n"), late]
    times += [1400.0, 1400.0, 1701.0]
    left = fire(FTP_RULES, frames, times=times).left
    assert [frame in left for frame in (*opened, late)] == [True, True, False]


@given(st.lists(st.tuples(st.integers(0, 7), st.binary(max_size=60)), max_size=12), st.integers(0, 2**32))
@settings(max_examples=60)
def test_hostile_packets_get_one_verdict_each(pieces: list[tuple[int, bytes]], seed: int) -> None:
    """Each packet of IP is decided on once, whatever it is; with a policy of dropping and no rule, none leaves."""
    choose = random.Random(seed)
    frames: list[bytes] = []
    for kind, body in pieces:
        made = [
            ip4(body, choose.choice([1, 4, 6, 17, 47])),
            ip6(body, choose.choice([0, 6, 17, 44, 58, 59, 60])),
            ip4(tcp(1, 2, 3, "A", body), 6),
            ip4(udp(1, 2, body), 17),
            ip4(ip4(body, 6), 4),
            ip4(body, choose.choice([6, 17]), offset=8 * choose.randrange(4), more=choose.random() < 0.5),
            body,
            ip4(body, 6)[:24],
        ][kind]
        frames.append(eth(made) if kind != 6 else bytes(12) + choose.choice([b"\x08\x00", b"\x86\xdd"]) + made)
    ran = fire("", frames) if choose.random() < 0.9 else fire("accept", frames)
    if ran.reports["firewall_accepted"] == 0:
        assert ran.left == []


def run_over(stack: str, rules: str, frames: list[bytes], folder: Path) -> list[bytes]:
    """What `sluice run STACK -f firewall` lets pass."""
    (folder / "a.nft").write_text(chain(rules))
    (folder / "in.pcap").write_bytes(pcap(frames))
    words = ["run", stack, "-r", str(folder / "in.pcap"), "-w", str(folder / "out.pcap"), "--quick"]
    assert main([*words, "-f", f"firewall:rules={folder / 'a.nft'},out={folder / 'rows'}"]) == 0
    return read_pcap((folder / "out.pcap").read_bytes())[0]


def test_rules_decide_on_ip_in_every_frame_of_the_stack(tmp_path: Path) -> None:
    """A tag of an old type, SNAP, LLC alone lead to IP: what rules drop has no other path through the box."""
    macs, packet = datagram()[:12], datagram()[14:]
    links = ("920000010800", "9200000281000001 0800")
    frames = [macs + bytes.fromhex(link) + packet for link in links]
    for head in (bytes.fromhex("aaaa030000000800"), bytes.fromhex("060603")):
        frames.append(macs + (len(head) + len(packet)).to_bytes(2, "big") + head + packet)
    assert run_over("tcp_ip", "udp dport 54 accept", frames, tmp_path) == []
    assert run_over("tcp_ip", "udp dport 53 accept", frames, tmp_path) == frames


def test_what_the_stack_has_no_layer_for_is_decided_on_by_its_headers(tmp_path: Path) -> None:
    """A stack without UDP; and one without extension headers of IPv6."""
    (tmp_path / "stack.py").write_text("from tests.chain.running import small_stack\n\nstack = small_stack()\n")
    frames = [datagram(), datagram(1, 54)]
    assert run_over(str(tmp_path / "stack.py"), "udp dport 54 accept", frames, tmp_path) == frames[1:]
    options = bytes([17, 0, 1, 4, 0, 0, 0, 0])
    extended = [eth(ip6(options + udp(1, port, b"x"), 60)) for port in (53, 54)]
    assert fire("udp dport 54 accept", extended).left == extended[1:]
    assert fire("ct state invalid drop\n accept", extended).left == extended, "untracked, as other protocols"
