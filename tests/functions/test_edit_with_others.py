"""`-f edit` in one box with functions that translate addresses or compare numbers: nat, balance, firewall."""

from __future__ import annotations

import ctypes
import random
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.engine.inputs import Frame
from sluice.functions.firewall.rules import read_rules
from sluice.functions.firewall.table import table
from tests.chain.running import small_stack
from tests.functions.security import wrong_checksums
from tests.functions.tcp_ends import End, Link, pair, talk
from tests.functions.test_edit import MS, TEXT, Middle, edited
from tests.support.packets import A4, B4, checksum, pseudo_header
from tests.support.unoptimised import unoptimised

EXTERNAL, PORT = bytes([192, 0, 2, 1]), 2000
"""With which the connection leaves the NAT."""
VIRTUAL = bytes([203, 0, 113, 5])
"""The address of a service, whose server is B4."""
RULES = """
table inet t {
  chain c {
    type filter hook forward priority 0; policy drop;
    ct state established accept
    ct state invalid counter drop
    tcp dport 80 ct state new tcp flags & (syn|ack) == syn accept
  }
}
"""


@cache
def compiled(names: tuple[str, ...]) -> CompiledStack:
    with unoptimised():
        return compile_stack(small_stack(), tuple(find_functions(list(names)).c))


class Several(Middle):
    """A box with several functions between two ends."""

    def __init__(self, folder: Path, functions: dict[str, dict[str, str]]) -> None:
        self.path = folder / "out.pcap"
        self.at = 24
        settings = Settings(max_instances=1 << 8, memory=1 << 24)
        self.box = Box(
            compiled(tuple(functions)), settings, function_options=list(functions.values()), output=self.path
        )
        self.now = 1000 * 10**9
        self.reports = {}


def readdressed(frame: bytes, source: bool, address: bytes, port: int) -> bytes:
    """The same segment of IPv4 with another end, whose checksums were right."""
    assert not wrong_checksums(frame)
    ip, segment = bytearray(frame[14:34]), bytearray(frame[34:])
    at = 12 if source else 16
    ip[at : at + 4] = address
    segment[0 if source else 2 : 2 if source else 4] = port.to_bytes(2, "big")
    ip[10:12] = segment[16:18] = b"\0\0"
    ip[10:12] = checksum(bytes(ip)).to_bytes(2, "big")
    plain = bytes(segment)
    segment[16:18] = checksum(pseudo_header(bytes(ip[12:16]), bytes(ip[16:20]), 6, len(plain)) + plain).to_bytes(
        2, "big"
    )
    return frame[:14] + bytes(ip) + bytes(segment)


class Translated(Several):
    """The server is outside of a NAT: it talks with the external end, which the models of the ends do not know."""

    def through(self, packets: list[bytes]) -> list[bytes]:
        came = [readdressed(p, False, EXTERNAL, PORT) if p[26:30] == B4 else p for p in packets]
        left = super().through(came)
        assert all(p[26:30] == EXTERNAL for p in left if p[30:34] == B4), "nothing leaves with the inside address"
        return [readdressed(p, True, A4, 40000) if p[30:34] == B4 else p for p in left]


class Balanced(Several):
    """The client is in front of a balancer: it talks with the address of the service."""

    def through(self, packets: list[bytes]) -> list[bytes]:
        came = [readdressed(p, False, VIRTUAL, 80) if p[26:30] == A4 else p for p in packets]
        left = super().through(came)
        assert all(p[26:30] == VIRTUAL for p in left if p[30:34] == A4)
        return [readdressed(p, True, B4, 80) if p[30:34] == A4 else p for p in left]


class Placed(Several):
    """All packets are described at the same place of memory, as those at the same place of bursts are."""

    def __init__(self, folder: Path, functions: dict[str, dict[str, str]]) -> None:
        super().__init__(folder, functions)
        self.frames = (Frame * 1)()

    def through(self, packets: list[bytes]) -> list[bytes]:
        self.now += MS
        frame = self.frames[0]
        for packet in packets:
            held = ctypes.create_string_buffer(packet, len(packet))
            frame.at, frame.captured, frame.length = ctypes.cast(held, ctypes.c_char_p), len(packet), len(packet)
            frame.time, frame.link_type, frame.number = self.now, 1, frame.number + 1
            self.box._library.sl_drive_burst(ctypes.byref(self.box.drive), self.frames, ctypes.c_size_t(1))
        return self.left()


