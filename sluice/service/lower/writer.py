"""The text of a rule: a C function that can stop where it waits, and be called again.

All variables stand in the rule's frame, so that nothing is lost while it waits. `wait()` makes a label, and the function
begins with a jump to the one at which it stopped.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from sluice.service.lang import tree
from sluice.service.lang.errors import Place, ServiceError
from sluice.service.lang.types import ChannelOf, Named, Type
from sluice.service.load import Service
from sluice.service.lower.values import Values, not_yet

LARGEST = 50_000
"""Lines of C of a rule; functions are inlined, and a program could grow exponentially."""


@dataclass(frozen=True)
class Port:
    """A channel or an array of a process: its number, and the C of a pointer to its (first) channel."""

    number: int
    pointer: str
    array: bool


class RuleWriter:
    """Writes the statements of one rule."""

    def __init__(self, service: Service, values: Values, number: int, ports: dict[tree.Binding, Port]) -> None:
        self.service = service
        self.checked = service.checked
        self.values = values
        self.number = number
        self.lines: list[str] = []
        self.frame: list[str] = []
        self.depth = 1
        self.labels = 0
        self.sites: list[str] = []
        """Frame variables that point to the channels from which this step has received."""
        self.ports: dict[tree.Binding, Port] = dict(ports)
        self.names: dict[tree.Binding, str] = {}
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        self.streamed = False
        self.arena = False
        self._count = 0

    # --- text

    def put(self, line: str) -> None:
        if len(self.lines) > LARGEST:
            raise ServiceError(
                Place(self.checked.program.file, 1),
                "the code of this process is too large",
                "call fewer functions inside functions: each call is compiled anew.",
            )
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Statements in braces."""
        if head.startswith("if ("):
            head = f"if ({_bare(head[4:-1])})"
        self.put(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.put("}")

    def otherwise(self) -> None:
        """Between the two blocks of an `if`."""
        self.depth -= 1
        self.put("} else {")
        self.depth += 1

    def fault(self, condition: str, reason: str) -> None:
        with self.block(f"if ({condition})"):
            self.put(f"return service_fail(self, SERVICE_{reason});")

    # --- variables

    def variable(self, type: Type, place: Place) -> str:
        """A new variable of the frame."""
        return self.raw_variable(self.values.c_type(type, place))

    def raw_variable(self, c_type: str) -> str:
        self._count += 1
        self.frame.append(f"    {c_type} v{self._count};")
        return f"f->v{self._count}"

    def keep(self, text: str, type: Type, place: Place) -> str:
        """A new variable with a value."""
        found = self.variable(type, place)
        self.put(f"{found} = {text};")
        return found

    def zero(self, type: Type, place: Place) -> str:
        """A new variable that is 0 or empty."""
        found = self.variable(type, place)
        self.put(f"memset(&{found}, 0, sizeof {found});")
        return found

    def is_unit(self, type: Type) -> bool:
        return isinstance(type, Named) and not type.variant and type.name in self.service.units

    # --- waiting

    def wait(self, call: str) -> None:
        """A call that is done again until it has not to wait; an end or a fault ends the rule."""
        self.labels += 1
        self.put(f"f->resume = {self.labels};")
        self.lines.append(f"resume_{self.labels}:;")
        self.put(f"outcome = {call};")
        with self.block("if (outcome != SERVICE_STEP)"):
            self.put("return outcome;")

    def site(self, pointer: str) -> None:
        """Remember a channel from which the step has received."""
        found = self.raw_variable("struct service_channel *")
        self.put(f"{found} = {pointer};")
        self.sites.append(found)

    # --- channels

    def port(self, node: tree.Expression) -> Port:
        """The channel or array that an expression names."""
        if isinstance(node, tree.Name) and node.binding in self.ports:
            return self.ports[node.binding]
        if isinstance(node, tree.Index):
            base = self.port(node.base)
            index = self.keep(self.integer(node.index), node.index.type, node.index.place)
            self.fault(f"{index} < 0 || {index} >= (int64_t)self->core->counts[{base.number}]", "BAD_INDEX")
            pointer = self.raw_variable("struct service_channel *")
            self.put(f"{pointer} = {base.pointer} + {index};")
            return Port(base.number, pointer, False)
        raise not_yet(node.place, "a channel named like this" if isinstance(node.type, ChannelOf) else "this")

    def integer(self, node: tree.Expression) -> str:
        raise NotImplementedError


def _bare(text: str) -> str:
    """A condition without brackets around all of it, which compilers warn of."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and at < len(text) - 1:
            return text
    return _bare(text[1:-1]) if text.startswith("(") else text
