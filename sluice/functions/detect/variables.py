"""Variables and lists in a rule's header: addresses and ports, nested in brackets, negated, by variable."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sluice.functions.detect.errors import Place, RuleError
from sluice.functions.detect.ranges import Ranges, union, without
from sluice.lang.errors import did_you_mean

DEFAULTS = {
    "HOME_NET": "any",
    "EXTERNAL_NET": "any",
    **{
        f"{name}_SERVERS": "$HOME_NET"
        for name in ("HTTP", "SMTP", "SQL", "DNS", "TELNET", "SSH", "FTP", "SIP", "DC", "SNMP", "AIM")
    },
    "HTTP_PORTS": "[80,3128,8000,8080,8888]",
    "SHELLCODE_PORTS": "!80",
    "ORACLE_PORTS": "1521",
    "SSH_PORTS": "22",
    "FTP_PORTS": "[21,2100]",
    "SIP_PORTS": "[5060,5061]",
    "FILE_DATA_PORTS": "[$HTTP_PORTS,110,143]",
    "DNS_PORTS": "53",
}
"""Variables that rules have where neither the command line nor a file sets them."""

_NEST_MOST = 32
_ALL4, _ALL6, _ALL_PORTS = ((0, (1 << 32) - 1),), ((0, (1 << 128) - 1),), ((0, 65535),)
_WORD = re.compile(r"[^\[\],!\s]+")


@dataclass(frozen=True)
class Addresses:
    """A set of addresses: of IPv4 and of IPv6."""

    v4: Ranges = _ALL4
    v6: Ranges = _ALL6

    @property
    def any(self) -> bool:
        """Whether it has all addresses."""
        return self == ANY_ADDRESS


ANY_ADDRESS = Addresses()
ANY_PORT: Ranges = _ALL_PORTS

_Set = tuple[Ranges, ...]
"""Addresses as (v4, v6), ports as (ports,)."""


class Variables:
    """The values of variables, as they are written. Those of the command line are not overridden by files."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._fixed = dict(given or {})
        self._values = {**DEFAULTS, **self._fixed}
        self._sets: dict[tuple[str, bool], _Set] = {}

    def set(self, name: str, value: str) -> None:
        """A file sets a variable."""
        if name not in self._fixed:
            self._values[name] = value
            self._sets.clear()

    def addresses(self, text: str, place: Place, item: str) -> Addresses:
        """The addresses that a part of a header means. Raises RuleError."""
        v4, v6 = _Reader(self._values, self._sets, place, item, ports=False).read(text)
        return Addresses(v4, v6)

    def ports(self, text: str, place: Place, item: str) -> Ranges:
        """The ports that a part of a header means. Raises RuleError."""
        return _Reader(self._values, self._sets, place, item, ports=True).read(text)[0]


@dataclass
class _Reader:
    """Reads a part of a header. sets: the values of variables, by name and `ports`, so that each is read once."""

    values: Mapping[str, str]
    sets: dict[tuple[str, bool], _Set]
    place: Place
    item: str
    ports: bool
    depth: int = 0

    def read(self, text: str) -> _Set:
        found, at = self._element(text, 0)
        if text[at:].strip():
            raise self._error(f"'{text[at:].strip()[:40]}' follows its end", "write a list in brackets: [a,b,!c].")
        if not any(found):
            raise self._error(f"'{text[:60]}' has no {'port' if self.ports else 'address'}: it excludes all of its own")
        return found

    def _all(self) -> _Set:
        return (_ALL_PORTS,) if self.ports else (_ALL4, _ALL6)

    def _error(self, what: str, advice: str = "") -> RuleError:
        return RuleError(self.place, self.item, what, advice)

    def _element(self, text: str, at: int) -> tuple[_Set, int]:
        """One element from `at`, and where it ends: a negation, a list, or a word."""
        at = _blank(text, at)
        if text[at : at + 1] == "!":
            inner, at = self._nested(text, at + 1)
            return tuple(without(a, b) for a, b in zip(self._all(), inner, strict=True)), at
        if text[at : at + 1] == "[":
            return self._list(text, at + 1)
        word = _WORD.match(text, at)
        if word is None:
            raise self._error(f"'{text[:60]}' lacks a value", "write any, a value, $VARIABLE, or a list [a,b,!c].")
        return self._word(word[0]), word.end()

    def _nested(self, text: str, at: int) -> tuple[_Set, int]:
        self.depth += 1
        if self.depth > _NEST_MOST:
            raise self._error(f"it is nested more than {_NEST_MOST} deep", "a variable may refer to itself.")
        found = self._element(text, at)
        self.depth -= 1
        return found

    def _list(self, text: str, at: int) -> tuple[_Set, int]:
        """A list: the union of its elements, or of all where each is negated, without the negated ones."""
        with_: list[_Set] = []
        but: list[_Set] = []
        while True:
            at = _blank(text, at)
            negated = text[at : at + 1] == "!"
            found, at = self._nested(text, at + negated)
            (but if negated else with_).append(found)
            at = _blank(text, at)
            letter = text[at : at + 1]
            at += 1
            if letter == "]":
                break
            if letter != ",":
                raise self._error(
                    "a list does not end with ']'" if not letter else f"'{letter}' where ',' or ']' is due"
                )
        base = with_ or [self._all()]
        sides = range(len(self._all()))
        return tuple(
            without(union(r for each in base for r in each[side]), union(r for each in but for r in each[side]))
            for side in sides
        ), at

    def _word(self, word: str) -> _Set:
        if word.lower() == "any":
            return self._all()
        if word.startswith("$"):
            name, _, modifier = word[1:].strip("()").partition(":")
            if name not in self.values and modifier.startswith("-"):
                return self._nested(modifier[1:], 0)[0]
            if name not in self.values and modifier.startswith("?"):
                raise self._error(f"${name} is not set: {modifier[1:]}", f"--var {name}=... sets it.")
            if name not in self.values:
                raise self._error(
                    f"there is no variable ${name}", f"{did_you_mean(name, self.values)} --var {name}=... sets it."
                )
            known = self.sets.get((name, self.ports))
            if known is not None:
                return known
            found, end = self._nested(self.values[name], 0)
            if self.values[name][end:].strip():
                raise self._error(f"${name} is '{self.values[name]}', which is no list", "write it in brackets: [a,b].")
            self.sets[name, self.ports] = found
            return found
        return self._port(word) if self.ports else self._address(word)

    def _port(self, word: str) -> _Set:
        match = re.fullmatch(r"([0-9]{1,5})?(:)?([0-9]{1,5})?", word)
        if match is None or word == ":":
            raise self._error(f"'{word[:40]}' is no port", "write 80, 1024:, :1023, 6000:6010, or a $VARIABLE.")
        low = int(match[1] or 0)
        high = int(match[3] or 65535) if match[2] else low
        if low > high or high > 65535:
            raise self._error(
                f"'{word}' is no range of ports", "the first is not above the last, and that not above 65535."
            )
        return (((low, high),),)

    def _address(self, word: str) -> _Set:
        try:
            first, dash, last = word.partition("-")
            if dash:
                low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
                if low.version != high.version or int(low) > int(high):
                    raise ValueError
                found = ((int(low), int(high)),)
                return (found, ()) if low.version == 4 else ((), found)
            net = ipaddress.ip_network(word, strict=False)
        except ValueError:
            raise self._error(
                f"'{word[:60]}' is no address", "write 10.0.0.1, 10.0.0.0/8, 2001:db8::/32, or a $VARIABLE."
            ) from None
        found = ((int(net.network_address), int(net.broadcast_address)),)
        return (found, ()) if net.version == 4 else ((), found)


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
