"""What the TCP/IP stack does with hand-made packets: where each ends, what goes up, whose instance it is."""

import random
import struct
from functools import cache
from itertools import permutations

import pytest

from sluice.engine.box import CompiledStack
from sluice.ir.hook import Hook
from sluice.ir.interpreter import Interpreter
from sluice.lower.build import build
from sluice.stacks.tcp_ip import tcp_ip
from tests.support.budget import thinned
from tests.support.run import run as run_compiled
from tests.support.run import watch_all

HOOKS = frozenset(
    [Hook("ipv4", "data"), Hook("frag", "data"), Hook("udp", "packet"), Hook("udp", "created")]
    + [Hook(layer, event) for layer in ("icmp", "icmp6", "other") for event in ("created", "packet")]
)
PROGRAM = build(tcp_ip(), HOOKS)
CHECKING = build(tcp_ip(), HOOKS, frozenset({"checksums"}))

A4, B4 = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
A6, B6 = bytes(15) + b"\1", bytes(15) + b"\2"
MACS = bytes(12)
ALL = (0, 43, 60, 135, 139, 140, 253, 254)


def total(data: bytes) -> int:
    """The Internet checksum."""
    data += b"\0" * (len(data) & 1)
    found = sum(struct.unpack(f">{len(data) // 2}H", data))
    while found >> 16:
        found = (found & 0xFFFF) + (found >> 16)
    return found ^ 0xFFFF


def udp(payload: bytes, length: int | None = None, ports: tuple[int, int] = (1000, 2000), checksum: int = 0) -> bytes:
    return struct.pack(">HHHH", *ports, 8 + len(payload) if length is None else length, checksum) + payload


def ip4(
    payload: bytes,
    protocol: int = 17,
    src: bytes = A4,
    dst: bytes = B4,
    *,
    length: int | None = None,
    options: bytes = b"",
    offset: int = 0,
    more: int = 0,
    id: int = 7,
    first: int | None = None,
    checksum: int | None = None,
) -> bytes:
    size = 20 + len(options)
    length = size + len(payload) if length is None else length
    begin = 0x40 | size // 4 if first is None else first
    head = struct.pack(">BBHHHBB", begin, 0, length, id, more << 13 | offset, 64, protocol)
    if checksum is None:
        checksum = total(head + b"\0\0" + src + dst + options)
    return head + struct.pack(">H", checksum) + src + dst + options + payload


def ip6(payload: bytes, following: int = 17, src: bytes = A6, dst: bytes = B6, *, length: int | None = None) -> bytes:
    return (
        struct.pack(">IHBB", 6 << 28, len(payload) if length is None else length, following, 64) + src + dst + payload
    )


def ext(payload: bytes, following: int, size: int = 0) -> bytes:
    return bytes([following, size]) + bytes(6 + 8 * size) + payload


def frag6(payload: bytes, offset: int, more: int, following: int = 17, id: int = 9) -> bytes:
    return struct.pack(">BBHI", following, 0, offset << 3 | more, id) + payload


def eth(payload: bytes, kind: int = 0x0800) -> bytes:
    return MACS + struct.pack(">H", kind) + payload


def run(*packets: bytes, link_type: int = 1, checking: bool = False, seconds: float = 0) -> Interpreter:
    """Every packet, `seconds` after the one before."""
    box = Interpreter(CHECKING if checking else PROGRAM)
    for number, packet in enumerate(packets):
        box.packet(packet, int(number * seconds * 1e9), link_type)
    assert box.conserves()
    return box


@cache
def compiled() -> CompiledStack:
    return watch_all(tcp_ip())


def count(box: Interpreter, layer: str, name: str = "packets") -> int:
    """A counter, summed over the variants of a layer."""
    return sum(
        counters.get(name, 0) for variant, counters in box.counters.items() if PROGRAM.layers[variant].layer == layer
    )


def path(box: Interpreter) -> set[str]:
    """Layers that any packet came to."""
    return {layer.layer for name, layer in PROGRAM.layers.items() if box.counters[name]["packets"]}


def delivered(box: Interpreter, layer: str) -> list[int | bytes]:
    """Bytes of the datagrams that a layer reassembled."""
    return [event.values[1] for event in box.events if (event.layer, event.name) == (layer, "data")]


