"""The explanations of explained.toml: why something of the truth is otherwise."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from tests.corpus.agreement import CLEAN, Disagreement


@dataclass(frozen=True)
class Explanation:
    """Of some stacks (none: of all), what a part of the truth of a capture is otherwise, and why."""

    capture: str
    part: str
    what: str
    why: str
    stacks: tuple[str, ...] = ()

    def fits(self, stack: str, capture: str, wrong: Disagreement) -> bool:
        """Whether it is about a disagreement. That a flow has one right answer nothing explains away."""
        if wrong.part == CLEAN or (self.stacks and stack not in self.stacks):
            return False
        part = fnmatchcase(wrong.part.removesuffix(" other"), self.part)
        return capture == self.capture and part and fnmatchcase(wrong.what, self.what)


@cache
def explanations() -> list[Explanation]:
    """All of them."""
    entries = tomllib.loads(Path(__file__).with_name("explained.toml").read_text())["explained"]
    return [Explanation(**{**entry, "stacks": tuple(entry.get("stacks", ()))}) for entry in entries]


def explanation(stack: str, capture: str, wrong: Disagreement) -> Explanation | None:
    """What explains a disagreement; None where nothing does."""
    return next((one for one in explanations() if one.fits(stack, capture, wrong)), None)
