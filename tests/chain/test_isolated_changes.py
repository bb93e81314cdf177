"""Changes of the functions of a running chain, by its socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.chain.check import check_chain
from sluice.chain.description import function
from sluice.chain.processes.commands import ControlSocket, ask
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.program import IsolatedChain
from tests.chain.running import Came, checked, compiled_chain, run_isolated, small_stack, talk

MARK = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_WRITES(ipv4, FIELD)
SLUICE_PARAMETER(value, number, 1, "that it writes")
SLUICE_ON(tcp, packet) {
    uint8_t value = (uint8_t)SLUICE_PARAMETER_OF(event->box, value);
    SLUICE_REWRITE(event->box, sl_packet_frame(event)->at + 14 + PLACE, &value, 1);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions; they are compiled once."""
    made = tmp_path_factory.mktemp("changes")
    for name, field, place in (("one", "ttl", "8"), ("two", "tos", "1")):
        (made / f"{name}.c").write_text(MARK.replace("FIELD", field).replace("PLACE", place))
    return made


def chain_of(folder: Path) -> IsolatedChain:
    one = function(str(folder / "one.c")).isolated(failure="closed", memory=256 << 20)
    return compiled_chain(checked(one >> function(str(folder / "two.c"))))


def run(chain: IsolatedChain, folder: Path, requests: Callable[[str], None], **more: Any) -> Came:
    """Run a chain; `requests` is called with the socket's path after the first burst, in the process of the stack."""
    path = str(folder / "control")
    socket = ControlSocket(path, lambda plan: check_chain(plan, small_stack()))
    try:
        return run_isolated(
            chain.plan,
            folder / "out.pcap",
            None,
            chain,
            controller=lambda running: connect(running, socket),
            between=lambda first: requests(path) if first == 0 else None,
            **more,
        )
    finally:
        socket.close()


def connect(controller: Controller, socket: ControlSocket) -> None:
    controller.requests = socket


def listed(path: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in ask(path, {"do": "list"})["functions"]}


def until(path: str, name: str, process: int | None) -> dict[str, Any]:
    """A function, as soon as its process is another one."""
    end = time.monotonic() + 20
    while (found := listed(path)[name])["process"] == process and time.monotonic() < end:
        time.sleep(0.01)
    return found


def test_a_replaced_function_keeps_how_it_fails(folder: Path) -> None:
    def requests(path: str) -> None:
        before = listed(path)["one"]["process"]
        ask(path, {"do": "replace", "name": "one", "source": str(folder / "one.c"), "parameters": {"value": 7}})
        assert until(path, "one", before)["failure"] == "closed"

    chain = chain_of(folder)
    came = run(chain, folder, requests)
    assert len(came.left) == len(talk())
    assert {packet[14 + 8] for packet in came.left} == {1, 7}