def firewall(folder: Path, rules: str) -> dict[str, str]:
    """Parameters of a firewall with these rules."""
    (folder / "rules").write_text(rules)
    (folder / "table").write_bytes(table(read_rules(str(folder / "rules"))))
    return {"table": str(folder / "table"), "out": str(folder / "rows")}


CAPITALS = """
#include "sluice.h"
#include "edit.h"

SLUICE_INLINE
SLUICE_COUNTER(capitals_unable, "connections that another function edits")

struct capitals { struct sl_edit_box box; };
struct connection { struct sl_edits edits; };
SLUICE_WORKER(struct capitals)
SLUICE_STATE(struct connection)

SLUICE_ON(tcp, packet) {
    struct connection *of = SLUICE_STATE_OF(event);
    struct capitals *own = SLUICE_WORKER_OF(event->box);
    if (event->instance)
        sl_edits_packet(event, &of->edits, &own->box);
    SLUICE_COUNTER_OF(event->box, capitals_unable) = own->box.unable[SL_EDIT_OTHER];
}

SLUICE_ON(tcp, data) {
    struct connection *of = SLUICE_STATE_OF(event);
    if (!sl_edits_data(event, &of->edits, data->offset, data->bytes))
        return;
    for (uint32_t i = 0; i < data->bytes.captured; i++)
        if (data->bytes.at[i] == 's')
            sl_edits_replace(&of->edits, event->side & 1, data->offset + i, 1, "S", 1);
    sl_edits_decide(&of->edits, event->side & 1, data->offset + data->bytes.captured);
}

SLUICE_DESTROY { sl_edits_close(box, &((struct connection *)state)->edits); }
SLUICE_CLOSE { free(((struct capitals *)SLUICE_WORKER_OF(box))->box.bytes); }
"""


