"""Calls of libc whose result a replay does not repeat, in functions whose state is in a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sluice.chain.file_scope import tokens_of
from sluice.hooks.function import CFunction

_RANDOM = (
    "rand", "rand_r", "random", "random_r", "drand48", "erand48", "lrand48", "nrand48", "mrand48", "jrand48",
    "arc4random", "arc4random_uniform", "arc4random_buf", "getrandom", "getentropy",
)  # fmt: skip
_TIME = ("time", "gettimeofday", "clock_gettime", "timespec_get", "clock")
_REPLACEMENT = {name: "sl_random(event)" for name in _RANDOM} | {
    name: "sl_packet_time(event) or sl_now(box)" for name in _TIME
}
_BEFORE_CALLS = ("return", "else", "do", "case")


def undetermined(functions: Iterable[CFunction]) -> Iterator[str]:
    """A sentence for each such call in the files of functions with shared objects: position, name and advice.

    The file's own function of one of these names is none. Calls in headers, by pointers and by macros are not found.
    """
    for function in functions:
        for name, line in _calls(function.text) if function.shared or function.stored else ():
            yield (
                f"{Path(function.path).name}:{line}: {name}() gives another value when a packet is handled again after "
                f"a failure: write {_REPLACEMENT[name]}"
            )


def _calls(text: str) -> Iterator[tuple[str, int]]:
    """The calls in a text, each with its line."""
    code: list[tuple[str, str, int]] = []
    line, own = 1, set[str]()
    for token in tokens_of(text):
        if token.kind not in ("comment", "space", "directive"):
            code.append((token.kind, token.text, line))
        line += token.text.count("\n")
    found: list[tuple[str, int]] = []
    for before, (kind, name, at), after in zip([("", "", 0), *code], code, code[1:], strict=False):
        if kind != "word" or name not in _REPLACEMENT or after[1] != "(" or before[1] in (".", "->"):
            continue
        if before[0] == "word" and before[1] not in _BEFORE_CALLS:
            own.add(name)
        else:
            found.append((name, at))
    return ((name, at) for name, at in found if name not in own)
