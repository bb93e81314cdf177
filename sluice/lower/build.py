"""Compiles a stack of the language to a program of the IR.

A layer is compiled once for each combination of layers below it (a variant). For example, one TCP serves IPv4 and IPv6,
and the width of its keys depends on what the layer below offers. Values that cross layers are stored in slots of the
context.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.ir.expression import Reg, is_bytes
from sluice.ir.graph import KeyPart, LayerProgram, NativeShape, Program
from sluice.ir.hook import Hook, needs_name
from sluice.lang.check import check
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError
from sluice.lang.expression import BYTES, NUMBER, Below, Expression
from sluice.lang.layer import Branch, Layer
from sluice.lang.layout import AnyUntil, HeaderFormat, LayoutType
from sluice.lang.native import NativeFunction
from sluice.lang.parser import Parser, PrototypeParts
from sluice.lang.prototype import Prototype
from sluice.lang.stack import Stack
from sluice.lower.layer import build_layer, key_name
from sluice.lower.layer_state import LayerContext, Step, callbacks
from sluice.lower.native import native_modules
from sluice.lower.scope import Offer, Scope, action_expressions, external_owner, external_slot, gathered, nested


@dataclass
class Variant:
    """A layer over one combination of lower layers."""

    name: str
    layer: Layer
    offers: dict[str, Offer]
    above: list[tuple[int, str]] = field(default_factory=lambda: [])


def build(
    stack: Stack,
    hooks: frozenset[Hook] = frozenset(),
    options: frozenset[str] = frozenset(),
    kept: frozenset[tuple[str, int]] = frozenset(),
) -> Program:
    """The program of a stack, before optimisation.

    hooks: events that functions subscribe to; no others are emitted.
    options: optional checks to include.
    kept: by layer, named as in hooks, the number of delivered bytes that its sequences must store at least; 0 if
    functions only read what is stored anyway.

    Raises DescriptionError for an invalid description.
    """
    return _StackBuilder(stack, hooks, options, kept).build()


class _StackBuilder:
    def __init__(
        self, stack: Stack, hooks: frozenset[Hook], options: frozenset[str], kept: frozenset[tuple[str, int]]
    ) -> None:
        self.stack = stack
        self.hooks = hooks
        self.kept = kept
        self.options = options
        self.variants: dict[tuple[str, tuple[tuple[str, str], ...]], Variant] = {}
        self.slots: dict[str, Reg] = {}
        self.read: frozenset[str] = frozenset()
        """The offers that layers read."""
        self.filled: dict[str, set[Reg]] = {}
        self.reads: dict[str, list[Reg]] = {}
        self.native_shapes: dict[NativeFunction, NativeShape] = {}

    def build(self) -> Program:
        stack = self.stack
        if not stack.layers:
            raise DescriptionError("a stack without layers", "write stack.name = parser(...).", stack.where)
        self.expressions = {layer.name: layer_expressions(layer, stack) for layer in stack.layers.values()}
        self.named = self._named()
        self.needs = self._needs()
        self.read = frozenset[str]().union(*self.needs.values())
        check(stack)
        self._check_reachable()
        self._check_owners()
        self.slots = {slot.name: slot for slot in map(gathered, stack.joined)}
        self._check_data()
        roots: list[tuple[int | None, str]] = []
        for layer in stack.roots():
            variant = self._variant(layer, {})
            for link_type in layer.prototype.link_types or (None,):
                other = next((name for known, name in roots if known == link_type), None)
                if other is not None:
                    kind = "any packet" if link_type is None else f"link type {link_type}"
                    raise DescriptionError(
                        f"layers '{other.partition('#')[0]}' and '{layer.name}' would both be the first for {kind}",
                        "connect them by a step, or give their parsers different link_types.",
                        layer.where,
                    )
                roots.append((link_type, variant.name))
        self.by_name = {variant.name: variant for variant in self.variants.values()}
        self.next_names = {name: [target for _, target in it.above] for name, it in self.by_name.items()}
        self.carried = self._carried_variants()
        self._name_variants()
        self.aliases = self._aliases()
        roots = [(kind, self.final[name]) for kind, name in roots]
        layers = [self._layer(number, variant) for number, variant in enumerate(self.variants.values())]
        return Program(
            name=stack.name or "stack",
            layers={layer.name: layer for layer in layers},
            roots=tuple(roots),
            slots=tuple(self.slots.values()),
            depth=stack.depth,
            natives=native_modules(self.native_shapes),
            records=stack.records if any(layer.record for layer in layers) else 0,
        )

    def _named(self) -> list[tuple[Parser, Reg, Expression]]:
        """The values that layers read from other layers by name: the owner, the slot that holds it, and the
        expression.
        """
        found: list[tuple[Parser, Reg, Expression]] = []
        for user, expressions in self.expressions.items():
            layer = self.stack.layers[user]
            for item in expressions:
                owner = external_owner(item, layer)
                if owner is not None:
                    found.append((owner, external_slot(item, owner), item))
        return found

    def _needs(self) -> dict[str, set[str]]:
        """For every layer, the names that it or a layer above it reads with p.below."""
        needs: dict[str, set[str]] = {}
        for name, expressions in self.expressions.items():
            needs[name] = {item.name for item in expressions if isinstance(item, Below)}
        changed = True
        while changed:
            changed = False
            for branch in self.stack.branches:
                passed = needs[branch.upper.name] - set(branch.lower.prototype.offers)
                if not passed <= needs[branch.lower.name]:
                    needs[branch.lower.name] |= passed
                    changed = True
        return needs

    def _check_reachable(self) -> None:
        reached = self._reached()
        for layer in self.stack.layers.values():
            if layer.name not in reached:
                raise DescriptionError(
                    f"no packet can reach layer '{layer.name}'",
                    f"write stack += (stack.lower >> stack.{layer.name}) + Pred(...).",
                    layer.where,
                )

    def _check_owners(self) -> None:
        """A layer may name only layers that every packet passes before it."""
        for name, expressions in self.expressions.items():
            layer = self.stack.layers[name]
            for item in expressions:
                owner = external_owner(item, layer)
                if owner is None or name not in self._reached(without=owner):
                    continue
                if name in self._reached(start=owner):
                    raise DescriptionError(
                        f"not every way to layer '{name}' leads through {owner.title}, which it uses",
                        "let the parsers on all ways say p.offer(NAME=...), and use p.below.NAME here.",
                        item.where,
                    )
                raise DescriptionError(
                    f"layer '{name}' uses {owner.title}, which is not below it",
                    "a layer may ask itself and those below; build its parser with the layer that lies below it.",
                    item.where,
                )

    def _check_data(self) -> None:
        """Functions identify the data of a callback by its layout's name, so layouts with one name must have equal
        fields.
        """
        known: dict[str, tuple[Layer, list[tuple[str, int]]]] = {}
        for layer in self.stack.layers.values():
            for event in layer.prototype.events.defined.values():
                for data in (callback.data for callback in callbacks(event.action)):
                    fields = [(item.name, item.width if item.kind == NUMBER else 0) for item in data.fields.values()]
                    other, same = known.setdefault(data.__name__, (layer, fields))
                    if fields != same:
                        raise DescriptionError(
                            f"layers '{other.name}' and '{layer.name}' call back with different layouts that are both"
                            f" called '{data.__name__}'",
                            "give one another name.",
                            data.where,
                        )

    def _reached(self, without: Parser | None = None, start: Parser | None = None) -> set[str]:
        """Names of the layers that packets reach without passing parser `without`, or after passing parser `start`."""

        def named(layer: Layer, parser: Parser | None) -> bool:
            return layer is parser or layer.prototype is parser

        begin = self.stack.roots() if start is None else [b.upper for b in self.stack.branches if named(b.lower, start)]
        found: set[str] = set()
        waiting = [layer for layer in begin if not named(layer, without)]
        while waiting:
            layer = waiting.pop()
            if layer.name not in found:
                found.add(layer.name)
                waiting += [b.upper for b in self.stack.branches if b.lower is layer and not named(b.upper, without)]
        return found

    def _variant(self, layer: Layer, offers: dict[str, Offer]) -> Variant:
        needed = {name: offer for name, offer in offers.items() if name in self.needs[layer.name]}
        key = (layer.name, tuple(sorted((name, offer.slot.name) for name, offer in needed.items())))
        if key in self.variants:
            return self.variants[key]
        variant = Variant(f"{layer.name}#{len(self.variants)}", layer, needed)
        self.variants[key] = variant
        scope = Scope(layer, needed)
        mine: dict[str, Offer] = {}
        for name, expression in layer.prototype.offers.items():
            bits = scope.bits(expression)
            mine[name] = Offer(self._offer_slot(name, bits), bits, layer.name)
        for number, branch in enumerate(self.stack.branches):
            if branch.lower is layer:
                upper = self._variant(branch.upper, {**offers, **mine})
                variant.above.append((number, upper.name))
        return variant

    def _name_variants(self) -> None:
        """Names a variant after its layer and, if the layer has several variants, after the layers that offer what it
        needs.
        """
        self.final: dict[str, str] = {}
        taken: set[str] = set()
        count: dict[str, int] = {}
        for variant in self.variants.values():
            count[variant.layer.name] = count.get(variant.layer.name, 0) + 1
        for variant in self.variants.values():
            name = variant.layer.name
            if count[name] > 1:
                providers = list(dict.fromkeys(offer.provider for offer in variant.offers.values()))
                name = f"{name}_over_{'_'.join(providers)}" if providers else name
            wish, number = name, 2
            while name in taken:
                name, number = f"{wish}_{number}", number + 1
            taken.add(name)
            self.final[variant.name] = name

    def _layer(self, number: int, variant: Variant) -> LayerProgram:
        layer = variant.layer
        called = ("*", layer.name, layer.prototype.name, self.final[variant.name])
        stored = layer.prototype.keys is not None
        hooks = frozenset(
            hook.event
            for hook in self.hooks
            if hook.layer in called and (stored or hook.layer != "*" or not needs_name(hook.event))
        )
        scope = Scope(layer, variant.offers)
        offers = {name: self._offer_slot(name, scope.bits(item)) for name, item in layer.prototype.offers.items()}
        table = self._table(variant)
        sharing = [v for v in self.variants.values() if v.layer.prototype.keys is not None and self._table(v) == table]
        context = LayerContext(
            name=self.final[variant.name],
            scope=scope,
            hooks=hooks,
            kept=max((octets for name, octets in self.kept if name in called), default=None),
            above=[self._step(self.stack.branches[index], self.final[target]) for index, target in variant.above],
            exports=self._exports(layer),
            offers=offers,
            overrides=self._overrides(layer, scope),
            asked=self._asked(variant),
            options=self.options,
            native_shapes=self.native_shapes,
            joined=self.stack.joined,
            aliases=self.aliases,
            table=table,
            home=number,
            shared=len(sharing) > 1,
            loops=bool(table) and any(self._comes_again(other, table) for other in sharing),
            of_streams=self._cut_from(variant, streams=True),
            of_packets=self._cut_from(variant, streams=False),
            carried=variant.name in self.carried,
        )
        return build_layer(context)

    def _aliases(self) -> dict[PrototypeParts, tuple[str, tuple[KeyPart, ...]]]:
        """The alias table of each prototype whose instances have further keys, and the parts of these keys."""
        found: dict[PrototypeParts, tuple[str, tuple[KeyPart, ...]]] = {}
        for variant in self.variants.values():
            p, scope = variant.layer.prototype, Scope(variant.layer, variant.offers)
            for key in p.alias_keys or ():
                parts = tuple(KeyPart(key_name(item), scope.bits(item)) for item in key)
                _, known = found.setdefault(p, (f"{variant.layer.name}_aliases", parts))
                if [part.bits for part in known] == [part.bits for part in parts]:
                    continue
                raise DescriptionError(
                    f"the alias of {variant.layer.title} is not of one width over all layers below, in all its lists",
                    "make it of what the packet itself has, not of p.below, and each list as wide.",
                    p.lines["alias"],
                )
        return found

    def _overrides(self, layer: Layer, scope: Scope) -> list[tuple[Reg, Expression, Expression]]:
        """What a layer offers under a condition: the slot, the condition, the value."""
        p = layer.prototype
        found: list[tuple[Reg, Expression, Expression]] = []
        for name, (condition, value) in p.overrides.items():
            bits = scope.bits(p.offers.get(name, value))
            if is_bytes(scope.resolve(value)) and scope.bits(value) != bits:
                raise DescriptionError(
                    f"the two values that {p.title} offers as '{name}' differ in length",
                    "offer as many bytes in both cases.",
                    p.lines[f"offer {name}"],
                )
            if p.sequence is not None and not p.sequence.whole:
                raise DescriptionError(
                    f"{p.title} has a stream and offers '{name}' under a condition",
                    "bytes that are delivered without their packet have no header to decide by; keep it in p.perm.",
                    p.lines[f"offer {name}"],
                )
            found.append((self._offer_slot(name, bits), condition, value))
        return found

    def _exports(self, layer: Layer) -> list[tuple[Reg, Expression]]:
        """Slots for the values that layers above read from this layer by name, with the expressions that fill them."""
        found: dict[str, tuple[Reg, Expression]] = {}
        for owner, slot, item in self.named:
            if owner is layer or owner is layer.prototype:
                found[slot.name] = (slot, item)
                self.slots[slot.name] = slot
        return list(found.values())

    def _asked(self, variant: Variant) -> list[Reg]:
        """Slots that layers above a variant read, as filled by the variant or by a layer below it."""
        above = {other.name: self._read(other) for other in self._above(variant)}
        slots = {slot.name: slot for read in above.values() for slot in read}
        return [slot for slot in slots.values() if any(slot in above[v.name] for v in self._above(variant, slot))]

    def _read(self, variant: Variant) -> list[Reg]:
        """Slots of lower layers that a variant reads."""
        found = self.reads.get(variant.name)
        if found is not None:
            return found
        found = [gathered(name) for name in self.stack.joined if variant.layer.prototype.keys is not None]
        for item in self.expressions[variant.layer.name]:
            owner = external_owner(item, variant.layer)
            if owner is not None:
                found.append(external_slot(item, owner))
            elif isinstance(item, Below) and item.name in variant.offers:
                found.append(variant.offers[item.name].slot)
        self.reads[variant.name] = found
        return found

    def _filled(self, variant: Variant) -> set[Reg]:
        """The slots that a variant fills or changes."""
        found = self.filled.get(variant.name)
        if found is None:
            offers = variant.layer.prototype.offers
            scope = Scope(variant.layer, variant.offers)
            found = {self._offer_slot(name, scope.bits(item)) for name, item in offers.items()}
            found.update(gathered(name) for name in self.stack.joined if name in offers)
            found.update(slot for slot, _ in self._exports(variant.layer))
            self.filled[variant.name] = found
        return found

    def _above(self, variant: Variant, unchanged: Reg | None = None) -> list[Variant]:
        """The variants that packets can reach from this one; with `unchanged`, only those for which no layer between
        changes that slot.
        """
        found: dict[str, Variant] = {}
        waiting = list(self.next_names[variant.name])
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self.by_name[name]
                if unchanged is None or unchanged not in self._filled(found[name]):
                    waiting += self.next_names[name]
        return list(found.values())

    def _step(self, branch: Branch, target: str) -> Step:
        framing, stream = branch.upper.prototype.framing, _has_stream(branch.lower.prototype)
        if framing is not None and framing.resync is not None and not stream:
            raise DescriptionError(
                f"layer '{branch.upper.name}' looks for the next start in a stream, and layer '{branch.lower.name}' "
                "has none",
                "leave resync= out: with the next packet messages begin again.",
                branch.where,
            )
        carried = branch.upper.prototype.keys is None and stream
        messages, record = framing is not None, branch.upper.prototype.record
        return Step(branch, target, messages, messages and stream, not messages and carried, record)

    def _carried_variants(self) -> set[str]:
        """The variants without messages and instances that get bytes of a stream, from its layer or through others."""
        found: set[str] = set()
        waiting = [
            target
            for lower in self.variants.values()
            if _has_stream(lower.layer.prototype)
            or (lower.layer.prototype.keys is None and self._cut_from(lower, streams=True))
            for _, target in lower.above
        ]
        while waiting:
            variant = self.by_name[waiting.pop()]
            p = variant.layer.prototype
            if p.keys is None and p.framing is None and variant.name not in found:
                found.add(variant.name)
                waiting += [target for _, target in variant.above]
        return found

    def _cut_from(self, variant: Variant, streams: bool) -> bool:
        """Whether the variant takes messages that are cut from streams (or, with `streams` false, from packets)."""
        return variant.layer.prototype.framing is not None and any(
            _has_stream(lower.layer.prototype) == streams
            for lower in self.variants.values()
            for _, target in lower.above
            if target == variant.name
        )

    def _offer_slot(self, name: str, bits: int) -> Reg:
        slot = Reg(f"slot.{name}.{bits}", bits if bits <= 64 else 0)
        if name in self.read:  # others would only make the context of a packet larger
            self.slots[slot.name] = slot
        return slot

    def _comes_again(self, variant: Variant, table: str) -> bool:
        """Whether a packet can get from this layer to a layer above it with the same table."""
        return any(self._table(other) == table for other in self._above(variant))

    def _table(self, variant: Variant) -> str:
        """The name of the layer's table. Layers of one prototype share a table if their keys have the same shape."""
        prototype = variant.layer.prototype
        if prototype.keys is None:
            return ""
        scope = Scope(variant.layer, variant.offers)
        shape = "_".join(str(scope.bits(item)) for item in prototype.keys[0])
        first = next(name for name, layer in self.stack.layers.items() if layer.prototype is prototype)
        return f"{first}_{shape}"