@pytest.mark.parametrize("first", [True, False], ids=["edit first", "edit second"])
def test_one_of_two_functions_edits_a_connection(
    first: bool, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The first one. The other one counts the connection with the reason, and the places that it does not edit."""
    capitals = tmp_path_factory.getbasetemp() / "capitals.c"
    capitals.write_text(CAPITALS)
    functions: dict[str, dict[str, str]] = {"edit": {"pattern": "secret", "mode": "remove"}, str(capitals): {}}
    middle = Several(tmp_path, functions if first else dict(reversed(functions.items())))
    text = b"a secret, and no secret"
    ends = talk(middle, random.Random(1), (text, b"yes"), sizes=(4, 9), faults=0.05)
    assert bytes(ends[1].got) == (edited(text, "remove") if first else text.replace(b"s", b"S"))
    reports = middle.end()
    assert (reports["unable_other"], reports["capitals_unable"]) == ((0, 1) if first else (1, 0))
    assert (reports["found"], reports["not_edited"]) == (2, 0 if first else 2)


ORDERS = [("nat", "edit"), ("edit", "nat")]


@pytest.mark.parametrize("names", ORDERS, ids=["nat first", "edit first"])
@pytest.mark.parametrize("mode", ["mask", "remove", "replace"])
@pytest.mark.parametrize("seed", range(2))
def test_edits_through_a_nat(names: tuple[str, str], mode: str, seed: int, tmp_path: Path) -> None:
    """Both directions are edited, and each end's numbers are its own, though the stack has an instance for each."""
    functions = {
        "nat": {"address": "192.0.2.1", "inside": "10.0.0.1/32", "first_port": str(PORT)},
        "edit": {"pattern": "secret", "mode": mode, "with": "public knowledge"},
    }
    both = TEXT, (b"answer " + TEXT[::-1] + b"secret")[: 500 + 200 * seed]
    middle = Translated(tmp_path, {name: functions[name] for name in names})
    ends = talk(middle, random.Random(seed), both, sizes=(1, (700, 50)[seed]), faults=0.08 if seed else 0.0)
    assert bytes(ends[1].got) == edited(both[0], mode)
    assert bytes(ends[0].got) == edited(both[1], mode)
    reports = middle.end()
    assert reports["found"] == sum(text.count(b"secret") for text in both)
    assert reports["not_edited"] == reports["not_mapped"] == reports["no_room"] == 0
    assert reports["translated"] == 1


def test_a_connection_through_a_nat_is_reset_at_both_ends(tmp_path: Path) -> None:
    functions = {
        "nat": {"address": "192.0.2.1", "inside": "10.0.0.1/32", "first_port": str(PORT)},
        "edit": {"pattern": "secret", "mode": "close"},
    }
    middle = Translated(tmp_path, functions)
    ends = talk(middle, random.Random(1), (b"say secret now", b""), cuts=[8])
    assert [end.reset for end in ends] == [True, True] and bytes(ends[1].got) == b"say "
    assert middle.end()["closed"] == 1


def test_edits_in_front_of_servers(tmp_path: Path) -> None:
    functions = {
        "balance": {"address": "203.0.113.5", "servers": ".".join(map(str, B4))},
        "edit": {"pattern": "secret", "mode": "replace", "with": "public knowledge"},
    }
    middle = Balanced(tmp_path, functions)
    both = TEXT, b"answer " + TEXT
    ends = talk(middle, random.Random(3), both, sizes=(1, 200), faults=0.05)
    assert (bytes(ends[1].got), bytes(ends[0].got)) == tuple(edited(text, "replace") for text in both)
    assert middle.end()["not_edited"] == 0


@pytest.mark.parametrize("names", [("firewall", "edit"), ("edit", "firewall")], ids=["firewall first", "edit first"])
@pytest.mark.parametrize("mode", ["remove", "replace"])
def test_a_firewall_knows_the_window_of_an_edited_connection(names: tuple[str, str], mode: str, tmp_path: Path) -> None:
    """Acknowledgements are of longer or shorter output: no segment is invalid because of that. One that lies outside
    the window of the receiver still is.
    """
    functions = {
        "firewall": firewall(tmp_path, RULES),
        "edit": {"pattern": "secret", "mode": mode, "with": "public knowledge " * 8},
    }
    text = TEXT * 8
    middle = Several(tmp_path, {name: functions[name] for name in names})
    client, server = talk(middle, random.Random(1), (text, b"yes"), sizes=(100, 1000))
    assert bytes(server.got) == text.replace(b"secret", b"" if mode == "remove" else b"public knowledge " * 8)
    assert middle.through([client.packet("A", len(text) + 200000, b"far away")]) == []
    reports = middle.end()
    assert reports["firewall_invalid"] == 1 and reports["not_edited"] == reports["not_mapped"] == 0


def test_that_a_packet_of_an_edited_connection_is_inside_does_not_hold_for_the_next_one(tmp_path: Path) -> None:
    """The second connection, on another port, is not edited; its segment lies outside the window of the receiver."""
    functions = {
        "firewall": firewall(tmp_path, RULES.replace("dport 80", "dport { 80, 81 }")),
        "edit": {"pattern": "secret", "mode": "replace", "with": "public knowledge " * 8, "port": "80"},
    }
    middle = Placed(tmp_path, functions)
    edits, passes = (pair((b"", b""), random.Random(1), (6, 6), []) for _ in range(2))
    passes[0].port = passes[1].peer_port = 40001
    passes[0].peer_port = passes[1].port = 81
    for client, server in (edits, passes):
        middle.connect(client, server)
        assert len(middle.through([client.packet("A", 0)])) == 1
    client, server = edits
    for packet in middle.through([client.packet("A", 0, b"secret" * 20)]):
        server.feed(packet)
    assert len(server.got) == 20 * 136
    assert len(middle.through([server.packet("A", 0)])) == 1
    assert len(middle.through([client.packet("A", 120, b"more")])) == 1
    assert middle.through([passes[0].packet("A", 200000, b"far away")]) == []
    assert middle.end()["firewall_invalid"] == 1


def test_a_packet_of_another_connection_is_not_inside(tmp_path: Path) -> None:
    """What edit says of a packet holds for no later one, such as of a connection that it does not edit."""
    functions = {
        "firewall": firewall(tmp_path, RULES),
        "edit": {"pattern": "secret", "mode": "replace", "with": "public knowledge " * 8, "port": "40000"},
    }
    middle = Placed(tmp_path, functions)
    client, server = End(A4, 40001, B4, 80, 100), End(B4, 80, A4, 40001, 900)
    middle.connect(client, server)
    assert len(middle.through([client.packet("A", 0, b"near")])) == 1
    far, count = client.packet("A", 200000, b"far away"), 0

    class Beside(Link):
        """After each packet comes one of the other connection, in the same place of a burst."""

        def through(self, packets: list[bytes]) -> list[bytes]:
            nonlocal count
            left: list[bytes] = []
            for packet in packets:
                left += middle.through([packet])
                assert middle.through([far]) == []
                count += 1
            return left

    talk(Beside(), random.Random(1), (TEXT * 8, b"yes"), sizes=(100, 1000))
    assert middle.end()["firewall_invalid"] == count