def lengths(box: Interpreter, layer: str = "udp") -> list[int | bytes]:
    """Payload lengths of a layer's packets."""
    return [
        event.values[0] for event in box.events if PROGRAM.layers[event.layer].layer == layer and event.name == "packet"
    ]


# --- link layers ------

BODY = udp(b"hello")
SNAP = b"\xaa\xaa\x03\0\0\0\x08\0"


@pytest.mark.parametrize(
    "link_type, frame, layers",
    [
        (1, eth(ip4(BODY)), "eth ipv4 udp"),
        (1, eth(ip6(BODY), 0x86DD), "eth ipv6 udp"),
        (1, eth(b"\0\x07\x08\0" + ip4(BODY), 0x8100), "eth vlan ipv4 udp"),
        (1, eth(b"\0\x07\x08\0" + ip4(BODY), 0x9200), "eth vlan ipv4 udp"),
        (1, eth(b"\0\x07\x81\0\0\x08\x91\0\0\x09\x86\xdd" + ip6(BODY), 0x88A8), "eth vlan ipv6 udp"),
        (1, eth(SNAP + ip4(BODY) + bytes(9), 8 + 33), "eth llc snap ipv4 udp"),
        (1, eth(b"\xaa\xaa\x03\0\0\xf8\x86\xdd" + ip6(BODY), 8 + 53), "eth llc snap ipv6 udp"),
        (1, eth(b"\xaa\xaa\x03\0\0\x0c\x08\0" + ip4(BODY), 41), "eth llc snap"),
        (1, eth(b"\xaa\xaa\x03\0\0\0\x81\0\0\x07\x08\0" + ip4(BODY), 45), "eth llc snap vlan ipv4 udp"),
        (1, eth(b"\x06\x06\x03" + ip4(BODY), 36), "eth llc ipv4 udp"),
        (1, eth(b"\x42\x42\x03" + bytes(35), 38), "eth llc"),
        (1, eth(b"\0\x07\0\x29" + SNAP + ip4(BODY), 0x8100), "eth vlan llc snap ipv4 udp"),
        (1, eth(struct.pack(">HHBBH", 1, 0x800, 6, 4, 1) + bytes(20 + 18), 0x0806), "eth arp"),
        (1, eth(b"?", 0x88CC), "eth"),
        (113, bytes(14) + b"\x08\0" + ip4(BODY), "sll ipv4 udp"),
        (113, bytes(14) + b"\0\x04" + SNAP + ip4(BODY), "sll llc snap ipv4 udp"),
        (276, b"\x86\xdd" + bytes(18) + ip6(BODY), "sll2 ipv6 udp"),
        (276, b"\x81\0" + bytes(18) + b"\0\x07\x08\0" + ip4(BODY), "sll2 vlan ipv4 udp"),
        (0, b"\2\0\0\0" + ip4(BODY), "null ipv4 udp"),
        (0, b"\0\0\0\2" + ip4(BODY), "null ipv4 udp"),
        (108, b"\0\0\0\2" + ip4(BODY), "null ipv4 udp"),
        (108, b"\0\0\0\7" + ip4(BODY), "null"),
        (0, b"\2\0\1\0" + ip4(BODY), "null"),
        *((0, bytes([af, 0, 0, 0]) + ip6(BODY), "null ipv6 udp") for af in (10, 24, 28, 30)),
        *((kind, ip4(BODY), "raw ipv4 udp") for kind in (101, 12, 14, 228)),
        *((kind, ip6(BODY), "raw ipv6 udp") for kind in (101, 12, 14, 229)),
        (101, b"\x55" + bytes(30), "raw"),
    ],
)
def test_link_layers(link_type: int, frame: bytes, layers: str) -> None:
    box = run(frame, link_type=link_type)
    assert path(box) == set(layers.split())
    assert lengths(box) == ([5] if layers.endswith("udp") else [])


def test_qinq_counts_each_tag() -> None:
    box = run(eth(b"\0\x07\x81\0\0\x08\x08\0" + ip4(BODY), 0x88A8))
    assert count(box, "vlan") == 2 and count(box, "udp") == 1


def test_unknown_link_type() -> None:
    box = run(ip4(BODY), link_type=147)
    assert box.box["unknown link type"] == 1 and path(box) == set()


def test_length_of_ieee_frame_cuts_padding() -> None:
    box = run(eth(SNAP + ip4(BODY, length=0) + bytes(9), 8 + 33))
    assert count(box, "ipv4", "bytes") == 33


