"""Header parsing: layouts become length checks and loads, choices become branches, AnyUntil becomes a loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.ir.expression import ONE, ZERO, Binary, Const, Expr, Length, Reg
from sluice.ir.instruction import (
    Again,
    Assign,
    Branch,
    Check,
    CheckWire,
    Count,
    Goto,
    Load,
    LoadBytes,
    LoadVarint,
    Mark,
    Pad,
    Payload,
)
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError
from sluice.lang.expression import NUMBER, to_expression
from sluice.lang.layout import AnyUntil, Field, HeaderFormat, LayoutType, VarintField, header_format
from sluice.lower.builder import GraphBuilder
from sluice.lower.scope import PAYLOAD, UNIT, Scope

PADDED = Reg("local.padded", 0)


@dataclass
class Exits:
    """The blocks where parsing continues if a header is cut by the snap length, too short, or has a wrong constant."""

    cut: str
    short: str
    mismatch: str
    limit: Expr | None = None


class HeaderBuilder:
    """Emits the parsing of one layer's header into `out`.

    `malformed` returns the block for packets that are malformed for a given reason. verifies: whether checksums
    are verified.
    """

    def __init__(
        self, out: GraphBuilder, scope: Scope, malformed: Callable[[str], str], verifies: bool = False
    ) -> None:
        self.out = out
        self.scope = scope
        self.malformed = malformed
        self.verifies = verifies
        self._marks = 0
        self._lists: list[Reg] = []

    @property
    def parts(self) -> Expr:
        """How many parts the lists of a record had."""
        found: Expr = ZERO
        for count in self._lists:
            found = count if found == ZERO else Binary("+", found, count)
        return found

    def build(self, format: HeaderFormat | None, after_first: Callable[[], None] | None = None) -> None:
        """Parse `format` from the start of the unit. Sets mark.end and the payload. after_first: emits what follows the
        first part.
        """
        out, scope = self.out, self.scope
        scope.mark = self._mark(None, ZERO)
        if format is not None:
            for part in format.parts:
                self._clear_optional(part)
            exits = Exits(
                out.end_block("cut:header"),
                self.malformed("header too short"),
                self.malformed("const"),
            )
            first = self._first_exits(exits)
            for at, part in enumerate(format.parts):
                self._part(part, exits if at else first)
                if at == 0 and after_first is not None:
                    after_first()
        end = Reg("mark.end", 32)
        out.emit(Mark(end, scope.mark, ZERO))
        scope.mark = None
        out.emit(Payload(PAYLOAD, end))

    def _first_exits(self, exits: Exits) -> Exits:
        """Of the first layout: where the snap length left enough, the packet begins again with the rest filled up.

        With checksums, one that has nothing else would be taken for one with a wrong checksum.
        """
        out, p = self.out, self.scope.prototype
        if p.needs_captured is None or p.framing is not None:
            return exits
        pad, look = out.name("pad header"), out.name("header cut")
        with out.aside(look):
            enough = Binary(">=", Length(UNIT, captured=True), Const(p.needs_captured))
            if self.verifies:
                enough = Binary("&", enough, Binary(">", Length(UNIT), Const(p.first_layout)))
            out.emit(Branch(enough, pad, exits.cut))
        with out.aside(pad):
            out.emit(Pad(PADDED, UNIT, p.first_layout))
            out.emit(Again(PADDED))
        return Exits(look, exits.short, exits.mismatch)

    def _mark(self, base: Reg | None, offset: Expr) -> Reg:
        mark = Reg(f"mark.{self._marks}", 32)
        self._marks += 1
        self.out.emit(Assign(mark, ZERO) if base is None else Mark(mark, base, offset))
        return mark

    def _clear_optional(self, part: object) -> None:
        """Fields that may be absent read as 0."""
        layouts: list[LayoutType] = []
        if isinstance(part, (AnyUntil, Choice)):
            layouts = list(header_format(part).layouts())
        for item in layouts:
            self.out.assign(Reg(f"local.has.{item.__name__}", 1), ZERO)
            self.scope.parsed.add(f"local.has.{item.__name__}")
            for member in item.fields.values():
                register = self.scope.header(member)
                if not register.is_bytes:
                    self.out.assign(register, ZERO)
                else:
                    assert self.scope.mark is not None
                    self.out.emit(LoadBytes(register, self.scope.mark, 0, ZERO))
                self.scope.parsed.add(register.name)

    def _part(self, part: object, exits: Exits) -> None:
        if isinstance(part, LayoutType):
            self._layout(part, exits)
        elif isinstance(part, AnyUntil):
            self._any_until(part)
        elif isinstance(part, HeaderFormat):
            for item in part.parts:
                self._part(item, exits)
        else:
            assert isinstance(part, Choice)
            self._choice(part, exits)

    def _choice(self, choice: Choice, exits: Exits) -> None:
        out, scope = self.out, self.scope
        assert scope.mark is not None
        choice.check_closed()
        start = scope.mark
        joined = Reg(f"mark.{self._marks}", 32)
        self._marks += 1
        with out.at(choice.where):
            yes, no, after = (
                out.name("header part"),
                out.name("no header part"),
                out.name("after header part"),
            )
            scope.at = choice.where
            out.emit(Branch(scope.number(choice.condition), yes, no))
            for name, branch in ((yes, choice.body), (no, choice.otherwise)):
                out.block(name)
                scope.mark = start
                if branch is not None:
                    self._part(header_format(branch), exits)
                out.emit(Mark(joined, scope.mark, ZERO))
                out.emit(Goto(after))
            out.block(after)
        scope.mark = joined

    def _layout(self, item: LayoutType, exits: Exits) -> None:
        """One check covers a run of fields of fixed length. A field of variable length has its own check."""
        out, scope = self.out, self.scope
        run: list[Field] = []
        with out.at(item.where):
            for member in item.fields.values():
                if isinstance(member.bits, int) and not isinstance(member, VarintField):
                    run.append(member)
                    continue
                self._run(item, run, exits)
                run = []
                if isinstance(member, VarintField):
                    self._varint(member, exits)
                    continue
                with out.at(member.where):
                    scope.at = member.where
                    size = _bytes_of(scope.number(to_expression(member.bits)))
                    assert scope.mark is not None
                    self._check(scope.mark, size, exits)
                    register = scope.header(member)
                    out.emit(LoadBytes(register, scope.mark, 0, size))
                    scope.parsed.add(register.name)
                    scope.mark = self._mark(scope.mark, size)
            self._run(item, run, exits)
            out.assign(Reg(f"local.has.{item.__name__}", 1), ONE)
            scope.parsed.add(f"local.has.{item.__name__}")

    def _varint(self, member: VarintField, exits: Exits) -> None:
        """The two highest bits of the first byte encode the length in bytes."""
        out, scope = self.out, self.scope
        start = scope.mark
        assert start is not None
        with out.at(member.where):
            register, prefix = scope.header(member), Reg(f"local.prefix.{self._marks}", 2)
            size = Binary("<<", ONE, prefix)
            self._check(start, ONE, exits)
            out.emit(Load(prefix, start, 0, 2, "big"))
            self._check(start, size, exits)
            out.emit(LoadVarint(register, start, size))
            scope.parsed.add(register.name)
            self._constant(member, register, exits)
            scope.mark = self._mark(start, size)

    def _constant(self, member: Field, register: Reg, exits: Exits) -> None:
        """A field with `const` must have that value."""
        if member.const is not None:
            there = Binary("==", register, Const(member.const))
            self.out.unless(there, f"{member.name} is {member.const}", exits.mismatch)

    def _run(self, item: LayoutType, run: list[Field], exits: Exits) -> None:
        if not run:
            return
        out, scope = self.out, self.scope
        bits = sum(member.bits for member in run if isinstance(member.bits, int))
        if bits % 8:
            raise DescriptionError(
                f"layout '{item.__name__}' has {bits} bits where it must have whole bytes",
                f"add {8 - bits % 8} bits before '{run[-1].name}' ends, or check the lengths.",
                run[-1].where,
            )
        start = scope.mark
        assert start is not None
        self._check(start, Const(bits // 8), exits)
        at = 0
        for member in run:
            assert isinstance(member.bits, int)
            register = scope.header(member)
            with out.at(member.where):
                if member.kind == NUMBER:
                    if member.order == "little" and at % 8:
                        raise DescriptionError(
                            "a little-endian field that does not begin at a byte",
                            "reorder the fields.",
                            member.where,
                        )
                    out.emit(Load(register, start, at, member.bits, member.order))
                else:
                    if at % 8 or member.bits % 8:
                        raise DescriptionError(
                            "a byte slice that does not begin and end at a byte",
                            "reorder the fields.",
                            member.where,
                        )
                    out.emit(LoadBytes(register, start, at // 8, Const(member.bits // 8)))
                scope.parsed.add(register.name)
                self._constant(member, register, exits)
            at += member.bits
        scope.mark = self._mark(start, Const(bits // 8))

    def _check(self, mark: Reg, size: Expr, exits: Exits) -> None:
        out = self.out
        if exits.limit is not None:
            # size <= limit - mark, not mark + size <= limit: the sum may wrap, as the size is read from the packet
            out.unless(Binary("<=", size, Binary("-", exits.limit, mark)), "within the list", exits.short)
        name = out.name("there")
        out.emit(Check(mark, size, name, exits.cut, exits.short))
        out.block(name)

    def _any_until(self, part: AnyUntil) -> None:
        out, scope = self.out, self.scope
        with out.at(part.where):
            start = scope.mark
            assert start is not None
            here = Reg(f"mark.{self._marks}", 32)
            self._marks += 1
            out.emit(Mark(here, start, ZERO))
            limit: Expr | None = None
            scope.at = part.where
            if part.end is not None:
                limit = Reg(f"local.list_end.{self._marks}", 32)
                self.out.assign(limit, scope.number(part.end))
                out.unless(
                    Binary("<=", here, limit),
                    "list ahead",
                    self.malformed("list ends before it begins"),
                )
            parsed, most = Reg(f"local.count.{self._marks}", 64), None
            counts = part.count is not None or part.limit is not None or scope.prototype.record
            if part.count is not None:
                most = scope.number(part.count)
            if counts:
                out.assign(parsed, ZERO)
                self._lists.append(parsed)
            loop, done = out.name("list"), out.name("list done")
            cut, broken = out.name("list cut"), out.name("list broken")
            out.block(loop)
            scope.mark = here
            condition = scope.number(part.condition)
            if limit is not None:
                condition = Binary("&", condition, Binary("<", here, limit))
            if most is not None:
                fewer = Binary("<", parsed, most)
                condition = fewer if condition == ONE else Binary("&", Binary("!=", condition, ZERO), fewer)
            out.unless(condition, "list item", done)
            if part.limit is not None:
                long = out.name("list too long")
                out.unless(Binary("<", parsed, Const(part.limit)), "within the limit", long)
                with out.aside(long):
                    out.emit(Count("list too long"))
                    out.emit(Goto(done))
            names = [out.name(f"item {item.__name__}") for item in part.layouts]
            exits = Exits(cut, broken, broken, limit)
            first = next(iter(part.layouts[0].fields.values()))
            kind = Reg(f"local.kind.{self._marks}", 64)
            if any(next(iter(item.fields.values())).const is not None for item in part.layouts):
                assert isinstance(first.bits, int)
                self._check(here, Const((first.bits + 7) // 8), exits)
                out.emit(Load(kind, here, 0, first.bits, first.order))
            for item, name in zip(part.layouts, names, strict=True):
                lead = next(iter(item.fields.values()))
                if lead.const is None:
                    out.emit(Goto(name))
                    break
                after = out.name("not " + item.__name__)
                out.emit(Branch(Binary("==", kind, Const(lead.const)), name, after))
                out.block(after)
            else:
                out.emit(Goto(broken))
            for item, begins, name in zip(part.alternatives, part.layouts, names, strict=True):
                out.block(name)
                scope.mark = here
                self._part(item, exits)
                if not any(isinstance(member.bits, int) for member in begins.fields.values()):
                    # No field has a length that is known to be positive: refuse an empty item, which would loop
                    # forever.
                    out.unless(Binary("!=", scope.mark, here), "progress", broken)
                out.emit(Mark(here, scope.mark, ZERO))
                if counts:
                    out.assign(parsed, Binary("+", parsed, ONE))
                out.emit(Goto(loop))
            out.block(broken)
            out.emit(Count("list broken"))
            out.emit(Goto(done))
            out.block(cut)
            out.emit(Count("list cut"))
            out.emit(Goto(done))
            out.block(done)
            scope.mark = here
            if limit is not None:
                name = out.name("list end")
                size = Binary("-", limit, start)
                out.emit(CheckWire(start, size, name, self.malformed("header too short")))
                out.block(name)
                scope.mark = self._mark(start, size)


def _bytes_of(bits: Expr) -> Expr:
    """Converts a length in bits to bytes."""
    if isinstance(bits, Const):
        return Const(bits.value >> 3)
    return Binary(">>", bits, Const(3))
