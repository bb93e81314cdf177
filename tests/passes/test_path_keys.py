"""Pass `path_keys`: the keys of packets, see tests/golden/passes/path_keys.txt. tests/engine/test_homes.py runs it."""

from typing import Any

import pytest

from sluice.ir.graph import Program
from sluice.ir.instruction import NextPath, PathKey
from sluice.lang import Connectionless, Pred, Stack, UInt, layout
from sluice.lower.build import build
from sluice.passes import path_keys
from sluice.passes.pipeline import run
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.stacks.find import find_stack
from tests.passes.golden_passes import check_graphs
from tests.support.stacks import optimised


@pytest.fixture(scope="module")
def gtp() -> Program:
    return optimised("gtp")


def test_golden(gtp: Program) -> None:
    """Each layer adds its key once; what TCP itself refuses, or where a fragment belongs, is not looked at."""
    check_graphs("path_keys.txt", [gtp.layers[name].path for name in ("eth", "udp", "tcp")])


def test_the_inside_of_a_tunnel_has_a_key_of_its_own(gtp: Program) -> None:
    spaces = {
        name: {i.space for i in layer.path.instructions() if isinstance(i, PathKey)}
        for name, layer in gtp.layers.items()
        if layer.path is not None
    }
    assert spaces["ipv4"] == spaces["udp"] != spaces["inner"] == spaces["tcp"] and not spaces["gtp"]


def test_a_whole_datagram_is_followed_and_a_fragment_is_not(gtp: Program) -> None:
    path = gtp.layers["ipv4"].path
    assert path is not None
    blocks = path.blocks.values()
    stored = [block for block in blocks if any(isinstance(i, PathKey) for i in block.instructions)]
    assert len([block for block in blocks if isinstance(block.terminator, NextPath)]) == 1
    assert [block.terminator.targets() for block in stored] == [("done",)]


def test_stacks_without_tunnels_and_further_keys_have_none() -> None:
    made = Stack("plain")
    made.eth, made.ip, made.tcp = ethernet_parser(), ipv4_parser(), tcp_parser()
    made += (made.eth >> made.ip) + Pred(made.eth.header.type == 0x0800)
    made += (made.ip >> made.tcp) + Pred(made.ip.header.protocol == 6)
    assert all(layer.path is None for layer in run(build(made)).layers.values())


def test_a_key_that_belongs_to_the_instance_below_is_none() -> None:
    """What is in an association is on its worker anyway."""
    program = optimised("sctp")
    spaces = {
        i.space
        for layer in program.layers.values()
        if layer.path is not None
        for i in layer.path.instructions()
        if isinstance(i, PathKey)
    }
    assert "sctp_aliases" in spaces and "sctp_message" not in spaces


def test_it_finds_nothing_more_to_do(gtp: Program) -> None:
    assert path_keys.run(gtp) is gtp


def test_paths_that_know_different_things_are_kept_apart() -> None:
    """One of two paths to a layer knows what it gets."""

    class head(layout):
        kind = UInt(8)
        number = UInt(8)

    low: Any = Connectionless("low")
    low.header = head
    low.selector = [head.number]
    made = Stack("apart")
    made.low, made.again = low, ipv4_parser()
    made.ip = ipv4_parser()
    made += (made.low >> made.ip) + Pred(made.low.header.kind == 1)
    made += (made.ip >> made.again) + Pred(made.ip.header.protocol == 4)
    program = run(build(made))
    path = program.layers["ip"].path
    assert path is not None and any(isinstance(i, NextPath) for i in path.instructions())


@pytest.mark.parametrize("stack", ["sctp", "quic", "everything"])
def test_a_loop_whose_end_is_not_known_is_passed_once(stack: str) -> None:
    """Also if no other pass has duplicated its iterations: the verifier requires a path from every block to an end."""
    layers = run(build(find_stack(stack)), ["path_keys"]).layers
    assert sum(layer.path is not None for layer in layers.values()) > 3
