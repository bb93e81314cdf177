"""What owns names in expressions, as expressions know it: a parser, or a layer made from one."""

from __future__ import annotations


class Owner:
    """A prototype, or a layer of a stack made from one: see Parser, which has the names."""

    name: str
    """In counters and listings; of a layer its name in the stack, of a prototype that has none ''."""

    @property
    def prototype(self) -> Owner:
        """The prototype that a layer is made from; a prototype itself."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The name of the parser in messages."""
        raise NotImplementedError
