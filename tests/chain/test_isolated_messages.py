"""What event messages have: of instances what the functions that receive them read, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes import snapshot
from sluice.chain.processes.commands import ControlSocket, RequestError, ask
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.program import IsolatedChain
from tests.chain.running import Came, checked, compiled_chain, run, run_isolated

COUNTS = """
#include "sluice.h"
SLUICE_COUNTER(events, "of TCP")
SLUICE_ON(tcp, packet) { SLUICE_COUNTER_OF(event->box, events)++; }
SLUICE_ON(tcp, data) { SLUICE_COUNTER_OF(event->box, events)++; }
"""
READS = """
#include "sluice.h"
#include "function/endpoints.h"
SLUICE_COUNTER(events, "published ones")
SLUICE_COUNTER(digest, "of keys and fields, in order")
static void see(const struct sl_event *event) {
    uint64_t *digest = &SLUICE_COUNTER_OF(event->box, digest);
    *digest = (*digest * 31 + sl_event_half(event, 0)[0]) % 1000003;
    *digest = (*digest * 31 + sl_event_half(event, 1)[0]) % 1000003;
    *digest = (*digest * 31 + sl_field_value(event->instance, sl_layer_field(event->owner, "FIELD"))) % 1000003;
    SLUICE_COUNTER_OF(event->box, events)++;
}
"""
PUBLISHES = """
#include "sluice.h"
SLUICE_PUBLISH(seen, { uint64_t at; })
SLUICE_ON(tcp, data) { SLUICE_EMIT(event, seen, .at = data->offset); }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("messages")
    field = snapshot.field_names(counting(made).stack.program)[-1][-1]  # pyright: ignore[reportOptionalMemberAccess]
    (made / "ends.c").write_text(READS.replace("FIELD", field) + "SLUICE_ON(tcp, end) { see(event); }")
    (made / "publishes.c").write_text(PUBLISHES)
    (made / "subscribes.c").write_text(READS.replace("FIELD", field) + "SLUICE_ON(chain, seen) { see(event); }")
    return made


def counting(folder: Path) -> IsolatedChain:
    (folder / "counts.c").write_text(COUNTS)
    return compiled_chain(checked(function(str(folder / "counts.c"))))


def bytes_of(chain: IsolatedChain, output: Path) -> tuple[Came, float]:
    """What it came to, and the mean size of a message."""
    sizes: list[int] = []

    def between(first: int) -> None:
        stack = controllers[0].memory.stack
        (output.parent / "sizes").write_text(f"{stack.messages} {stack.message_bytes}")

    controllers: list[Controller] = []
    came = run_isolated(chain.plan, output, None, chain, controllers.append, between)
    sizes = [int(text) for text in (output.parent / "sizes").read_text().split()]
    return came, sizes[1] / sizes[0]


def test_functions_that_read_nothing_of_connections_get_small_messages(folder: Path, tmp_path: Path) -> None:
    small = counting(folder)
    assert set(map(tuple, snapshot.contents(small).values())) == {()}
    _, least = bytes_of(small, tmp_path / "out")
    counts, ends = (function(str(folder / f"{name}.c")) for name in ("counts", "ends"))
    more = compiled_chain(checked(counts | ends))
    has = snapshot.contents(more)
    assert has["tcp.data"] == [] and has["tcp.end"][0] == "key" and len(has["tcp.end"]) == 2
    _, larger = bytes_of(more, tmp_path / "out")
    assert least < 150 and least <= larger < least + 40  # few of the messages are ends


def test_what_is_read_is_that_of_the_fused_chain(folder: Path, tmp_path: Path) -> None:
    """Also by a subscriber to published events, whose publisher reads nothing: its messages have it nevertheless."""
    chain = function(str(folder / "publishes.c")) >> function(str(folder / "subscribes.c"))
    both = checked(chain >> function(str(folder / "ends.c")))
    isolated = compiled_chain(both)
    assert snapshot.contents(isolated)["tcp.data"][0] == "key"
    assert run(both, tmp_path / "out").reports == run_isolated(both, tmp_path / "out", None, isolated).reports


def test_one_in_the_place_of_another_reads_no_more_than_messages_have(folder: Path, tmp_path: Path) -> None:
    """Those that are under way do not have it."""
    control, chain = str(tmp_path / "control"), counting(folder)
    socket = ControlSocket(control, lambda plan: None)

    def between(first: int) -> None:
        if first:
            return
        with pytest.raises(RequestError, match="reads fields or keys"):
            ask(control, {"do": "replace", "name": "counts", "source": str(folder / "ends.c")})

    def connect(controller: Controller) -> None:
        controller.requests = socket

    try:
        run_isolated(chain.plan, tmp_path / "out", None, chain, connect, between)
    finally:
        socket.close()
