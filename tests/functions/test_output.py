"""What leaves a box that is inline: packets dropped, changed with their checksums mended, sent; connections reset.

Checksums are held against scapy's, which makes them anew.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import rdpcap, wrpcap

from sluice.cli.main import main
from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.compiler import CompilerError
from sluice.stacks.find import find_stack
from tests.cli.conftest import SMALL
from tests.support.connection import handshake, pair
from tests.support.corpus import corpus
from tests.support.stacks import small_ip
from tests.support.together import Together

HEAD = '#include "sluice.h"\n'
CHANGE = """
SLUICE_INLINE
SLUICE_PARAMETER(offset, number, 0, "of the bytes in the frame")
SLUICE_PARAMETER(size, number, 1, "how many")
SLUICE_PARAMETER(byte, number, 0, "what each becomes")
SLUICE_PARAMETER(next, number, 256, "what the second becomes; 256: as the others")
SLUICE_COUNTER(refused, "packets that were not changed")
static void change(const struct sl_event *event) {
    uint8_t bytes[64];
    memset(bytes, (int)SLUICE_PARAMETER_OF(event->box, byte), sizeof bytes);
    if (SLUICE_PARAMETER_OF(event->box, next) < 256)
        bytes[1] = (uint8_t)SLUICE_PARAMETER_OF(event->box, next);
    const uint8_t *at = sl_packet_frame(event)->at + SLUICE_PARAMETER_OF(event->box, offset);
    if (!SLUICE_REWRITE(event->box, at, bytes, (uint32_t)SLUICE_PARAMETER_OF(event->box, size)))
        SLUICE_COUNTER_OF(event->box, refused)++;
}
SLUICE_ON(ipv4, packet) { if (ON) change(event); }
SLUICE_ON(tcp, packet) { if (ON && sl_packet_frame(event)->at[12] == 0x86) change(event); }
SLUICE_ON(udp, packet) { if (ON && sl_packet_frame(event)->at[12] == 0x86) change(event); }
"""
DROP = """
SLUICE_INLINE
SLUICE_ON(tcp, data) {
    if (ON && data->bytes.at[0] == 'd') {
        SLUICE_REWRITE(event->box, data->bytes.at, "D", 1);
        SLUICE_DROP(event->box);
    }
}
"""
RESET = """
SLUICE_INLINE
SLUICE_ON(tcp, data) { if (ON) SLUICE_RESET(event->box); }
"""
REFUSE = """
SLUICE_INLINE
SLUICE_ON(tcp, created) { if (ON) SLUICE_RESET(event->box); }
"""
SEND = """
SLUICE_INLINE
SLUICE_COUNTER(refused, "too many")
SLUICE_ON(tcp, created) {
    if (!ON)
        return;
    for (int i = 0; i < 70; i++) {
        uint8_t made[60] = {0};
        made[0] = (uint8_t)i;
        SLUICE_COUNTER_OF(event->box, refused) += !SLUICE_SEND(event->box, made, sizeof made);
    }
}
"""
PARKED = """
SLUICE_INLINE
SLUICE_COUNTER(refused, "resets")
SLUICE_ON(tcp, data) {
    if (ON && data->bytes.captured >= 3 && memcmp(data->bytes.at, "BAD", 3) == 0)
        SLUICE_COUNTER_OF(event->box, refused) += !SLUICE_RESET(event->box);
}
"""
TWICE = """
SLUICE_INLINE
SLUICE_ON(tcp, packet) { if (ON) { SLUICE_RESET(event->box); SLUICE_SEND(event->box, NULL, 0); } }
SLUICE_ON(tcp, created) { if (ON) SLUICE_RESET(event->box); }
SLUICE_ON(tcp, orphan) { if (ON) SLUICE_RESET(event->box); }
"""
SWITCH = """
#undef ON
#define ON SLUICE_PARAMETER_OF(event->box, on)
SLUICE_PARAMETER(on, flag, no, "it decides")
"""
TEXTS = {
    "change": CHANGE,
    "drop": DROP,
    "reset": RESET,
    "refuse": REFUSE,
    "send": SEND,
    "parked": PARKED,
    "twice": TWICE,
}
ALL = Together(small_ip, **{name: SWITCH + text for name, text in TEXTS.items()})
"""Functions of which each run switches one on."""


@cache
def compiled(text: str, name: str = "output", stack: str = "") -> CompiledStack:
    return compile_stack(find_stack(stack) if stack else small_ip(), (read_c_function(name, HEAD + text, f"{name}.c"),))


def opened(name: str, path: Path, options: str = "", most: int = 1 << 8) -> Box:
    """A box in which one function of ALL is switched on."""
    settings = Settings(max_instances=most, memory=1 << 24)
    given = ALL.options(name, f"on,{options}" if options else "on")
    return Box(ALL.compiled, settings, function_options=given, output=path)


def left(
    name: str, packets: list[bytes], path: Path, options: str = "", length: int | None = None
) -> tuple[list[bytes], dict[str, int]]:
    """The packets that leave, and the figures of the function and of the box. length: on the wire, where it is more."""
    sent, found = processed(opened(name, path, options), packets, path, length)
    return sent, {figure: value for figure, value in found.items() if "." not in figure} | ALL.of(name, found)


def processed(
    box: Box, packets: list[bytes], path: Path, length: int | None = None
) -> tuple[list[bytes], dict[str, int]]:
    """The packets that a box writes to `path`, and what it reports."""
    with box:
        box.burst([(packet, (1000 + number) * 10**9, 1, length) for number, packet in enumerate(packets)])
        box.finish()
        assert box.failure() is None
        found = box.reports()
    return [bytes(packet) for packet in rdpcap(str(path))], found


def is_right(frame: bytes) -> bool:
    """Whether all checksums are what scapy would make them."""
    packet: Packet = Ether(frame)
    layer = packet
    while layer:
        for name in ("chksum", "cksum"):
            if layer.fields.get(name):
                delattr(layer, name)
        layer = layer.payload
    return bytes(packet) == frame


def frames() -> dict[str, bytes]:
    """A packet of each kind, as scapy makes them."""
    payload = bytes(range(1, 40))
    ends4, ends6 = {"src": "10.0.0.1", "dst": "10.9.8.7"}, {"src": "fd00::1", "dst": "fd00::2:3"}
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    made = {
        "tcp": ether / IP(**ends4) / TCP(sport=1000, dport=80, flags="A") / payload,
        "udp": ether / IP(**ends4) / UDP(sport=1000, dport=4000) / payload,
        "icmp": ether / IP(**ends4) / ICMP() / payload,
        "tcp6": ether / IPv6(**ends6) / TCP(sport=1000, dport=80, flags="A") / payload,
        "udp6": ether / IPv6(**ends6) / UDP(sport=1000, dport=4000) / payload,
        "ipip": ether / IP(**ends4, proto=4) / IP(src="1.2.3.4", dst="4.3.2.1") / TCP(dport=80) / payload,
    }
    return {name: bytes(packet) for name, packet in made.items()}


LENGTHS_AND_PROTOCOLS = {"4": ({14 + n for n in (0, 2, 3, 6, 7, 9, 10, 11)}), "6": {14 + n for n in (0, 4, 5, 6)}}
"""Bytes of the first IP header that make another packet of it, and its checksum."""


@pytest.mark.parametrize("name", list(frames()))
def test_checksums_follow_what_is_changed(name: str, tmp_path: Path) -> None:
    """Wherever it is: addresses, ports, payload; with each value, at even and odd places."""
    frame = frames()[name]
    six, inner = name.endswith("6"), 20 if name == "ipip" else 0
    header = 14 + inner + (40 if six else 20)
    checksum = {"tcp": 16, "udp": 6, "icm": 2, "ipi": 16}[name[:3]]
    shapes = {12, 13} if "tcp" in name or name == "ipip" else {4, 5} if "udp" in name else {0, 1}
    hands_off = {header + n for n in (checksum, checksum + 1, *shapes)} | LENGTHS_AND_PROTOCOLS["6" if six else "4"]
    hands_off |= {34 + n for n in (0, 2, 3, 6, 7, 9, 10, 11)} if inner else set()
    for offset in range(14, len(frame) - 3):
        for size, byte in ((1, 0), (1, 255), (2, 0x5A), (3, 0)):
            if hands_off & set(range(offset, offset + size)):
                continue
            found, _ = left("change", [frame], tmp_path / "out.pcap", f"offset={offset},size={size},byte={byte}")
            assert found[0][offset : offset + size] == bytes([byte]) * size
            assert is_right(found[0]), (offset, size, byte)


def test_what_was_wrong_stays_wrong_and_what_was_cut_is_mended(tmp_path: Path) -> None:
    """It changes by the change alone, so a packet that a card was to finish still is; a cut one is right as a whole."""
    frame = frames()["tcp"]
    unfinished = frame[:50] + b"\x12\x34" + frame[52:]
    changed, _ = left("change", [unfinished], tmp_path / "out.pcap", "offset=26,size=4,byte=7")
    whole, _ = left("change", [frame], tmp_path / "out.pcap", "offset=26,size=4,byte=7")
    was, now = (int.from_bytes(one[50:52], "big") for one in (frame, whole[0]))
    difference = (int.from_bytes(changed[0][50:52], "big") - 0x1234) % 0xFFFF
    assert difference == (now - was) % 0xFFFF and not is_right(changed[0])
    cut, _ = left("change", [frame[:60]], tmp_path / "out.pcap", "offset=26,size=4,byte=7", len(frame))
    assert is_right(cut[0] + frame[60:])


def test_a_datagram_without_a_checksum_stays_without(tmp_path: Path) -> None:
    """RFC 768; and a sum of 0 is written as 0xffff."""
    frame = frames()["udp"]
    none = frame[:40] + b"\0\0" + frame[42:]
    assert left("change", [none], tmp_path / "out.pcap", "offset=50,byte=9")[0][0][40:42] == b"\0\0"
    checksum = int.from_bytes(frame[40:42], "big")
    word = int.from_bytes(frame[50:52], "big") + checksum
    zero = ((word & 0xFFFF) + (word >> 16)) & 0xFFFF  # so that the sum becomes 0xffff
    options = f"offset=50,size=2,byte={zero >> 8},next={zero & 255}"
    found = left("change", [frame], tmp_path / "out.pcap", options)[0][0]
    assert found[40:42] == b"\xff\xff" and found[50:52] == zero.to_bytes(2, "big")


@pytest.mark.parametrize(
    "capture", ["FoxIO-LLC_ja4__gre-sample.pcap", "LibtraceTeam_libtrace__vlan.pcap", "gen__tcp_loss_reorder.pcap"]
)
def test_real_packets(capture: str, tmp_path: Path) -> None:
    """All that were right are right behind a NAT."""
    path = corpus() / capture
    if not path.is_file():
        pytest.skip(f"{capture} is not in this corpus")
    text = """
