"""Tunnels on ports that the user names, and a user's own step in `everything`."""

from __future__ import annotations

import pytest

from sluice.lang import Bit, Connectionless, DescriptionError, Pred, Stack, UInt, layout, one_of
from sluice.stacks.everything import everything
from sluice.stacks.ports import add_tunnel_port
from tests.protocols.forms import FRAME, INNER, in_udp
from tests.support.run import run, watch_all

VXLAN = b"\x08\0\0\0\0\0\x01\0" + FRAME
LONG_HEADER = b"\xc3\0\0\0\x01" + bytes(60)
"""What QUIC recognises by its content."""


class own_hdr(layout):
    first = Bit(8)
    number = UInt(32)


def own_parser() -> Connectionless:
    own = Connectionless("own")
    own.header = own_hdr
    return own


def test_a_step_of_the_user_comes_before_what_is_recognised_by_content() -> None:
    stack = everything()
    stack.own = own_parser()
    stack += (stack.udp >> stack.own) + Pred(one_of(68, stack.udp.header.sport, stack.udp.header.dport))
    add_tunnel_port(stack, "vxlan", 48879)
    add_tunnel_port(stack, "fou", 5555)
    result = run(watch_all(stack), [in_udp(68, LONG_HEADER), in_udp(48879, VXLAN), in_udp(5555, INNER)])
    assert result.count("own") == 1
    assert result.count("quic_datagram") == 2  # what is inside of the two tunnels
    found = {row["layers"] for row in result.rows if row["sport"] == 1111}
    assert len(found) == 1  # of one conversation, by the path of its first packet
    assert result.count("vxlan") == 1 and result.count("raw", "passed") == 1


def test_a_tunnel_port_looks_at_both_ends_where_the_tunnel_does() -> None:
    stack = everything()
    for name, asks in (("gtp", True), ("vxlan", False)):
        add_tunnel_port(stack, name, 9000)
        condition = stack.above(stack.udp)[0].condition
        assert (getattr(condition, "operator", "") == "|") == asks


@pytest.mark.parametrize(
    ("name", "port", "what"),
    [("vxlam", 9, "has no tunnel 'vxlam'"), ("vxlan", 0, "port 0"), ("vxlan", 65536, "port 65536")],
)
def test_what_is_no_tunnel_or_port_is_refused(name: str, port: int, what: str) -> None:
    with pytest.raises(DescriptionError, match=what):
        add_tunnel_port(everything(), name, port)


def test_a_stack_without_udp_has_no_tunnel_ports() -> None:
    with pytest.raises(DescriptionError, match="no layer 'udp'"):
        add_tunnel_port(Stack("empty"), "vxlan", 9)
