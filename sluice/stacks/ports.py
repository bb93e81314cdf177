"""Tunnels on ports that the user names: `--tunnel-port vxlan=48879`; not a stack."""

from __future__ import annotations

from sluice.lang import Pred, Stack
from sluice.lang.errors import DescriptionError, did_you_mean
from sluice.lang.expression import Expression, children
from sluice.lang.field_value import FieldValue
from sluice.lang.layer import Branch, Layer

OTHER_NAMES = {"fou": "raw"}
"""Tunnels without a header: IP follows UDP immediately (foo over UDP, Linux)."""
HIGHEST = 65535


def searches_tunnels(stack: Stack) -> bool:
    """Whether the ready function `tunnel_ports` finds tunnels on other ports in a stack: it needs UDP and VXLAN."""
    return {"udp", "vxlan"} <= stack.layers.keys()


def add_tunnel_port(stack: Stack, name: str, port: int) -> None:
    """Parse UDP datagrams to this port as a tunnel, before all other steps from UDP.

    name: of a layer of the stack, or of OTHER_NAMES. Datagrams from the port count, too, if the stack has a step to
    that layer that tests the ports of both ends. Raises DescriptionError for a stack without UDP or such a layer,
    and for a number that is not a port.
    """
    if not 1 <= port <= HIGHEST:
        raise DescriptionError(f"port {port}", f"a port is a number from 1 to {HIGHEST}.")
    called = OTHER_NAMES.get(name, name)
    if "udp" not in stack.layers:
        raise DescriptionError(f"stack {stack.name} has no layer 'udp'", "tunnel ports are those of UDP.")
    tunnels = [branch.upper.name for branch in stack.above(stack.udp)]
    if called not in stack.layers:
        raise DescriptionError(
            f"stack {stack.name} has no tunnel '{name}'", did_you_mean(name, [*tunnels, *OTHER_NAMES])
        )
    udp, layer = stack.udp, stack.layers[called]
    known = next((branch for branch in stack.above(udp) if branch.upper is layer), None)
    condition: Expression = udp.header.dport == port
    if known is not None and _asks_of_sender(known):
        condition = condition | (udp.header.sport == port)
    first = _first(stack, udp)
    stack += (udp >> layer) + (Pred(condition) if first is None else Pred(condition, before=first))


def _first(stack: Stack, udp: Layer) -> Layer | None:
    """The layer of the step from UDP that is tried first."""
    above: list[Branch] = stack.above(udp)
    return above[0].upper if above else None


def _asks_of_sender(branch: Branch) -> bool:
    def asks(expression: Expression) -> bool:
        own = isinstance(expression, FieldValue) and expression.field is branch.lower.header.sport.field
        return own or any(map(asks, children(expression)))

    return asks(branch.condition)