@pytest.mark.parametrize("size", range(len(eth(b"\0\x07\x08\0" + ip4(BODY), 0x8100))))
def test_cut_by_the_snap_length(size: int) -> None:
    frame = eth(b"\0\x07\x08\0" + ip4(BODY), 0x8100)
    box = Interpreter(PROGRAM)
    box.packet(frame[:size], 0, 1, len(frame))
    ended = [name for name, one in box.counters.items() if one.get("cut:header")]
    inside = "eth" if size < 14 else "vlan" if size < 18 else "ipv4" if size < 38 else "udp_over_ipv4"
    assert ended == ([inside] if size < 42 else [])  # UDP needs its ports
    short = run(frame[:size])
    malformed = [name for name, one in short.counters.items() if one.get("malformed:header too short")]
    assert malformed == ([inside] if size < 46 else [])


# --- IPv4 ------


@pytest.mark.parametrize(
    "packet, outcome",
    [
        (ip4(BODY, first=0x55), "malformed:version"),
        (ip4(BODY, first=0x44), "malformed:header length"),
        (ip4(BODY, length=19), "malformed:total length"),
        (ip4(BODY, options=bytes(8), length=27), "malformed:total length"),
        (ip4(b"", first=0x46), "malformed:header too short"),
        (ip4(BODY, checksum=1), "passed"),
    ],
)
def test_ipv4_header(packet: bytes, outcome: str) -> None:
    assert count(run(eth(packet)), "ipv4", outcome) == 1


@pytest.mark.parametrize(
    "packet, payload",
    [
        (ip4(BODY, options=bytes(40)), 5),
        (ip4(BODY, length=0), 5),
        (ip4(BODY, length=60000), 5),
        (ip4(BODY) + bytes(13), 5),
        (ip4(BODY, length=20 + 8 + 2), 2),
        (ip4(udp(b"hello", 0), length=20 + 8 + 2), 2),
        (ip4(udp(b"hello", 0), length=0) + b"more", 9),
    ],
)
def test_ipv4_length(packet: bytes, payload: int) -> None:
    assert lengths(run(packet, link_type=101)) == [payload]


def test_checksums_are_an_option() -> None:
    pseudo = A4 + B4 + struct.pack(">BBH", 0, 17, 13)
    good = udp(b"hello", checksum=total(pseudo + udp(b"hello")))
    bad = udp(b"hello", checksum=total(pseudo + udp(b"hello")) ^ 1)
    packets = [ip4(good), ip4(bad), ip4(udp(b"hello")), ip4(good, checksum=1)]
    assert lengths(run(*packets, link_type=101)) == [5, 5, 5, 5]
    box = run(*packets, link_type=101, checking=True)
    assert lengths(box) == [5, 5]
    assert count(box, "ipv4", "malformed:checksum") == count(box, "udp", "malformed:checksum") == 1


def test_checksums_over_ipv6() -> None:
    pseudo = A6 + B6 + struct.pack(">II", 13, 17)
    good = udp(b"hello", checksum=total(pseudo + udp(b"hello")))
    box = run(ip6(good), ip6(good[:-1] + b"!"), ip6(udp(b"hello")), link_type=101, checking=True)
    assert lengths(box) == [5, 5] and count(box, "udp", "malformed:checksum") == 1


def test_icmp_checksums() -> None:
    head = struct.pack(">BBHHH", 8, 0, 0, 1, 1)
    good = struct.pack(">BBHHH", 8, 0, total(head), 1, 1)
    head6 = struct.pack(">BBHHH", 128, 0, 0, 1, 1)
    pseudo = A6 + B6 + struct.pack(">II", 8, 58)
    good6 = struct.pack(">BBHHH", 128, 0, total(pseudo + head6), 1, 1)
    packets = [ip4(good, 1), ip4(head, 1), ip6(good6, 58), ip6(head6, 58)]
    box = run(*packets, link_type=101, checking=True)
    assert lengths(box, "icmp") == [0] and lengths(box, "icmp6") == [0]
    assert count(box, "icmp", "malformed:checksum") == count(box, "icmp6", "malformed:checksum") == 1


# --- fragments ------

WHOLE = udp(bytes(range(40)))
PIECES = [(0, 16), (16, 32), (32, 48)]


