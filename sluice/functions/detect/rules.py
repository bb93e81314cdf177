"""Reading rules: files to checked rules. Errors have their file, line and item; with `lenient` they are listed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sluice.functions.detect.classes import CLASSES
from sluice.functions.detect.errors import DetectionError, RuleError
from sluice.functions.detect.lines import Statement, read_lines
from sluice.functions.detect.model import ACTIONS, ICMP, OTHER, QUIC, SCTP, STREAMS, UDP, Rule
from sluice.functions.detect.options import read_options
from sluice.functions.detect.variables import ANY_PORT, Variables
from sluice.lang.errors import did_you_mean

FILE_MOST = 1 << 28
"""Bytes of a rules file."""

OTHER_ACTIONS = {"activate", "dynamic", "rejectdst", "rejectboth"}
PROTOCOLS = {
    "tcp": STREAMS,
    "udp": UDP,
    "icmp": ICMP,
    "ip": STREAMS | UDP | ICMP | OTHER,
    "sctp": SCTP,
    "quic": QUIC,
    "http": STREAMS,
    "tls": STREAMS,
    "ssl": STREAMS,
    "dns": STREAMS | UDP,
}
"""What rules on a protocol are evaluated on. Those on TCP are evaluated on other streams as well, where the stack has
them: `sctp` and `quic` are these alone.
"""
DIRECTIONS = ("->", "<>")


@dataclass
class RuleSet:
    """Rules in the order of their files, and the errors of those that were left out."""

    rules: list[Rule] = field(default_factory=lambda: list[Rule]())
    skipped: list[RuleError] = field(default_factory=lambda: list[RuleError]())


def read_files(
    paths: Iterable[Path | str], variables: Mapping[str, str] | None = None, lenient: bool = False
) -> RuleSet:
    """The rules of files; those of a folder are its files that end in .rules, by name.

    Raises RuleError for the first rule that cannot be used, unless `lenient`; DetectionError for a file that cannot be
    read.
    """
    reader = Reader(variables, lenient)
    for path in paths:
        for file in _files(Path(path)):
            try:
                if file.stat().st_size > FILE_MOST:
                    raise DetectionError(f"{file}: it has more than {FILE_MOST} bytes: split it")
                text = file.read_bytes().decode("utf-8", "surrogateescape")
            except OSError as error:
                raise DetectionError(f"{file}: {error.strerror}") from error
            reader.read(text, str(file))
    return reader.found


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.rules"))
    if not found:
        raise DetectionError(f"{path}: this folder has no file that ends in .rules")
    return found


class Reader:
    """Reads rules text by text: variables and classes of one hold in the next."""

    def __init__(self, variables: Mapping[str, str] | None = None, lenient: bool = False) -> None:
        self.found = RuleSet()
        self._variables = Variables(variables)
        self._classes = dict(CLASSES)
        self._lenient = lenient
        self._known: dict[tuple[int, int], Rule] = {}

    def read(self, text: str, file: str) -> None:
        """The rules of a text. Raises RuleError unless lenient."""
        for statement in read_lines(text, file):
            try:
                if isinstance(statement, RuleError):
                    raise statement
                self._statement(statement)
            except RuleError as error:
                if not self._lenient:
                    raise
                self.found.skipped.append(error)

    def _statement(self, statement: Statement) -> None:
        word, _, rest = statement.head.partition(" ")
        if word in ("var", "ipvar", "portvar") and statement.options is None:
            match = re.fullmatch(r"\s*(\w+)\s+(\S.*)", rest, re.DOTALL)
            if match is None:
                raise RuleError(statement.place, f"'{word}'", "it lacks a name or a value", f"write {word} NAME VALUE.")
            self._variables.set(match[1], match[2].strip())
        elif word == "config" and (
            match := re.fullmatch(r"\s*classification:\s*([^,]+),([^,]+),\s*([0-9]{1,3})\s*", rest)
        ):
            self._classes[match[1].strip()] = match[2].strip(), int(match[3])
        else:
            self._rule(statement)

    def _rule(self, statement: Statement) -> None:
        place = statement.place
        words = _split(statement.head)
        action = words[0] if words else ""
        if action in OTHER_ACTIONS:
            raise RuleError(place, f"action '{action}'", "it is not supported", f"{', '.join(ACTIONS)} are.")
        if action not in ACTIONS:
            advice = did_you_mean(action, [*ACTIONS, "var", "ipvar", "portvar"])
            raise RuleError(place, f"'{action[:40]}'", "it begins no rule", advice)
        if len(words) != 7:
            raise RuleError(
                place,
                "header",
                f"it has {len(words)} parts, not 7",
                "write alert tcp SOURCE PORT -> DESTINATION PORT (...)",
            )
        if statement.options is None:
            raise RuleError(place, "rule", "it has no options", "give at least sid: (sid:1000001;)")
        _, protocol, src, sports, direction, dst, dports = words
        if protocol not in PROTOCOLS:
            raise RuleError(
                place, f"protocol '{protocol[:40]}'", "it is not supported", did_you_mean(protocol, PROTOCOLS)
            )
        if direction not in DIRECTIONS:
            raise RuleError(
                place, f"direction '{direction[:10]}'", "it is unknown", "write ->, with the source on the left, or <>."
            )
        variables = self._variables
        rule = Rule(
            place,
            ACTIONS[action],
            PROTOCOLS[protocol],
            variables.addresses(src, place, "source address"),
            variables.ports(sports, place, "source port"),
            variables.addresses(dst, place, "destination address"),
            variables.ports(dports, place, "destination port"),
            direction == "<>",
            http=protocol == "http",
            application={"http": "HTTP", "tls": "TLS", "ssl": "TLS", "dns": "DNS"}.get(protocol, ""),
        )
        ported = not rule.protocols & ~(STREAMS | UDP)
        if not ported and not (rule.sports == ANY_PORT and rule.dports == ANY_PORT):
            raise RuleError(place, "ports", f"{protocol} has none", "write any, or a protocol that has ports.")
        read_options(rule, statement.options, self._classes)
        other = self._known.setdefault((rule.gid, rule.sid), rule)
        if other is not rule:
            raise RuleError(
                place, "option 'sid'", f"{rule.sid} is that of the rule at {other.place}", "give each its own."
            )
        self.found.rules.append(rule)


def _split(head: str) -> list[str]:
    """The words of a header. Blanks within brackets separate nothing."""
    words: list[str] = []
    depth = 0
    new = True
    for letter in head:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter.isspace():
            new |= depth <= 0
            continue
        if new:
            words.append("")
            new = False
        words[-1] += letter
    return words
