"""The text of a rule: a C function that can stop where it waits, and be called again.

All variables are in the rule's frame, so that nothing is lost while it waits. `wait()` makes a label, and the function
begins with a jump to the one at which it stopped. Between two steps the frame is not needed: only state outlives a step.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from sluice.service.lang import tree
from sluice.service.lang.check.calls import RINGS
from sluice.service.lang.errors import Place, ServiceError
from sluice.service.lang.types import DictionaryOf, ListOf, Named, Type, bound_of
from sluice.service.load import Service
from sluice.service.lower.forwarding import Forwarded
from sluice.service.lower.values import TEXTS, Values

LARGEST = 50_000
"""Lines of C of a rule; functions are inlined, and a program could grow exponentially."""
ARENA = 16384
"""Bytes of the strings that a step of a rule can make."""


@dataclass(frozen=True)
class Port:
    """A channel or an array of a process: its number, and the C of a pointer to its (first) channel."""

    number: int
    pointer: str
    array: bool


@dataclass(frozen=True)
class Kept:
    """State of a program: the C of its value (of a dictionary: of a pointer to it), and that of the room for its bytes."""

    value: str
    room: str
    type: Type
    everywhere: bool


class States:
    """The state that a program has by now: of an instance, and of all instances."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.own: list[str] = []
        self.shared: list[str] = []
        """Fields of the two structs."""
        self.rings = [0] * len(RINGS)
        """Bits of the ports from which each of RINGS chooses."""
        self.tallied = False
        """Whether the program reads counters of backends."""
        self.kept: dict[tree.Binding, Kept] = {}
        self.starts: list[tuple[tree.StateDeclaration, bool]] = []

    def declare(self, state: tree.StateDeclaration) -> Kept:
        """The place of a state variable, which is made when it is met first."""
        binding = state.binding
        assert binding is not None
        if binding in self.kept:
            return self.kept[binding]
        fields = self.shared if state.everywhere else self.own
        base = "((struct shared *)self->core->shared->state)" if state.everywhere else "((struct own *)self->own)"
        number = len(self.kept)
        name = f"s{number}_{state.name.replace(chr(39), '_')}"
        where = f"{base}->{name}"
        room = ""
        if isinstance(binding.type, DictionaryOf):
            capacity, size = self.values.entries, self.entry(binding.type, state.place)
            fields.append(f"    _Alignas(16) uint8_t {name}[SERVICE_DICTIONARY_SIZE({capacity}, sizeof({size}))];")
            where = f"((struct service_dictionary *)(void *){where})"
        else:
            kind = self.values.c_type(binding.type, state.place)
            if isinstance(binding.type, ListOf):  # of its own cardinality, not of the largest of all such lists
                item = self.values.c_type(binding.type.item, state.place)
                kind = f"struct {{ uint32_t count; {item} items[{max(1, bound_of(binding.type))}]; }}"
            fields.append(f"    {kind} {name};")
            if not self.values.flat(binding.type):
                fields.append(f"    uint8_t {name}_room[{TEXTS}];")
                room = f"{where}_room"
        self.kept[binding] = Kept(where, room, binding.type, state.everywhere)
        self.starts.append((state, state.everywhere))
        return self.kept[binding]

    def entry(self, type: DictionaryOf, place: Place) -> str:
        """The C type of an entry's value, with the room for its bytes."""
        return self.values.entry(type.value, place)


class RuleWriter:
    """Writes the statements of one rule."""

    def __init__(
        self, service: Service, values: Values, number: int, ports: dict[tree.Binding, Port], states: States
    ) -> None:
        self.states = states
        self.kept: dict[tree.Binding, Kept] = {}
        """State that is known by a name here: its own one, or that of a parameter that refers to it."""
        self.catchers: list[str] = []
        """Labels of the handlers around the current place, the innermost last."""
        self.shares = False
        """Whether it uses global state."""
        self.slices = True
        """Whether it can stop when its time is over."""
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
        self.forwarded = Forwarded()
        self.arena = False
        self._count = 0

    # --- text

    def put(self, line: str) -> None:
        if len(self.lines) > LARGEST:
            raise ServiceError(
                Place(self.checked.program.file, 1),
                "the code of this process is too large",
                "call fewer functions inside functions: each call is compiled again.",
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
        self.fail(condition, f"SERVICE_{reason}")

    def fail(self, condition: str, counter: str) -> None:
        """A failure with a reason that is an expression of C."""
        with self.block(f"if ({condition})"):
            if self.catchers:
                self.put(f"service_fail(self, {counter});")
                self.put(f"goto {self.catchers[-1]};")
            else:
                self.put(f"return service_fail(self, {counter});")

    def stop(self, outcome: str = "outcome") -> None:
        """After a failure: a fault is handled, if there is a handler; else the rule stops."""
        if self.catchers:
            with self.block(f"if ({outcome} == SERVICE_FAULT)"):
                self.put(f"goto {self.catchers[-1]};")
        self.put(f"return {outcome};")

    def label(self) -> int:
        """A new place at which the rule may go on."""
        self.labels += 1
        return self.labels

    def mark(self) -> int:
        """A place at which the rule goes on when it is called again. Its first one is the beginning of a step: no variable
        has a value yet, so that the instance needs no frame while it waits there.
        """
        number = self.label()
        if self.lines:
            self.put(f"*resume = {number};")
        self.lines.append(f"resume_{number}:;")
        return number

    def slice(self) -> None:
        """The end of an iteration: the rule stops here if its time is over, and continues in its next turn."""
        if self.slices:
            number = self.label()
            with self.block("if (service_spent(self))"):
                self.put(f"*resume = {number};")
                self.put("return SERVICE_YIELD;")
            self.lines.append(f"resume_{number}:;")

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
        self.mark()
        self.put(f"outcome = {call};")
        with self.block("if (outcome != SERVICE_STEP)"):
            self.stop()

    def site(self, pointer: str) -> None:
        """Remember a channel from which the step has received."""
        found = self.raw_variable("struct service_channel *")
        self.put(f"{found} = {pointer};")
        self.sites.append(found)

    @contextmanager
    def iteration(self, first: int) -> Generator[None]:
        """An iteration of which nothing outlives its end: the messages that it has received are given back then, on
        channels on which the step had received none before, and the strings that it has made. `first`: the number of
        sites before the loop.
        """
        mark = self.raw_variable("uint32_t")
        place = len(self.lines)
        self.put("")
        yield
        if self.arena:
            self.lines[place] = "    " * self.depth + f"{mark} = f->used;"
            self.put(f"f->used = {mark};")
        else:
            del self.lines[place]
        for site in self.sites[first:]:
            with self.block(f"if ({site} && {site}->fresh)"):
                self.put(f"service_release({site});")
            self.put(f"{site} = NULL;")

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
        if isinstance(node, tree.Unary) and node.operator == "-":
            return self.port(node.operand)
        if isinstance(node, tree.CompileTime):
            return self.port(node.value)
        raise ServiceError(node.place, "this does not name a channel", "name a channel, or an item of an array: c[i].")

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
