"""Prototypes of layers: `Connectionless()` and `ConnectionOriented()`."""

from __future__ import annotations

import re
from typing import Any, cast

from sluice.lang.action import Block, block
from sluice.lang.choice import Choice, If, joined_by_comma
from sluice.lang.errors import DescriptionError, described, did_you_mean, to_flag
from sluice.lang.events import Events, Relations
from sluice.lang.expression import (
    BYTES,
    Expression,
    Property,
    to_expression,
    to_number,
)
from sluice.lang.layout import LayoutType, header_format
from sluice.lang.message import Length
from sluice.lang.parser import SETTINGS, Parser, PrototypeParts
from sluice.lang.prototype_values import checked_layout_of, checked_sdu, is_link_type, under_condition
from sluice.lang.psm import PSM, seconds
from sluice.lang.requirement import Requirement
from sluice.lang.sequence import Sequence, sequence_choice
from sluice.lang.where import Where, here, user_function


class Chain:
    """Parsers, each of which is the next layer of the one before; `stack += chain` creates the layers and steps."""

    def __init__(self, parsers: tuple[Prototype, ...]) -> None:
        self.where = here()
        self.parsers = parsers

    def __rshift__(self, other: object) -> Chain:
        if not isinstance(other, (Prototype, Chain)):
            raise DescriptionError(
                f"a parser is followed by a parser, not by {described(other)}",
                "write stack += lower >> upper with parsers, or (stack.a >> stack.b) + Pred(...) with layers.",
            )
        return Chain((*self.parsers, *(other.parsers if isinstance(other, Chain) else (other,))))

    def __add__(self, other: object) -> Any:
        raise DescriptionError(
            "something is added to a chain of parsers",
            "each is always the next layer of the one before; for a condition make layers, and write "
            "(stack.a >> stack.b) + Pred(...).",
        )


