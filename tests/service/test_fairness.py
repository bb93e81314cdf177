"""Light and heavy tasks on one worker, as in section 6.4 of the paper: who ends first under which time slice."""

from __future__ import annotations

import contextlib
import selectors
import socket

import pytest

from sluice.service.bounds import Limits
from sluice.service.load import Service, load_source
from tests.service.peers import PATIENCE, Served

TASK = """\
type item = unit { work : uint16; };
type item: record
  work : integer

process Task: (item/item c)
  let m = ? c
  let sum = for i in 1 .. m.work initially a = 0: hash(a + i)
  if sum != 0: c ! m
"""
LIGHT, HEAVY = 1_000, 16_000
"""Additions for an item; the paper's items have 1 KB and 16 KB."""
ITEMS, TASKS = 100, 5
"""Of each task; of each kind."""


@pytest.fixture(scope="module")
def task() -> Service:
    return load_source(TASK)


def order(served: Served) -> list[int]:
    """The work of each task, in the order in which the tasks end. The heavy ones come first."""
    ended: list[int] = []
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for work in [HEAVY] * TASKS + [LIGHT] * TASKS:
            client = stack.enter_context(served.connect())
            client.sendall(work.to_bytes(2, "big") * ITEMS)
            client.shutdown(socket.SHUT_WR)
            selector.register(client, selectors.EVENT_READ, work)
        while len(ended) < 2 * TASKS:
            ready = selector.select(PATIENCE)
            assert ready, "no task ends"
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv(1 << 16):
                    selector.unregister(key.fileobj)
                    ended.append(int(key.data))
    return ended


def test_light_tasks_end_first(task: Service) -> None:
    with Served(task, [], Limits(slice=50)) as served:
        assert order(served) == [LIGHT] * TASKS + [HEAVY] * TASKS


def test_without_a_slice_they_wait_for_the_heavy_ones(task: Service) -> None:
    with Served(task, [], Limits(slice=1_000_000)) as served:
        assert HEAVY in order(served)[:TASKS]
