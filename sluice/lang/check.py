"""Checks that need a whole description: a parser uses only its own values, and only where they are known."""

from __future__ import annotations

import warnings

from sluice.lang.action import Action, Assemble, Assign, Block, Callback
from sluice.lang.alias import AddAlias
from sluice.lang.doubts import doubt, without_packet
from sluice.lang.errors import DescriptionError, DescriptionWarning, did_you_mean
from sluice.lang.events import Event, EventValue
from sluice.lang.expression import (
    Below,
    Expression,
    Number,
    Property,
    children,
)
from sluice.lang.field_value import Contains, FieldValue
from sluice.lang.layer import Layer, Offered
from sluice.lang.layout import Field, LayoutType
from sluice.lang.native import NativeCall
from sluice.lang.order import never_reached
from sluice.lang.parser import OF_INSTANCE, Parser
from sluice.lang.place import (
    CREATED,
    FIND,
    HEADER,
    INSERT,
    LATER,
    MALFORMED,
    MESSAGE,
    MESSAGE_OF_PACKET,
    PREP,
    SEQUENCE,
    STEP,
    Place,
)
from sluice.lang.prototype import Prototype
from sluice.lang.psm import Taken
from sluice.lang.sequence import Sequence
from sluice.lang.stack import Stack
from sluice.lang.uses import Use, action_uses, actions, choice_expressions, header_uses, parts
from sluice.lang.where import Where

NOT_ASSEMBLED = {
    "state": "of which a packet may see several",
    "data": "which that makes happen",
    "malformed": "where there may be no instance",
    "orphan": "where there is no instance",
    "sent": "before the packet is in the sequence",
}
"""Built-in events with which Assemble() must not happen, and why."""


def check(stack: Stack) -> None:
    """Raise DescriptionError, with the line of the use, if a parser of `stack` uses a value that is not available
    there.

    Warns of expressions that probably do not mean what they say.
    """
    _check_steps(stack)
    offered = _offered(stack)
    seen: list[Prototype] = []
    for layer in stack.layers.values():
        if layer.prototype not in seen:
            seen.append(layer.prototype)
            _Checker(stack, layer.prototype, offered).check()


def _check_steps(stack: Stack) -> None:
    """Warn of steps that no packet takes."""
    for layer in stack.layers.values():
        for branch, earlier in never_reached(stack.above(layer)):
            warnings.warn(
                f"{branch.where}: no packet takes the step from '{layer.name}' to '{branch.upper.name}'; that to "
                f"'{earlier.upper.name}' at {earlier.where} takes its packets before. Narrow that one, or write "
                f"Pred(..., before=stack.{earlier.upper.name}).",
                DescriptionWarning,
                stacklevel=2,
            )


def _offered(stack: Stack) -> dict[str, set[str]]:
    """For every layer, the names that layers below it offer."""
    found: dict[str, set[str]] = {name: set() for name in stack.layers}
    changed = True
    while changed:
        changed = False
        for branch in stack.branches:
            names = found[branch.lower.name] | set(branch.lower.prototype.offers)
            changed |= not names <= found[branch.upper.name]
            found[branch.upper.name] |= names
    return found


