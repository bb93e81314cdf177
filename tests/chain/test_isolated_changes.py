"""Changes of the functions of a running chain, by its socket."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.chain.check import check_chain
from sluice.chain.description import function
from sluice.chain.processes.commands import ControlSocket, RequestError, ask
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


def test_a_removed_function_leaves_its_name_and_its_place(folder: Path) -> None:
    def requests(path: str) -> None:
        for _ in range(6):  # more often than there are places
            ask(path, {"do": "remove", "name": "two"})
            end = time.monotonic() + 20
            while listed(path)["two"]["state"] != "removed" and time.monotonic() < end:
                time.sleep(0.01)
            ask(path, {"do": "add", "name": "two", "source": str(folder / "two.c"), "parameters": {"value": 3}})
        assert list(listed(path)) == ["one", "two"]

    chain = chain_of(folder)
    came = run(chain, folder, requests)
    assert {packet[14 + 1] for packet in came.left} == {1, 3}
    assert [member.name for member in chain.plan.members] == [part.name for part in chain.parts] == ["one", "two"]


OTHERS = {
    "drops.c": ("SLUICE_DROP(event->box);", "drops packets, and the one before did not"),
    "says.c": ("SLUICE_EMIT(event, said, .what = 1);", "publishes other events"),
}


def test_changes_that_the_chain_cannot_take_are_refused(folder: Path) -> None:
    for name, (text, _) in OTHERS.items():
        head = "SLUICE_INLINE\nSLUICE_PUBLISH(said, { uint64_t what; })" if "EMIT" in text else "SLUICE_INLINE"
        (folder / name).write_text(f'#include "sluice.h"\n{head}\nSLUICE_ON(tcp, packet) {{ {text} }}\n')
    (folder / "run.py").write_text(f"open({str(folder / 'executed')!r}, 'w')")

    def requests(path: str) -> None:
        for name, (_, message) in OTHERS.items():
            with pytest.raises(RequestError, match=message):
                ask(path, {"do": "replace", "name": "one", "source": str(folder / name)})
        with pytest.raises(RequestError, match="give a function in C"):
            ask(path, {"do": "add", "name": "run", "source": str(folder / "run.py")})
        with pytest.raises(RequestError, match="no request"):
            ask(path, {"do": "add", "name": "run", "source": 7})
        assert list(listed(path)) == ["one", "two"]

    assert len(run(chain_of(folder), folder, requests).left) == len(talk())
    assert not (folder / "executed").exists()


def test_a_replaced_function_that_was_left_out_continues_with_the_next_batch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.chain.processes.crashes.CRASHES_MOST", 0)

    def requests(path: str) -> None:
        os.kill(listed(path)["one"]["process"], signal.SIGKILL)
        end = time.monotonic() + 20
        while listed(path)["one"]["state"] != "left out" and time.monotonic() < end:
            time.sleep(0.01)
        ask(path, {"do": "replace", "name": "one", "source": str(folder / "one.c"), "parameters": {"value": 7}})

    came = run(chain_of(folder), folder, requests)
    assert {packet[14 + 8] for packet in came.left} == {1, 7}
    assert came.reports["one.crashes"] == 1
    assert len(came.left) == len(talk())
