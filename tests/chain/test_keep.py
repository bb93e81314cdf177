"""With `keep`, functions that subscribe to a flow while it runs get its streams from their beginning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.chain.check import check_chain
from sluice.chain.description import Arrangement, Chain, function
from sluice.chain.plan import Plan, read_chain
from sluice.chain.processes.commands import ControlSocket, ask
from sluice.chain.processes.controller import Controller
from sluice.lang.errors import DescriptionError
from tests.chain.functions import Put
from tests.chain.running import BURST, Came, run, run_isolated
from tests.chain.test_microboxes import DPI, LISTING
from tests.support.connection import goodbye, handshake, pair
from tests.support.small_stacks import small_stack

FINDS = """
SLUICE_PUBLISH(found, { uint64_t at; })
SLUICE_ON(tcp, data) {
    for (uint32_t i = 0; i < data->bytes.captured; i++)
        if (data->bytes.at[i] == '!')
            SLUICE_EMIT(event, found, .at = data->offset + i);
}
"""
READS = """
SLUICE_COUNTER(bytes, "of both sides")
SLUICE_COUNTER(holes, "bytes that do not follow those before them")
SLUICE_COUNTER(digest, "of bytes and sides, in order")
SLUICE_COUNTER(found, "published events")
struct sides { uint64_t next[2]; };
SLUICE_STATE(struct sides)
SUBSCRIBES(tcp, data) {
    struct sl_box *box = event->box;
    uint64_t *next = &SLUICE_STATE_OF(event)->next[event->side & 1];
    SLUICE_COUNTER_OF(box, holes) += data->offset != *next;
    *next = data->offset + data->bytes.length;
    SLUICE_COUNTER_OF(box, bytes) += data->bytes.captured;
    uint64_t *digest = &SLUICE_COUNTER_OF(box, digest);
    for (uint32_t i = 0; i < data->bytes.captured; i++)
        *digest = (*digest * 31 + data->bytes.at[i] + event->side) % 1000003;
}
"""
LATER = READS.replace("SUBSCRIBES", "SLUICE_ON_DEMAND") + (
    "SLUICE_ON(chain, found) { SLUICE_COUNTER_OF(event->box, found)++; SLUICE_REGISTER_FLOW(event, tcp, data); }"
)
ALWAYS = READS.replace("SUBSCRIBES", "SLUICE_ON")
Run = Callable[..., Came]


def chain_of(arrangement: Arrangement, keep: int) -> Plan:
    stack = small_stack()
    plan = read_chain(Chain(arrangement, stack=stack, keep=keep))
    check_chain(plan, stack)
    return plan


def talk(*turns: tuple[int, bytes]) -> tuple[bytes, ...]:
    """A connection: by turn the side and the bytes."""
    sides = pair(port=40000)
    packets = [*handshake(*sides), *(sides[side].data(data) for side, data in turns)]
    return tuple(packets + goodbye(*sides))


TURNS = ((0, b"GET "), (1, b"a"), (0, b"/index"), (0, b" now"), (1, b"bcd!efg"), (0, b"more"), (1, b"end"))
"""The mark is in the second answer."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions; a program of them is compiled once."""
    made = tmp_path_factory.mktemp("keep")
    for name, text in (("finds", FINDS), ("later", LATER), ("always", ALWAYS), ("added", ALWAYS)):
        (made / f"{name}.c").write_text(f'#include "sluice.h"\n{text}')
    return made


@pytest.fixture(params=[run, run_isolated], ids=["fused", "isolated"])
def way(request: pytest.FixtureRequest) -> Run:
    return request.param


def registering(folder: Path, keep: int = 64) -> Plan:
    """One function finds the mark, one then registers for the connection, and one has always subscribed."""
    finds, later, always = (function(str(folder / f"{name}.c")) for name in ("finds", "later", "always"))
    return chain_of(finds >> later >> always, keep)


def reader(reports: dict[str, int], name: str) -> list[int]:
    return [reports[f"{name}.{figure}"] for figure in ("bytes", "holes", "digest")]


def test_a_function_that_registers_gets_what_one_that_has_always_subscribed_gets(
    folder: Path, tmp_path: Path, way: Run
) -> None:
    """The same bytes once, in the same order of both sides; with the event on account of which it registers."""
    reports = way(registering(folder), tmp_path / "out.pcap", talk(*TURNS)).reports
    assert reports["later.found"] == 1 and reports["keep.missed"] == 0
    assert reader(reports, "later") == reader(reports, "always")
    assert reports["later.bytes"] == sum(len(data) for _, data in TURNS)


def test_a_side_that_was_longer_is_counted_and_the_other_one_comes(folder: Path, tmp_path: Path, way: Run) -> None:
    turns = ((0, b"x" * 60), *TURNS)
    reports = way(registering(folder), tmp_path / "out.pcap", talk(*turns)).reports
    assert reports["keep.missed"] == 1 and reports["keep.without_memory"] == 0
    assert reports["later.bytes"] == len(b"abcd!efg" + b"more" + b"end")


def test_pieces_have_a_bound(folder: Path, tmp_path: Path) -> None:
    """Sides that send a byte in turns need more memory for the pieces than for bytes."""
    turns = [(n % 2, b"x") for n in range(1200)] + [(0, b"!"), (1, b"rest")]
    reports = run(registering(folder, 1 << 10), tmp_path / "out.pcap", talk(*turns)).reports
    assert reports["keep.without_memory"] == 2
    assert reports["keep.missed"] == 2 and reports["later.bytes"] == len(b"rest")


def test_another_callback_of_microboxes_gets_the_payload_before(put: Put, tmp_path: Path, way: Run) -> None:
    """Its first segments are not recognised; then one is, and all are those of the new callback."""
    dpi = DPI.replace("if (m.offset || m.side)", "if (m.side)")
    segments = [b"-- a comment", b"OR 1=1;", b"SELECT 1;", b"SELECT 2;"]
    chain = function(put("dpi.c", dpi)) >> function(put("ids.c", LISTING))
    reports = way(chain_of(chain, 64), tmp_path / "out.pcap", talk(*((0, segment) for segment in segments))).reports
    assert [reports[f"ids.{name}"] for name in ("noop", "http", "sql")] == [2, 0, 3]  # the two of before are joined


def test_a_function_that_is_added_gets_the_bytes_before(folder: Path, tmp_path: Path) -> None:
    control = str(tmp_path / "control")
    socket = ControlSocket(control, lambda changed: check_chain(changed, small_stack()))

    def connect(controller: Controller) -> None:
        controller.requests = socket

    def between(first: int) -> None:
        if first == 0:
            ask(control, {"do": "add", "name": "added", "source": str(folder / "added.c")})

    turns = [(n % 2, bytes([65 + n])) for n in range(3 * BURST)]
    try:
        packets = talk(*turns)
        reports = run_isolated(
            registering(folder), tmp_path / "o", packets, controller=connect, between=between
        ).reports
    finally:
        socket.close()
    assert reports["always.bytes"] == len(turns) and reports["keep.missed"] == 0
    assert reader(reports, "added") == reader(reports, "always")


def test_a_bound_that_makes_no_sense_is_refused(folder: Path) -> None:
    with pytest.raises(DescriptionError, match="keep=-1"):
        registering(folder, -1)