def _has_stream(lower: Prototype) -> bool:
    """Whether messages above this layer are cut from a byte stream; otherwise they are cut from each packet, unit or
    datagram.
    """
    return lower.sequence is not None and not lower.sequence.units and not lower.sequence.whole


def layer_expressions(layer: Layer, stack: Stack) -> list[Expression]:
    """Every expression that a layer uses, including nested ones and the conditions of the steps from it."""
    p: Prototype = layer.prototype
    found: list[Expression] = (
        _header_expressions(p.format) + action_expressions(p.prep_block) + action_expressions(p.sdu_choice)
    )
    for key in p.keys or ():
        found += key
    found += [item for item in (p.key_condition, p.creating) if item is not None]
    found += [item for item in (p.alias_condition,) if item is not None]
    for key in p.alias_keys or ():
        found += key
    if p.sequence is not None:
        s = p.sequence
        found += [s.meta, s.data] + [
            item for item in (s.data_len, s.start, s.skip, s.head, *(s.window or ())) if item is not None
        ]
    if p.sequence_condition is not None:
        found.append(p.sequence_condition)
    if p.machine is not None:
        found += [t.condition for t in p.machine.transitions.values() if t.condition is not None]
    for event in p.events.defined.values():
        found += action_expressions(event.action)
    if p.framing is not None:
        found += [item for item in (p.framing.length, p.framing.resync) if item is not None]
    found += [r.condition for r in p.requirements] + list(p.offers.values())
    found += [item for choice in p.overrides.values() for item in choice]
    found += [branch.condition for branch in stack.above(layer)]
    return [item for expression in found for item in nested(expression)]


def _header_expressions(format: object) -> list[Expression]:
    found: list[Expression] = []
    if isinstance(format, HeaderFormat):
        for part in format.parts:
            found += _header_expressions(part)
    elif isinstance(format, LayoutType):
        found += [item.bits for item in format.fields.values() if isinstance(item.bits, Expression)]
    elif isinstance(format, AnyUntil):
        found += [item for item in (format.condition, format.end, format.count) if item is not None]
        for item in format.alternatives:
            found += _header_expressions(item)
    elif isinstance(format, Choice):
        found.append(format.condition)
        for branch in format.branches():
            found += _header_expressions(branch)
    return found


__all__ = ["BYTES", "Hook", "Variant", "build", "layer_expressions"]