class _Checker:
    """The checks of one parser."""

    def __init__(self, stack: Stack, prototype: Prototype, offered: dict[str, set[str]]) -> None:
        self.prototype = prototype
        self.offered = offered
        self.layers = layers = [layer for layer in stack.layers.values() if layer.prototype is prototype]
        self.own = (prototype, *layers)
        self.steps = [branch for branch in stack.branches if branch.lower in layers]
        below = [branch.lower.prototype for branch in stack.branches if branch.upper in layers]
        self.of_packets = bool(below) and all(map(_forwards_packets, below))
        self.reached = {branch.upper.name for branch in stack.branches if branch.upper is not branch.lower}
        self.warned: set[tuple[Where, str]] = set()
        self.data = [
            action.data
            for event in prototype.events.defined.values()
            for action in actions(event.action)
            if isinstance(action, Callback)
        ]

    def check(self) -> None:
        p = self.prototype
        self._names_of_layouts()
        self._instances()
        for use in header_uses(p.format):
            self._use(use, HEADER)
        if p.framing is not None:
            place = MESSAGE_OF_PACKET if self.of_packets else MESSAGE
            for expression in (p.framing.length, p.framing.resync):
                if expression is not None:
                    self._use((expression, p.framing.where), place)
        for requirement in p.requirements:
            self._use((requirement.condition, requirement.where), PREP if requirement.after_prep(p) else FIND)
        for expression in [item for key in p.keys or () for item in key]:
            self._use((expression, p.lines["selector"]), FIND, selects=True)
        if p.key_condition is not None:
            self._use((p.key_condition, p.lines["selector"]), FIND)
        if p.creating is not None:
            self._use((p.creating, p.lines["creates"]), FIND)
        for expression in [item for key in p.alias_keys or () for item in key]:
            self._use((expression, p.lines["alias"]), FIND)
        if p.alias_condition is not None:
            self._use((p.alias_condition, p.lines["alias"]), FIND)
        self._actions(p.prep_block, PREP)
        for expression in choice_expressions(p.sdu_choice):
            self._use((expression, p.lines["sdu"]), PREP)
        for action in actions(p.sdu_choice):
            self._target(action)
        if p.sequence is not None:
            s = p.sequence
            if s.units and not p.buffer_data:
                raise DescriptionError("a sequence of units without their bytes", "leave p.buffer_data out.", s.where)
            if (s.acknowledges or s.decides) and not p.oriented:
                raise DescriptionError(
                    "acknowledges= or decides= of a parser without sides",
                    "they are for ConnectionOriented parsers.",
                    s.where,
                )
            for expression in (*s.expressions, p.sequence_condition):
                if expression is not None:
                    self._use((expression, s.where), SEQUENCE)
            self._head(s)
        for transition in p.machine.transitions.values() if p.machine is not None else ():
            if transition.condition is not None:
                self._use((transition.condition, transition.where), LATER, v=True)
        for event in p.events.defined.values():
            self._event(event)
        for name, expression in p.offers.items():
            self._use((expression, p.lines[f"offer {name}"]), LATER)
        for name, choice in p.overrides.items():
            for expression in choice:
                self._use((expression, p.lines[f"offer {name}"]), LATER)
        for branch in self.steps:
            self._use((branch.condition, branch.where), LATER)

    def _head(self, s: Sequence) -> None:
        """The length of a unit's head may depend only on the instance, because the unit's packet may be gone."""
        self._use((s.head, s.where), SEQUENCE)
        for item, where in parts(s.head, s.where):
            kept = isinstance(item, Field) and self._group(item, where) == "perm"
            kept = kept or (isinstance(item, FieldValue) and item.group == "perm" and item.owner in self.own)
            if not kept and not isinstance(item, Number) and not children(item):
                raise DescriptionError(
                    "head= reads what belongs to a packet",
                    "a unit may be delivered with another packet than its own: use fields of p.perm.",
                    where,
                )

    def _names_of_layouts(self) -> None:
        """The layouts of the header and of callbacks are identified by their names."""
        p = self.prototype
        known: dict[str, LayoutType] = {}
        for item in [*(p.format.layouts() if p.format is not None else ()), *self.data]:
            if known.setdefault(item.__name__, item) is not item:
                raise DescriptionError(
                    f"two layouts of {p.title} are called '{item.__name__}'",
                    "give one another name.",
                    item.where,
                )

    def _instances(self) -> None:
        """Fields that instances store need a selector, and Assemble() needs a sequence."""
        p = self.prototype
        if p.keys is None:
            for what, value in (
                ("perm", p.perm_layout),
                ("seq", p.sequence),
                ("psm", p.machine),
                ("alias", p.alias_keys),
                ("timeout", p.timeout),
                ("lifetime", p.lifetime),
                ("max_instances", p.max_instances),
                ("creates", p.creating),
            ):
                if value is not None:
                    raise DescriptionError(
                        f"{p.title} has p.{what} but no instances",
                        "give it p.selector = [...].",
                        p.lines[what],
                    )
        if p.sequence is None:
            for event in p.events.defined.values():
                for action in actions(event.action):
                    if isinstance(action, Assemble):
                        raise DescriptionError(
                            f"{p.title} assembles but has no sequence",
                            "define p.seq = Sequence(...).",
                            action.where,
                        )

    def _event(self, event: Event) -> None:
        """An event may use only what is known when the built-in events that cause it happen."""
        causes = self._built_in_causes(event.name)
        place = LATER
        if "malformed" in causes:
            place = MALFORMED
        elif causes & {"created", "orphan", "sent"}:
            place = CREATED
        elif causes & {"rexmit", "out_of_wnd"}:
            place = INSERT
        elif "state" in causes:
            place = STEP
        self._actions(event.action, place, event)
        for expression, where, _ in action_uses(event.action):
            for item, line in parts(expression, where):
                self._warn(without_packet(item, self.prototype, causes), line)
        for action in actions(event.action):
            for cause, why in NOT_ASSEMBLED.items():
                if isinstance(action, Assemble) and cause in causes:
                    raise DescriptionError(
                        f"event '{event.name}' assembles and happens with '{cause}', {why}",
                        "assemble in an event of its own: p.event.asm = Assemble().",
                        action.where,
                    )
        for expression, where, _ in action_uses(event.action):
            virtual = (item for item, _ in parts(expression, where) if isinstance(item, FieldValue))
            if causes and any(item.group == "v" for item in virtual):
                raise DescriptionError(
                    f"event '{event.name}' asks for virtual packets and happens with '{min(causes)}', which knows none",
                    "use p.header in it, or relate it to an event of your own.",
                    where,
                )

    def _built_in_causes(self, name: str) -> set[str]:
        """Built-in events with which event `name` may happen, directly or through other events."""
        found: set[str] = set()
        for relation in self.prototype.relations.along:
            if relation.effect.name == name:
                cause = relation.cause
                found |= {cause.name} if cause.built_in else self._built_in_causes(cause.name)
        return found

    def _actions(self, block: Block | None, place: Place, event: Event | None = None) -> None:
        for expression, where, condition in action_uses(block):
            self._use((expression, where), place, v=condition and event is not None, event=event)
        for action in actions(block):
            self._target(action)

    def _target(self, action: Action) -> None:
        """An action sets only fields of its own parser."""
        if isinstance(action, AddAlias) and action.by_selector and action.parser not in self.own:
            raise DescriptionError(
                f"{self.prototype.title} gives an instance of {action.parser.title} a selector",
                "only that parser itself knows what its selector has of a packet: do it there.",
                action.where,
            )
        if isinstance(action, NativeCall):
            for item in action.into:
                self._own_field(item, action.where)
        if not isinstance(action, Assign):
            return
        target = action.register
        if isinstance(target, FieldValue):
            self._own_field(target, action.where)
            return
        group = self._group(target, action.where)
        if group == "header":
            raise DescriptionError(
                "a field of the header cannot be assigned to",
                "assign to a field of temp or perm instead.",
                action.where,
            )

    def _own_field(self, target: FieldValue, where: Where) -> None:
        if target.owner not in self.own:
            raise DescriptionError(
                f"{self.prototype.title} assigns to a field of {target.owner.title}",
                "a parser sets only its own temp and perm.",
                where,
            )

    def _use(self, use: Use, place: Place, v: bool = False, event: Event | None = None, selects: bool = False) -> None:
        """Refuse values that are not known at `place`. `v`: virtual packets are allowed; `selects`: so is p.way."""
        for item, where in parts(*use):
            self._doubt(item, where)
            if isinstance(item, Field):
                self._known(self._group(item, where), item.name, place, where)
            elif isinstance(item, Below):
                self._below(item, where)
            elif isinstance(item, EventValue):
                self._event_value(item, event, where)
            elif isinstance(item, Contains):
                _contained(item, where)
            elif isinstance(item, Offered):
                raise DescriptionError(
                    f"{self.prototype.title} reads what layers of a stack offer",
                    f"read what lies below, p.below.{item.name}.",
                    where,
                )
            elif not isinstance(item, (FieldValue, Property, Taken)) or item.owner not in self.own:
                continue
            elif isinstance(item, FieldValue):
                if item.group == "v" and not v:
                    raise DescriptionError(
                        "a virtual packet outside a condition of the machine or of an event",
                        "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
                        where,
                    )
                self._known(item.group, item.field.name, place, where)
            elif isinstance(item, Property):
                if item.name in OF_INSTANCE and self.prototype.keys is None:
                    raise DescriptionError(
                        f"'{item.name}' of a parser without instances", "give it p.selector = [...].", where
                    )
                if item.name == "way" and not selects:
                    raise DescriptionError(
                        "'way' outside a selector", "it tells instances apart: p.selector = [..., p.way].", where
                    )
                if item.name in place.properties:
                    raise self._early(item.name, place, where)
            elif not place.steps:
                raise self._early(f"psm.{item.transition.name}", place, where)

    def _doubt(self, item: Expression, where: Where) -> None:
        """Warn, once for each line, of what is probably a mistake."""
        self._warn(doubt(item), where)

    def _warn(self, warning: str | None, where: Where) -> None:
        if warning is not None and (where, warning) not in self.warned:
            self.warned.add((where, warning))
            warnings.warn(f"{where}: {warning}", DescriptionWarning, stacklevel=2)

    def _known(self, group: str, name: str, place: Place, where: Where) -> None:
        if group in place.groups or (group == "data" and not place.data):
            raise self._early(f"{group}.{name}", place, where)

    def _early(self, name: str, place: Place, where: Where) -> DescriptionError:
        return DescriptionError(f"'{name}' is read before {place.before}", place.advice, where)

    def _group(self, item: Field, where: Where) -> str:
        """The group of this parser that a field of a layout belongs to."""
        p, owner = self.prototype, item.layout
        if owner is None:
            raise DescriptionError(
                "a field outside any layout", "make it a member of a class derived from layout.", where
            )
        if owner is p.temp_layout:
            return "temp"
        if owner is p.perm_layout:
            return "perm"
        if p.format is not None and owner in list(p.format.layouts()):
            return "header"
        if owner in self.data:
            return "data"
        raise DescriptionError(
            f"layout '{owner.__name__}' is no part of {p.title}",
            "make it p.header, p.temp, p.perm or a Callback's; of another layer ask stack.layer.header.x.",
            where,
        )

    def _event_value(self, item: EventValue, event: Event | None, where: Where) -> None:
        """The values of a built-in event are known only in events that happen with it."""
        name = item.event.name
        if item.event.owner is not self.prototype or event is None or name not in self._causes(event.name):
            raise DescriptionError(
                f"'{name}.{item.name}' is known only when event '{name}' happens",
                f"use it in an event related to it: p.event_relation += p.event.{name} >> p.event.yours.",
                where,
            )

    def _below(self, item: Below, where: Where) -> None:
        """A value read with p.below is offered on at least one path."""
        for layer in self.layers:
            names = self.offered[layer.name]
            if item.owner in self.own and item.name not in names:
                self._check_reached(layer)
                advice = f"a parser below must say p.offer({item.name}=...)."
                if names:
                    advice = did_you_mean(item.name, names) + f" Or a parser below must say p.offer({item.name}=...)."
                raise DescriptionError(f"no layer below {layer.title} offers '{item.name}'", advice, where)

    def _check_reached(self, layer: Layer) -> None:
        """A missing step is an error of the stack, not of the parser that reads values from below."""
        if layer.name not in self.reached:
            raise DescriptionError(
                f"no step leads to {layer.title}, and its parser reads what a layer below offers",
                f"write stack += (stack.lower >> stack.{layer.name}) + Pred(...).",
                layer.where,
            )

    def _causes(self, name: str) -> set[str]:
        """Built-in events that have always happened when event `name` happens."""
        found: set[str] | None = None
        for relation in self.prototype.relations.along:
            if relation.effect.name == name:
                cause = relation.cause
                more = {cause.name} if cause.built_in else self._causes(cause.name)
                found = more if found is None else found & more
        return found or set()


def _forwards_packets(lower: Prototype) -> bool:
    """Whether a parser forwards packets, units or whole datagrams, and not the bytes of a stream."""
    return lower.sequence is None or lower.sequence.units or lower.sequence.whole


def _contained(item: Contains, where: Where) -> None:
    """The argument of header_contain() is a layout of that parser's header."""
    assert isinstance(item.owner, Parser)
    format = item.owner.prototype.format
    if format is None or item.part not in list(format.layouts()):
        raise DescriptionError(
            f"layout '{item.part.__name__}' is not part of the header of {item.owner.title}",
            "make it a part of p.header.",
            where,
        )