class Offers(dict[str, Expression]):
    """What a parser offers to the layers above, by name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DescriptionError(
            f"offer '{name}' is read from a parser", f"read it from a layer of a stack: stack.layer.offers.{name}."
        )


class Prototype(PrototypeParts):
    """A protocol: its header, instances, sequence, machine and events. Use Connectionless or ConnectionOriented.

    name: its name in messages, counters and rows of flows; by default the name of the function that creates it, without
        `_parser`.
    link_types: link types (of capture files; 1 is Ethernet) whose packets begin here, integers from 0 to 65535. A
        parser without link types is a first layer if no step leads to it.
    """

    where: Where
    lines: dict[str, Where]
    name: str
    link_types: tuple[int, ...]
    key_condition: Expression | None
    creating: Expression | None
    alias_condition: Expression | None
    prep_block: Block | None
    sequence: Sequence | None
    sequence_condition: Expression | None
    sdu_choice: Any
    offers: Offers
    overrides: dict[str, tuple[Expression, Expression]]
    requirements: list[Requirement]
    framing: Length | None
    _timeout: float | None
    _lifetime: float | None
    _needs_captured: int | None
    _max_instances: int | None
    _buffer_data: bool
    _record: bool
    _costly: bool

    def __init__(self, name: str = "", link_types: tuple[int, ...] = ()) -> None:
        function = user_function()
        self.__dict__.update(
            where=here(),
            lines={},
            name="" if function.startswith("<") else function.removesuffix("_parser"),
            link_types=(),
            format=None,
            temp_layout=None,
            perm_layout=None,
            keys=None,
            key_condition=None,
            creating=None,
            alias_keys=None,
            alias_by_selector=False,
            alias_condition=None,
            prep_block=None,
            sequence=None,
            sequence_condition=None,
            machine=None,
            sdu_choice=None,
            offers=Offers(),
            overrides={},
            requirements=[],
            events=Events(self),
            relations=Relations(self),
            framing=None,
            _timeout=None,
            _lifetime=None,
            _needs_captured=None,
            _max_instances=None,
            _buffer_data=True,
            _record=False,
            _costly=False,
        )
        if name != "":
            self.name = name
        self.link_types = link_types

    @property
    def prototype(self) -> Prototype:
        return self

    @property
    def title(self) -> str:
        return f"parser '{self.name}'" if self.name else "this parser"

    def offer(self, **values: object) -> None:
        """Values for the layers above, which read them as `p.below.name`: numbers, or bytes of a constant length.

        `If(condition) >> value`: only packets that satisfy the condition change what a layer below offers under this
        name, as a source route changes the destination. `If(condition) >> one >> Else() >> other` offers one of both.

        Raises DescriptionError for a name that is offered already.
        """
        for name, value in values.items():
            if name in self.offers or name in self.overrides:
                raise DescriptionError(
                    f"'{name}' is offered twice by {self.title}", "offer it once, or under another name."
                )
            if isinstance(value, If):
                raise value.without_body()
            if isinstance(value, Choice):
                value.check_closed()
                self.overrides[name] = value.condition, to_expression(value.body)
                value = value.otherwise
            if value is not None:
                self.offers[name] = to_expression(value)
            self.lines[f"offer {name}"] = here()

    def require(self, condition: object, reason: str, option: str | None = None) -> None:
        """A packet that does not satisfy `condition` is malformed, is counted under `reason`, and goes no further.

        The condition may use the header, `p.payload` and `p.unit`. It may also use temp, perm and the instance; then it
        is tested after prep, and a packet that fails changes nothing else in the instance that was found or created for
        it. With `option`, the condition is tested only if the user enables that option (such as `checksums`).
        """
        for what, value in (("reason", reason), ("option", option)):
            if (value is not None or what == "reason") and (not isinstance(value, str) or not value):
                raise DescriptionError(
                    f"{what} {described(value)} of p.require(...)", f"give the {what} as a word or two."
                )
        number = to_number(condition, "what p.require() asks", "compare something, as in p.header.x == 1.")
        self.requirements.append(Requirement(number, reason, option))

    def __rshift__(self, other: object) -> Chain:
        """Parsers, each of which is the next layer of the one before: `stack += lower >> upper`."""
        return Chain((self,)) >> other

    def __setattr__(self, name: str, value: Any) -> None:
        known = getattr(type(self), name, None)
        if isinstance(known, property) and known.fset is not None:
            object.__setattr__(self, name, value)
            self.lines[name] = here()
        elif name == "name":
            if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
                raise DescriptionError(
                    f"a parser called {described(value)}",
                    "a name has letters, digits and '_', and begins with no digit.",
                )
            self.__dict__["name"] = value
        elif name == "link_types":
            types: object = value
            if not isinstance(types, tuple) or not all(map(is_link_type, cast(tuple[object, ...], types))):
                raise DescriptionError(
                    f"link_types={described(cast(object, types))}",
                    "give a tuple of numbers from 0 to 65535, as in link_types=(1,).",
                )
            self.__dict__["link_types"] = value
        else:
            raise DescriptionError(f"{self.title} has no setting '{name}'", did_you_mean(name, SETTINGS))

    @Parser.header.setter
    def header(self, value: object) -> None:
        self.__dict__["format"] = header_format(value)

    @Parser.temp.setter
    def temp(self, value: object) -> None:
        self.__dict__["temp_layout"] = checked_layout_of("temp", value)

    @Parser.perm.setter
    def perm(self, value: object) -> None:
        self.__dict__["perm_layout"] = checked_layout_of("perm", value)

    @property
    def selector(self) -> Any:
        """The key of an instance: a list of expressions or, if connection-oriented, one list for each side.

        With `If(condition) >> [...]`, a packet that does not satisfy the condition uses a new instance that is never
        stored.
        """
        return self.keys

    @selector.setter
    def selector(self, value: object) -> None:
        whole = value
        condition, value = under_condition(
            value, "a selector", "a packet outside the condition uses a fresh instance by itself."
        )
        lists = cast(tuple[object, ...], value) if isinstance(value, tuple) else (value,)
        keys = [cast(list[object], item) for item in lists if isinstance(item, list) and item]
        if len(keys) != len(lists) or len(keys) > 2:
            advice = "write [a, b], or ([a, b], [c, d])."
            if any(isinstance(item, If) for item in lists):
                advice = joined_by_comma(whole) or advice
            raise DescriptionError("a selector is a list, or a pair of lists", advice)
        if self.oriented and len(keys) != 2:
            raise DescriptionError(
                "a connection-oriented selector has two lists",
                "write ([source ...], [destination ...]), or use Connectionless().",
            )
        if not self.oriented and len(keys) != 1:
            raise DescriptionError(
                "a connectionless selector has one list", "write [a, b], or use ConnectionOriented()."
            )
        if len({len(key) for key in keys}) > 1:
            raise DescriptionError(
                "the two lists of a selector have different lengths",
                "give both sides the same fields, in one order.",
            )
        self.__dict__["keys"] = tuple([to_expression(item) for item in key] for key in keys)
        self.__dict__["key_condition"] = condition

    @property
    def alias(self) -> Any:
        """A further key, used for packets whose selector finds no instance: a list of expressions.

        The packet belongs to the instance that got these values from AddAlias. With `[...], [...]`, the first list that
        finds an instance counts. With `[...], p.selector`, the key of the selector is tried last, for instances that
        got it from AddAlias. With `If(condition) >> [...]`, only packets that satisfy the condition are looked up like
        this.
        """
        return self.alias_keys

    @alias.setter
    def alias(self, value: object) -> None:
        condition, value = under_condition(
            value, "an alias", "a packet outside the condition is known by the selector alone."
        )
        keys = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        by_selector = len(keys) > 1 and keys[-1] is self.keys is not None
        keys = keys[:-1] if by_selector else keys
        if not keys or any(not isinstance(key, list) or not key for key in keys):
            raise DescriptionError(
                "p.alias is not a list",
                "write p.alias = [a, b], for both sides alike; for several to be tried, ([a, b], [c, d]).",
            )
        lists = [cast(list[object], key) for key in keys]
        if len({len(key) for key in lists}) != 1:
            raise DescriptionError(
                f"the lists of p.alias have {' and '.join(str(len(key)) for key in lists)} values",
                "give each the same number: AddAlias gives values for any of them.",
            )
        self.__dict__["alias_keys"] = [[to_expression(item) for item in key] for key in lists]
        self.__dict__["alias_by_selector"] = by_selector
        self.__dict__["alias_condition"] = condition

    @property
    def creates(self) -> Any:
        """The condition under which a packet that finds no instance creates one. By default it always does.

        Any other packet without an instance uses a new instance that is never stored.
        """
        return self.creating

    @creates.setter
    def creates(self, value: object) -> None:
        self.__dict__["creating"] = to_number(value, "p.creates", "compare something, as in p.header.kind == 1.")

    @property
    def prep(self) -> Any:
        """Actions that run once per packet, after its instance is found or created. Set it to actions; `+=` extends
        it.
        """
        return self.prep_block if self.prep_block is not None else Block([])

    @prep.setter
    def prep(self, value: object) -> None:
        self.__dict__["prep_block"] = block(value)

    @property
    def seq(self) -> Any:
        """The Sequence of each side's bytes, or If(condition) >> Sequence(...)."""
        return self.sequence

    @seq.setter
    def seq(self, value: object) -> None:
        condition, sequence = sequence_choice(value)
        self.__dict__.update(sequence_condition=condition, sequence=sequence)

    @property
    def psm(self) -> Any:
        """The state machine. Set it to a PSM once; then transitions are set and read as `p.psm.t`."""
        if self.machine is None:
            raise DescriptionError(f"{self.title} has no state machine yet", "write p.psm = PSM(...) first.")
        return self.machine

    @psm.setter
    def psm(self, value: object) -> None:
        if not isinstance(value, PSM):
            raise DescriptionError(f"p.psm is {described(value)}, not a PSM", "write p.psm = PSM(state, ...).")
        if value.owner is not None and value.owner is not self:
            raise DescriptionError("one PSM for two parsers", "build a PSM for each parser.")
        if self.machine is not None and self.machine is not value:
            raise DescriptionError(f"{self.title} has a state machine already", "list all states in one PSM(...).")
        value.__dict__["owner"] = self
        self.__dict__["machine"] = value

    @property
    def sdu(self) -> Any:
        """The bytes for the layer above: by default the payload, or what Assemble() delivered.

        To change the default, set it to bytes, to a call of a native function (see Native), or to If(condition) >> one
        >> Else() >> another.
        """
        return Property(self, "sdu", BYTES)

    @sdu.setter
    def sdu(self, value: object) -> None:
        if isinstance(value, Choice):
            value.check_closed()
        self.__dict__["sdu_choice"] = checked_sdu(value)

    @property
    def timeout(self) -> Any:
        """Seconds of packet time, 1e-9 to 1e9: an instance ends when it gets no packet for so long. By default it does
        not end.
        """
        return self._timeout

    @timeout.setter
    def timeout(self, value: object) -> None:
        self.__dict__["_timeout"] = seconds(value)

    @property
    def lifetime(self) -> Any:
        """Seconds of packet time after its first packet until an instance ends, however many packets follow: 1e-9 to
        1e9. It holds also where the user switches timeouts off. In place of `timeout`; by default there is none.
        """
        return self._lifetime

    @lifetime.setter
    def lifetime(self, value: object) -> None:
        self.__dict__["_lifetime"] = seconds(value)

    @property
    def needs_captured(self) -> Any:
        """Bytes of the header's first layout that must have been captured, less than it has: by default all.

        Where the snap length left these and took others of that layout, the others read as ones: the largest window, a
        length that is beyond the packet. Packets that end there on the wire are malformed all the same. With option
        `checksums`, a packet without anything after that layout needs all of it, as its checksum cannot be verified.
        """
        return self._needs_captured

    @needs_captured.setter
    def needs_captured(self, value: object) -> None:
        size = self.first_layout
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < size:
            raise DescriptionError(
                f"p.needs_captured is {described(value)}, and the first layout of p.header has {size} bytes",
                "set p.header first, and give a number of bytes, from 1 to less than its first layout has.",
            )
        self.__dict__["_needs_captured"] = value

    @property
    def first_layout(self) -> int:
        """Bytes of the header's first layout; 0 where these are not the same in all packets."""
        first = self.format.parts[0] if self.format is not None else None
        if not isinstance(first, LayoutType) or any(not isinstance(f.bits, int) for f in first.fields.values()):
            return 0
        return sum(field.width for field in first.fields.values()) // 8

    @property
    def max_instances(self) -> Any:
        """The maximum number of instances, 1 to 2^31, for instances that a sender may create without using them, such
        as those of fragments. At the maximum, an instance that would soon time out is evicted. The default is the size
        of a table of the box, which is a bound in any case.
        """
        return self._max_instances

    @max_instances.setter
    def max_instances(self, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1 << 31:
            raise DescriptionError(f"p.max_instances is {described(value)}", "it is a whole number, from 1 to 2**31.")
        self.__dict__["_max_instances"] = value

    @property
    def message(self) -> Any:
        """The length of the next message, for a layer above a byte stream: a Length, computed from header fields."""
        return self.framing

    @message.setter
    def message(self, value: object) -> None:
        if not isinstance(value, Length):
            raise DescriptionError(
                f"p.message is {described(value)}, not a Length", "write p.message = Length(p.header.length)."
            )
        self.__dict__["framing"] = value

    @property
    def buffer_data(self) -> Any:
        """Whether out-of-order bytes are stored (default True). Otherwise only their positions are."""
        return self._buffer_data

    @buffer_data.setter
    def buffer_data(self, value: object) -> None:
        self.__dict__["_buffer_data"] = to_flag(value, "p.buffer_data is ")

    @property
    def record(self) -> Any:
        """Whether a layer of this parser is one of many records of a message, each above the one before, and no
        protocol within another (default False). The stack bounds records apart from other layers.
        """
        return self._record

    @record.setter
    def record(self, value: object) -> None:
        self.__dict__["_record"] = to_flag(value, "p.record is ")

    @property
    def costly(self) -> Any:
        """Whether a layer of this parser costs as much as six others, as one that begins a conversation for any packet
        does (default False). The stack's bound on layers counts it so from the ninth layer of a packet on.
        """
        return self._costly

    @costly.setter
    def costly(self, value: object) -> None:
        self.__dict__["_costly"] = to_flag(value, "p.costly is ")


class Connectionless(Prototype):
    """A protocol whose instances, if it has p.selector, are found by one key. See Prototype."""


class ConnectionOriented(Prototype):
    """A protocol between two sides, whose instances are found by a key with a half for each side. See Prototype.

    The active side is the side that sent the packet which created the instance.
    """

    oriented = True