SLUICE_INLINE
SLUICE_ON(ipv4, packet) { SLUICE_REWRITE(event->box, event->unit.at + 12, "\\x0a\\x63\\x01\\x02", 4); }
SLUICE_ON(tcp, packet) {
    if (sl_packet_frame(event)->at[12] == 0x86)
        SLUICE_REWRITE(event->box, event->unit.at - 31, "\\xfd\\x99\\x77", 3);
    SLUICE_REWRITE(event->box, event->unit.at + 2, "\\x1f\\x91", 2);
}
"""
    stack = compiled(text, stack="tcp_ip")
    with Box(stack, Settings(), function_options=[""], output=tmp_path / "out.pcap") as box:
        box.run(path)
    before, after = ([bytes(packet) for packet in rdpcap(str(one))] for one in (path, tmp_path / "out.pcap"))
    assert len(before) == len(after) and before != after
    for old, new in zip(before, after, strict=True):
        assert is_right(new) or not is_right(old)


def test_dropped_packets_do_not_leave(tmp_path: Path) -> None:
    """All others do, as they came, with their times. One changed before is dropped, and not counted as such."""
    client, server = pair()
    packets = [*handshake(client, server), client.send("A", b"drop"), server.send("A", b"keep")]
    found, reports = left("drop", packets, tmp_path / "out.pcap")
    assert found == [*packets[:3], packets[4]]
    assert reports == {"packets_dropped": 1, "packets_changed": 0, "packets_sent": 0}
    assert [int(packet.time) for packet in rdpcap(str(tmp_path / "out.pcap"))] == [1000, 1001, 1002, 1004]


@pytest.mark.parametrize("version", [4, 6])
def test_both_ends_are_reset(version: int, tmp_path: Path) -> None:
    """In place of the packet: the receiver as if by the sender, the sender as RFC 9293, 3.10.7.1 says."""
    client, server = pair(version=version, checksums=True)
    packets = handshake(client, server)
    sent = client.send("A", b"attack")
    found, reports = left("reset", [*packets, sent], tmp_path / "out.pcap")
    assert found[:3] == packets and reports["packets_sent"] == 2 and reports["packets_dropped"] == 1
    cause, forth, back = Ether(sent), Ether(found[3]), Ether(found[4])
    network = IP if version == 4 else IPv6
    assert is_right(found[3]) and is_right(found[4]) and not bytes(forth[TCP].payload) + bytes(back[TCP].payload)
    assert (forth.src, forth.dst, back.src, back.dst) == (cause.src, cause.dst, cause.dst, cause.src)
    assert (forth[network].src, forth[network].dst) == (cause[network].src, cause[network].dst)
    assert (back[network].src, back[network].dst) == (cause[network].dst, cause[network].src)
    assert (forth[TCP].sport, forth[TCP].dport, back[TCP].sport, back[TCP].dport) == (40000, 80, 80, 40000)
    assert (forth[TCP].seq, forth[TCP].ack, str(forth[TCP].flags)) == (cause[TCP].seq, cause[TCP].ack, "RA")
    assert (back[TCP].seq, str(back[TCP].flags)) == (cause[TCP].ack, "R")


def test_a_syn_is_answered_with_what_it_may_expect(tmp_path: Path) -> None:
    """Without an acknowledgement: sequence number 0, and its own is acknowledged."""
    client, server = pair(isn=1000)
    found, _ = left("refuse", [handshake(client, server)[0]], tmp_path / "out.pcap")
    back = Ether(found[1])[TCP]
    assert (back.seq, back.ack, str(back.flags)) == (0, 1001, "RA")


def test_packets_of_functions_leave_after_the_one_in_hand(tmp_path: Path) -> None:
    """At most 64 for each."""
    client, server = pair()
    packets = handshake(client, server)
    found, reports = left("send", packets, tmp_path / "out.pcap")
    assert reports["refused"] == 6 and reports["packets_sent"] == 64
    assert found[0] == packets[0] and found[65:] == packets[1:]
    assert [packet[0] for packet in found[1:65]] == list(range(64))


def test_what_cannot_be_changed_is_refused(tmp_path: Path) -> None:
    """Bytes beyond the packet, a later fragment's payload, a first one that leaves its checksum to the second."""
    frame = frames()["udp"]
    for options in (f"offset={len(frame)},size=1", f"offset={len(frame) - 1},size=2"):
        assert left("change", [frame], tmp_path / "out.pcap", options)[1]["refused"] == 1
    assert left("change", [frame], tmp_path / "out.pcap", f"offset={len(frame) - 1},size=1")[1]["refused"] == 0
    whole = IP(frames()["tcp"][14:])
    first, second = bytes(whole)[20:28], bytes(whole)[28:]
    ether = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x800))
    parts = [
        ether + bytes(IP(src=whole.src, dst=whole.dst, proto=6, flags="MF", id=5) / first),
        ether + bytes(IP(src=whole.src, dst=whole.dst, proto=6, frag=1, id=5) / second),
    ]
    assert left("change", [parts[0]], tmp_path / "out.pcap", "offset=26,size=4,byte=1")[1]["refused"] == 1
    assert left("change", [parts[1]], tmp_path / "out.pcap", "offset=26,size=4,byte=1")[1]["refused"] == 0
    assert left("change", [parts[1]], tmp_path / "out.pcap", "offset=40,size=1,byte=1")[1]["refused"] == 1