def fragment4(
    low: int, high: int, more: int | None = None, body: bytes = WHOLE, id: int = 7, protocol: int = 17
) -> bytes:
    more = int(high < len(body)) if more is None else more
    return ip4(body[low:high], protocol, offset=low // 8, more=more, id=id)


def fragment6(
    low: int, high: int, more: int | None = None, body: bytes = WHOLE, id: int = 7, protocol: int = 17
) -> bytes:
    more = int(high < len(body)) if more is None else more
    return ip6(frag6(body[low:high], low // 8, more, protocol, id), 44)


BOTH = pytest.mark.parametrize("make, layer", [(fragment4, "ipv4"), (fragment6, "frag")], ids=["ipv4", "ipv6"])


@BOTH
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_fragments_in_any_order(make, layer, order) -> None:
    box = run(*(make(*PIECES[number]) for number in order), link_type=101)
    assert delivered(box, layer) == [WHOLE] and lengths(box) == [40]
    assert count(box, layer, "held") == 2 and count(box, layer, "passed") == 1
    assert count(box, layer, "ended:accept") == 1


@BOTH
def test_fragments_again_and_empty(make, layer) -> None:
    packets = [
        make(32, 48),
        make(32, 48),
        make(0, 0, 1),
        make(0, 16),
        make(0, 16),
        make(16, 16, 1),
        make(16, 32),
    ]
    box = run(*packets, link_type=101)
    assert delivered(box, layer) == [WHOLE] and lengths(box) == [40]


@BOTH
def test_late_fragment_begins_another_datagram(make, layer) -> None:
    box = run(*(make(*piece) for piece in PIECES), make(16, 32), link_type=101)
    assert delivered(box, layer) == [WHOLE] and count(box, layer, "instances") == 2
    box.close()
    assert count(box, layer, "ended:eof") == 1 and delivered(box, layer) == [WHOLE]


@BOTH
def test_interleaved_datagrams(make, layer) -> None:
    other = udp(bytes(40))
    packets = [make(0, 16), make(0, 16, body=other, id=8), make(32, 48), make(32, 48, body=other, id=8)]
    packets += [make(16, 32, body=other, id=8), make(16, 32)]
    assert delivered(run(*packets, link_type=101), layer) == [other, WHOLE]


@BOTH
def test_first_copy_of_overlapping_bytes_wins(make, layer) -> None:
    wrong = bytes(48)
    packets = [make(0, 24), make(8, 40, body=wrong), make(32, 48)]
    assert delivered(run(*packets, link_type=101), layer) == [WHOLE[:24] + wrong[24:40] + WHOLE[40:]]


@BOTH
def test_first_end_counts(make, layer) -> None:
    longer, shorter = make(32, 64, body=WHOLE + bytes(16)), make(16, 24, 0)
    box = run(make(32, 48), longer, shorter, make(0, 16), make(16, 32), link_type=101)
    assert delivered(box, layer) == [WHOLE]


@BOTH
def test_hole_and_timeout(make, layer) -> None:
    packets = [make(0, 16), make(32, 48)]
    assert delivered(run(*packets, link_type=101), layer) == []
    box = run(*packets, make(16, 32), link_type=101, seconds=61)
    assert delivered(box, layer) == [] and count(box, layer, "ended:timeout") == 2


@BOTH
def test_cut_fragment_counts_by_its_length(make, layer) -> None:
    box = Interpreter(PROGRAM)
    for packet, missing in ((make(0, 16), 0), (make(32, 48), 3), (make(16, 32), 0)):
        box.packet(packet[: len(packet) - missing], 0, 101, len(packet))
    assert delivered(box, layer) == [WHOLE[:-3]] and box.conserves()


@BOTH
@pytest.mark.parametrize("seed", thinned(range(100), 5))
def test_random_fragments(make, layer, seed) -> None:
    choose = random.Random(seed)
    body = choose.randbytes(choose.randint(9, 200))
    places = range(0, len(body), 8)
    cuts = sorted({0, *choose.sample(places, choose.randint(1, len(places)))})
    packets = [make(low, high, body=body) for low, high in zip(cuts, [*cuts[1:], len(body)], strict=True)]
    if len(packets) == 1:
        cuts.append(8)
        packets = [make(0, 8, body=body), make(8, len(body), body=body)]
    for low in choose.choices(places, k=choose.randint(0, 3)):
        packets.append(make(low, min(len(body), low + 16), body=body, more=int(low + 16 < len(body) or low == 0)))
    choose.shuffle(packets)
    assert body in delivered(run(*packets, link_type=101), layer)


def test_protocol_and_addresses_are_part_of_the_key() -> None:
    turned = ip4(WHOLE[16:], src=B4, dst=A4, offset=2)
    box = run(fragment4(0, 16), fragment4(16, 48, protocol=50), turned, link_type=101)
    assert delivered(box, "ipv4") == [] and count(box, "ipv4", "instances") == 3


def test_whole_packets_have_no_stored_instance() -> None:
    box = run(*[ip4(BODY)] * 3, link_type=101)
    assert count(box, "ipv4", "instances") == 0 and lengths(box) == [5, 5, 5]


# --- IPv6 ------


@pytest.mark.parametrize(
    "packet, payload",
    [
        (ip6(BODY, length=0), 5),
        (ip6(BODY, length=60000), 5),
        (ip6(BODY) + bytes(7), 5),
        (ip6(ext(BODY, 17), 0, length=0), 5),
        (ip6(ext(ext(ext(BODY, 17), 60, 2), 43), 0), 5),
        *((ip6(ext(BODY, 17, number % 3), number), 5) for number in ALL),
        (ip6(frag6(BODY, 0, 0), 44), 5),
        (ip6(frag6(ext(BODY, 17), 0, 0, 60), 44), 5),
        (ip6(ext(b"\x11\x02" + bytes(14) + BODY, 51), 0), 5),
        (ip6(ip4(BODY), 4), 5),
        (ip4(ip6(BODY), 41), 5),
        (ip4(ip4(BODY), 4), 5),
        (ip4(b"\x11\x01" + bytes(10) + BODY, 51), 5),
    ],
)
def test_way_to_udp(packet: bytes, payload: int) -> None:
    assert lengths(run(packet, link_type=101)) == [payload]


def test_atomic_fragments_are_not_stored() -> None:
    box = run(*[ip6(frag6(BODY, 0, 0), 44)] * 2, fragment6(0, 16), link_type=101)
    assert lengths(box) == [5, 5] and count(box, "frag", "instances") == 1


def test_first_fragment_says_what_follows() -> None:
    body = ext(BODY + bytes(11), 17)
    pieces = [fragment6(16, len(body), body=body, protocol=17), fragment6(0, 16, body=body, protocol=60)]
    box = run(*pieces, link_type=101)
    assert count(box, "ext") == 1 and lengths(box) == [5]


def test_nothing_follows() -> None:
    box = run(ip6(b"", 59), ip6(ext(b"", 59), 0), link_type=101)
    assert path(box) == {"raw", "ipv6", "ext"} and count(box, "ext", "ended") == 1


def test_ipv6_malformed() -> None:
    box = run(ip6(BODY), b"\x55" + ip6(BODY)[1:], link_type=229)
    assert count(box, "raw", "ended") == 1
    box = run(eth(b"\x55" + ip6(BODY)[1:], 0x86DD), eth(ip6(ext(b"", 17, 1)[:-1], 0), 0x86DD))
    assert count(box, "ipv6", "malformed:version") == 1
    assert count(box, "ext", "malformed:header too short") == 1


LONG = udp(bytes(70_000), length=0)
JUMBO_ENDS = 8 + len(LONG)


def jumbogram(length: int, options: bytes = b"", following: int = 17, said: int = 0) -> bytes:
    """LONG with such a length in its hop-by-hop options, after other options, and seven bytes after it."""
    options += b"\xc2\4" + struct.pack(">I", length)
    head = bytes([following, (len(options) + 2) // 8 - 1]) + options
    return ip6(head + LONG + bytes(7), 0, length=said)


@pytest.mark.parametrize(
    ("packet", "payload"),
    [
        (jumbogram(JUMBO_ENDS), 70_000),
        (jumbogram(JUMBO_ENDS - 10), 69_990),
        (jumbogram(JUMBO_ENDS + 8, b"\0\1\0\x3e\3abc"), 70_000),
        (jumbogram(JUMBO_ENDS + 500), 70_007),
        # An option that is too long ends the list: no length is known.
        (jumbogram(JUMBO_ENDS, b"\x3e\x7fabcdef"), 70_007),
        # With a payload length it is no jumbogram (RFC 2675, 3).
        (jumbogram(66_000, said=1008), 1000 - 8),
    ],
)
def test_jumbograms(packet: bytes, payload: int) -> None:
    assert lengths(run(packet, link_type=101)) == [payload]
    result = run_compiled(compiled(), [packet], link_type=101)
    assert [event.values["length"] for event in result.named("packet") if event.layer.startswith("udp")] == [payload]


def test_a_jumbogram_is_longer_than_other_packets() -> None:
    box = run(jumbogram(65_536), jumbogram(65_535), link_type=101)
    assert count(box, "ext", "malformed:jumbo") == 1 and lengths(box) == [65_536 - 16]


def test_options_of_another_header_tell_no_length() -> None:
    box = run(ip6(b"\x11\0\xc2\4\0\0\0\0" + BODY, 60, length=0), link_type=101)
    assert lengths(box) == [5]


def test_depth_is_bounded() -> None:
    packet = BODY
    for _ in range(40):
        packet = ext(packet, 17 if packet is BODY else 60)
    box = run(ip6(packet, 60), link_type=101)
    assert box.box["too deep"] == 1 and lengths(box) == []


# --- above IP ------


@pytest.mark.parametrize(
    "length, payload", [(0, 5), (8, 0), (9, 1), (13, 5), (14, 5), (65535, 5), (1, None), (5, None), (7, None)]
)
def test_udp_length(length: int, payload: int | None) -> None:
    for packet in (ip4(udp(b"hello", length)), ip6(udp(b"hello", length), 17)):
        box = run(packet, link_type=101)
        assert lengths(box) == ([] if payload is None else [payload])
        assert count(box, "udp", "malformed:length") == (payload is None)


def test_udp_conversations() -> None:
    there, back = ip4(BODY), ip4(udp(b"ok", ports=(2000, 1000)), src=B4, dst=A4)
    box = run(there, back, there, ip4(udp(b"", ports=(1000, 2001))), link_type=101)
    assert count(box, "udp", "instances") == 2
    assert [event.side for event in box.events if event.name == "packet"] == [0, 1, 0, 0]
    assert count(run(there, back, link_type=101, seconds=61), "udp", "instances") == 2


def icmp(kind: int, code: int = 0, id: int = 1, number: int = 1) -> bytes:
    return struct.pack(">BBHHH", kind, code, 0, id, number) + b"data"


@pytest.mark.parametrize("layer, request_, reply, error", [("icmp", 8, 0, 3), ("icmp6", 128, 129, 1)])
def test_icmp(layer: str, request_: int, reply: int, error: int) -> None:
    def there(message: bytes) -> bytes:
        return ip4(message, 1) if layer == "icmp" else ip6(message, 58)

    def back(message: bytes) -> bytes:
        return ip4(message, 1, B4, A4) if layer == "icmp" else ip6(message, 58, B6, A6)

    pairs = [there(icmp(request_, id=5)), back(icmp(reply, id=5)), there(icmp(request_, id=5, number=2))]
    box = run(*pairs, there(icmp(request_, id=6)), link_type=101)
    assert count(box, layer, "instances") == 2 and lengths(box, layer) == [4] * 4
    assert [event.side for event in box.events if event.name == "packet"] == [0, 1, 0, 0]
    errors = [
        there(icmp(error, 1)),
        there(icmp(error, 1, id=9)),
        there(icmp(error, 3)),
        there(icmp(error + 1, 1)),
    ]
    assert count(run(*errors, link_type=101), layer, "instances") == 3
    assert count(run(there(icmp(error)[:4]), link_type=101), layer, "ended") == 1
    assert count(run(there(icmp(request_)[:7]), link_type=101), layer, "malformed:header too short") == 1


def icmp_of(layer: str, message: bytes, back: bool = False) -> bytes:
    if layer == "icmp":
        return ip4(message, 1, *((B4, A4) if back else (A4, B4)))
    return ip6(message, 58, *((B6, A6) if back else (A6, B6)))


ICMP = pytest.mark.parametrize("layer, request_, reply, error", [("icmp", 8, 0, 3), ("icmp6", 128, 129, 1)])


@ICMP
def test_icmp_who_asks(layer: str, request_: int, reply: int, error: int) -> None:
    """Two hosts that ping each other with one identifier are two conversations, whichever packets are seen first."""
    mine = [icmp_of(layer, icmp(request_, id=5)), icmp_of(layer, icmp(reply, id=5), back=True)]
    yours = [icmp_of(layer, icmp(request_, id=5), back=True), icmp_of(layer, icmp(reply, id=5))]
    for packets in ([*mine, *yours], [*yours, *mine], [*mine[::-1], *yours], [mine[1], yours[1], mine[0], yours[0]]):
        box = run(*packets, link_type=101)
        assert count(box, layer, "instances") == 2
        happened = [event.instance for event in box.events if event.name == "packet"]
        numbers = dict(zip(packets, happened, strict=True))
        assert numbers[mine[0]] == numbers[mine[1]] != numbers[yours[0]] == numbers[yours[1]]


def error_about(layer: str, type: int, quoted: bytes) -> bytes:
    """An error of the other host about a packet of ours."""
    return icmp_of(layer, struct.pack(">BBHI", type, 1, 0, 0) + quoted, back=True)


@ICMP
def test_icmp_errors_about_flows(layer: str, request_: int, reply: int, error: int) -> None:
    """One instance for each flow that is in error, however many of its packets are; a cut quote stands for itself."""

    def sent(body: bytes, protocol: int = 17) -> bytes:
        return (ip4 if layer == "icmp" else ip6)(body, protocol)

    def instances(*quoted: bytes) -> int:
        box = run(*(error_about(layer, error, quote) for quote in quoted), link_type=101)
        found = box.counters[layer]
        assert found["packets"] == found["ended"] == len(quoted)
        assert lengths(box, layer) == [4 + len(quote) for quote in quoted]
        return found["instances"]

    one, other = udp(bytes(8), ports=(1, 2)), udp(bytes(8), ports=(1, 3))
    assert instances(sent(one), sent(one + b"more"), sent(other), sent(one)) == 2
    assert instances(sent(one), sent(one, 6), sent(one, 50), sent(other, 50)) == 3  # 50 has no ports that are known
    ping = 1 if layer == "icmp" else 58
    pings = [sent(icmp(request_, id=id, number=number), ping) for id, number in ((1, 1), (1, 2), (2, 1))]
    assert instances(*pings) == 2
    fixed = len(sent(b""))
    assert instances(sent(one)[: fixed + 4], sent(other)[: fixed + 4], sent(one)[:fixed]) == 1
    assert instances(sent(one)[: fixed - 1], b"", sent(one)[:3]) == 1


@ICMP
def test_icmp_errors_that_the_snap_length_cut(layer: str, request_: int, reply: int, error: int) -> None:
    """Wherever it cuts after the first four bytes, the error counts, with the length that it had on the wire."""
    whole = error_about(layer, error, (ip4 if layer == "icmp" else ip6)(udp(bytes(8))))
    head = 24 if layer == "icmp" else 44
    for size in range(head, len(whole)):
        box = Interpreter(PROGRAM)
        box.packet(whole[:size], 0, 101, len(whole))
        assert box.conserves() and box.counters[layer]["ended"] == 1
        assert lengths(box, layer) == [len(whole) - head]


def test_icmp_errors_about_options_and_fragments() -> None:
    options = bytes([0x46, *ip4(b"")[1:20], 1, 1, 1, 0])
    quoted = [options + udp(bytes(8), ports=(1, port)) for port in (2, 3, 2)]
    later = [ip4(udp(bytes(8), ports=(1, port)), offset=64) for port in (2, 3)]
    box = run(*(error_about("icmp", 11, quote) for quote in [*quoted, *later]), link_type=101)
    assert count(box, "icmp", "instances") == 3
    nonsense = [bytes([0x41]) + ip4(udp(b""))[1:], bytes([0x4F]) + ip4(udp(b""))[1:]]
    box = run(*(error_about("icmp", 11, quote) for quote in nonsense), link_type=101)
    assert count(box, "icmp", "ended") == 2


def test_other_protocols() -> None:
    packets = [ip4(b"x", 47), ip4(b"y", 47, B4, A4), ip4(b"z", 50), ip6(b"u", 89), ip4(b"", 132)]
    box = run(*packets, link_type=101)
    assert count(box, "other", "instances") == 4 and lengths(box, "other") == [1, 1, 1, 1, 0]
