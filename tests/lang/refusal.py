"""Tables of wrong descriptions: each a small function whose offending line says `# wrong`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sluice.lang import (
    Assemble,
    Bit,
    Connectionless,
    ConnectionOriented,
    DescriptionError,
    Pred,
    Sequence,
    Stack,
    UInt,
    layout,
)
from sluice.lower.build import build


@dataclass
class Refusal:
    """A wrong description, what its message says is wrong, and what it advises."""

    describe: Callable[[], object]
    what: str
    advice: str

    @property
    def line(self) -> int:
        """The line that is marked as wrong."""
        lines, first = inspect.getsourcelines(self.describe)
        marked = [first + number for number, line in enumerate(lines) if line.rstrip().endswith("# wrong")]
        assert len(marked) == 1, f"{self.describe.__name__} marks {len(marked)} lines"
        return marked[0]


class Refusals(list[Refusal]):
    """The wrong descriptions of one subject, in order."""

    def __call__(self, what: str, advice: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
        """Add a description: it is made, and built when it returns a stack."""

        def add(describe: Callable[[], object]) -> Callable[[], object]:
            assert describe.__name__ not in [known.describe.__name__ for known in self]
            self.append(Refusal(describe, what, advice))
            return describe

        return add

    def test(self) -> Callable[[Refusal], None]:
        """A test of every description, also of those that are added later."""

        @pytest.mark.parametrize("refusal", self, ids=lambda refusal: refusal.describe.__name__)
        def test_refused(refusal: Refusal) -> None:
            check(refusal)

        return test_refused


def check(refusal: Refusal) -> None:
    """The description is refused with the user's file and line, and these words."""
    with pytest.raises(DescriptionError) as caught:
        made = refusal.describe()
        assert isinstance(made, Stack), "the description was accepted"
        build(made)
    error = caught.value
    assert (error.what, error.advice) == (refusal.what, refusal.advice)
    assert error.where.file == inspect.getsourcefile(refusal.describe)
    assert error.where.line == refusal.line
    assert str(error) == f"{error.where.file}:{refusal.line}: {refusal.what}\n    {refusal.advice}"


class small(layout):
    kind = Bit(8)
    size = Bit(8)
    src = UInt(16)
    dst = UInt(16)
    seq = UInt(32)


class wide(layout):
    address = Bit(128)
    name = Bit(72)


class memory(layout):
    count = UInt(32)
    text = UInt(16)


class scratch(layout):
    count = UInt(32)
    piece = Bit(128)


class seen(layout):
    count = UInt(32)
    name = Bit(256)


def plain() -> Connectionless:
    """A parser of `small` without instances."""
    p = Connectionless("plain")
    p.header = small
    return p


def keyed() -> Connectionless:
    """A connectionless parser of `small` with instances, perm and temp."""
    p = Connectionless("keyed")
    p.header = small
    p.selector = [p.header.src]
    p.perm = memory
    p.temp = scratch
    return p


def paired() -> ConnectionOriented:
    """A connection-oriented parser of `small`."""
    p = ConnectionOriented("paired")
    p.header = small
    p.selector = [p.header.src], [p.header.dst]
    p.perm = memory
    p.temp = scratch
    return p


def assembled() -> ConnectionOriented:
    """A connection-oriented parser of `small` that assembles its payload."""
    p = paired()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = Assemble()
    return p


def alone(parser: Connectionless | ConnectionOriented) -> Stack:
    """A stack of one layer."""
    stack = Stack("alone")
    stack.only = parser
    return stack


def above(parser: Connectionless | ConnectionOriented) -> Stack:
    """A stack with the parser above one of `wide` and `small`, which offers address, src and kind."""
    lower = Connectionless("lower")
    lower.header = wide + small
    lower.offer(address=lower.header.address, src=lower.header.src, kind=lower.header.kind)
    stack = Stack("above")
    stack.lower = lower
    stack.upper = parser
    stack += (stack.lower >> stack.upper) + Pred(1)
    return stack