def test_without_saying_inline_it_does_not_compile() -> None:
    with pytest.raises(CompilerError, match="says_SLUICE_INLINE"):
        compiled("SLUICE_ON(tcp, data) { SLUICE_DROP(event->box); }")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-w is for functions that need it; those say so where it is missing."""
    client, server = pair()
    capture, out = str(tmp_path / "in.pcap"), str(tmp_path / "out.pcap")
    wrpcap(capture, [Ether(packet) for packet in [*handshake(client, server), client.send("A", b"x")]])
    function = tmp_path / "drop.c"
    function.write_text(HEAD + "SLUICE_INLINE\nSLUICE_ON(tcp, data) { SLUICE_DROP(event->box); }\n")
    run = ["run", str(SMALL), "-r", capture]
    assert main([*run, "-f", str(function), "-w", out]) == 0
    assert "packets_dropped: 1" in capsys.readouterr().out
    assert len(rdpcap(out)) == 3
    assert main([*run, "-f", str(function)]) == 0
    assert "note: drop.c: drops, changes or sends packets, and nothing takes" in capsys.readouterr().err
    assert main([*run, "-f", "assemble", "-w", out]) == 1
    assert "no function drops, changes or sends packets" in capsys.readouterr().err
    assert main([*run, "-f", str(function), "-w", capture]) == 1
    assert "is the input as well" in capsys.readouterr().err


def test_what_a_connection_held_is_not_held_against_another_whose_packet_ends_it(tmp_path: Path) -> None:
    """It waits after a hole, and comes out when the connection makes room, or times out, without a packet of its."""
    attacker, server = pair(port=1111)
    victim, _ = pair(port=2222)
    parked = [*handshake(attacker, server), attacker.at(10, b"BAD")]
    path = tmp_path / "out.pcap"
    for rooms, seconds in ((1, 1), (256, 100_000)):
        packets = [victim.send("S"), *([victim.send("A", b"x")] * 3000 if rooms > 1 else [])]
        with opened("parked", path, most=rooms) as box:
            for packet in parked:
                box.packet(packet, 1000 * 10**9)
            for packet in packets:
                box.packet(packet, (1000 + seconds) * 10**9)
            box.finish()
            found = box.reports()
        assert found["parked.refused"] == 1 and found["packets_dropped"] == found["packets_sent"] == 0
        assert len(rdpcap(str(path))) == len(parked) + len(packets)


def test_a_packet_is_answered_with_resets_once_and_a_reset_not_at_all(tmp_path: Path) -> None:
    client, _ = pair()
    sent, found = left("twice", [client.send("S")], tmp_path / "out.pcap")
    assert len(sent) == 2 and found["packets_dropped"] == 1
    sent, found = left("twice", [client.send("R")], tmp_path / "out.pcap")
    assert sent == [] and found["packets_dropped"] == 1


def test_bytes_after_a_udp_datagram_leave_its_checksum_alone(tmp_path: Path) -> None:
    """They lie in the IP packet, after what the length of UDP says (RFC 9868)."""
    datagram = bytes(IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=1, dport=2) / b"abcd")[20:]
    ip = bytes(IP(src="192.0.2.1", dst="192.0.2.2", proto=17) / (datagram + b"OPTION"))
    frame = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x800)) + ip
    sent, _ = left("change", [frame], tmp_path / "out.pcap", f"offset={14 + 20 + 12 + 1},byte=7")
    assert sent[0][14 + 20 : 14 + 20 + 12] == datagram and sent[0] != frame
