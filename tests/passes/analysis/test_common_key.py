"""What instances have in common in their keys: by the way that packets take to them, and by the table they are in."""

from typing import Any

from sluice.ir.expression import Reg
from sluice.lang import Bit, Connectionless, ConnectionOriented, Pred, Stack, layout
from sluice.lower.build import build
from sluice.passes.analysis.common_key import common_keys
from sluice.protocols.ipv4 import ipv4_parser
from sluice.stacks.find import find_stack

Found = tuple[list[str], list[str]]


class ports(layout):
    sport = Bit(8)
    dport = Bit(8)


class part(layout):
    src = Bit(8)
    dst = Bit(8)
    id = Bit(8)
    kind = Bit(8)


def found(stack: Stack) -> dict[str, Found]:
    """The common parts of every layer's key, by their names."""

    def names(parts: tuple[Any, ...]) -> list[str]:
        return [item.name if isinstance(item, Reg) else str(item) for item in parts]

    return {layer: (names(key), names(reverse)) for layer, (key, reverse) in common_keys(build(stack)).items()}


def of_addresses(name: str, offers: bool = True) -> Any:
    """A layer with an instance for each source, destination and identification, as IP has them for fragments."""
    p: Any = Connectionless(name)
    p.header = part
    p.selector = [p.header.src, p.header.dst, p.header.id]
    if offers:
        p.offer(src=p.header.src, dst=p.header.dst)
    return p


def of_ports(name: str) -> Any:
    """A layer with an instance for each connection of two addresses."""
    p: Any = ConnectionOriented(name)
    p.header = ports
    p.selector = [p.below.src, p.header.sport], [p.below.dst, p.header.dport]
    return p


def is_destination(part: str) -> bool:
    """The destination of IPv4, which is the end of a source route if there is one."""
    return all(name in part for name in ("header.dst", "header.loose_last", "header.strict_last"))


def test_the_ready_stacks():
    """Addresses, which IPv4's fragments have in common with what is in them; IPv6's, whose slots all read."""
    keys = found(find_stack("tcp_ip"))
    assert keys["ipv4"][0] == ["header.src"]
    assert [is_destination(part) for part in keys["ipv4"][1]] == [True]
    over_ipv4 = {"tcp_over_ipv4", "udp_over_ipv4", "icmp", "other_over_ipv4_ah"}
    over_ipv6 = {"tcp_over_ipv6", "udp_over_ipv6", "icmp6", "frag", "other_over_ipv6_ext"}
    assert {name for name, key in keys.items() if key == (["slot.src.32"], ["slot.dst.32"])} == over_ipv4
    assert {name for name, key in keys.items() if key == (["slot.src.128"], ["slot.dst.128"])} == over_ipv6
    assert keys.keys() == over_ipv4 | over_ipv6 | {"ipv4"}


def test_a_layer_that_shares_with_none_has_all_of_its_key():
    """What is below it keeps nothing, so the ports are as good as the addresses."""
    low: Any = Connectionless("low")
    low.header = part
    low.offer(src=low.header.src, dst=low.header.dst)
    stack = Stack("lone")
    stack.low, stack.high = low, of_ports("high")
    stack += (stack.low >> stack.high) + Pred(1)
    assert found(stack) == {"high": (["slot.src.8", "header.sport"], ["slot.dst.8", "header.dport"])}


def test_of_a_key_one_way_each_part_stands_alone():
    stack = Stack("alone")
    stack.low = of_addresses("low", offers=False)
    assert found(stack) == {"low": (["header.src", "header.dst", "header.id"], [])}


def test_what_a_packet_does_not_tell_is_no_part_of_it():
    """IPv4's key has the way, so that fragments of two tunnels are never put together."""
    stack = Stack("bare")
    stack.ipv4 = ipv4_parser()
    (key, reverse), *others = found(stack).values()
    assert [part for part in key if not is_destination(part)] == ["header.src", "header.protocol", "header.id"]
    assert len(key) == 4 and not reverse and not others


def test_what_is_after_a_layer_between_is_the_same_if_that_says_nothing_of_its_own():
    between: Any = Connectionless("between")
    between.header = ports
    stack = Stack("between")
    stack.low, stack.between, stack.high = of_addresses("low"), between, of_ports("high")
    stack += (stack.low >> stack.between) + Pred(1)
    stack += (stack.between >> stack.high) + Pred(1)
    assert found(stack) == {
        "low": (["header.src"], ["header.dst"]),
        "high": (["slot.src.8"], ["slot.dst.8"]),
    }


def test_a_tunnel_shares_nothing_with_what_is_in_it():
    """A layer between says other addresses: each side has its own key, and where both are the outer one decides."""
    inner: Any = Connectionless("inner")
    inner.header = part
    inner.offer(src=inner.header.src, dst=inner.header.dst)
    stack = Stack("tunnel")
    stack.low, stack.inner, stack.high = of_addresses("low"), inner, of_ports("high")
    stack += (stack.low >> stack.inner) + Pred(1)
    stack += (stack.inner >> stack.high) + Pred(1)
    assert found(stack) == {
        "low": (["header.src", "header.dst", "header.id"], []),
        "high": (["slot.src.8", "header.sport"], ["slot.dst.8", "header.dport"]),
    }


def test_those_who_share_with_one_share_with_each_other():
    """Of the part that all have: nothing in this case, and then all packets are for one worker."""
    first: Any = Connectionless("first")
    first.header = ports
    first.selector = [first.below.src, first.header.sport]
    second: Any = Connectionless("second")
    second.header = ports
    second.selector = [second.below.dst, second.header.sport]
    stack = Stack("shared")
    stack.low, stack.first, stack.second = of_addresses("low"), first, second
    stack += (stack.low >> stack.first) + Pred(stack.low.header.kind == 1)
    stack += (stack.low >> stack.second) + Pred(stack.low.header.kind == 2)
    assert found(stack) == {"low": ([], []), "first": ([], []), "second": ([], [])}


def test_what_differs_on_one_way_is_not_shared_on_any():
    """A packet comes to `high` directly, or through a layer that says another source; the destination is always it."""
    between: Any = Connectionless("between")
    between.header = part
    between.offer(src=between.header.src)
    high: Any = Connectionless("high")
    high.header = ports
    high.selector = [high.below.src, high.below.dst, high.header.sport]
    stack = Stack("ways")
    stack.low, stack.between, stack.high = of_addresses("low"), between, high
    stack += (stack.low >> stack.high) + Pred(stack.low.header.kind == 1)
    stack += (stack.low >> stack.between) + Pred(stack.low.header.kind == 2)
    stack += (stack.between >> stack.high) + Pred(1)
    assert found(stack) == {"low": (["header.dst"], []), "high": (["slot.dst.8"], [])}


def test_layers_of_one_table_have_one_key():
    """What one of them shares with the layer below it, the other must have too."""
    conn = of_ports("conn")
    bare: Any = Connectionless("bare")
    bare.header = part
    bare.offer(src=bare.header.src, dst=bare.header.dst)
    stack = Stack("table")
    stack.low, stack.bare = of_addresses("low"), bare
    stack.one, stack.other = conn, conn
    stack += (stack.low >> stack.one) + Pred(stack.low.header.kind == 1)
    stack += (stack.low >> stack.bare) + Pred(stack.low.header.kind == 2)
    stack += (stack.bare >> stack.other) + Pred(1)
    keys = found(stack)
    assert keys["one"] == keys["other"] == (["slot.src.8"], ["slot.dst.8"])
    assert keys["low"] == (["header.src"], ["header.dst"])
