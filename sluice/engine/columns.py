"""Event batches for functions in Python: columns of numbers and bytes, read thousands at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sluice.codegen.events.manifest import Layer, Manifest, Recorded
from sluice.engine.addresses import PACKED, ipv4, ipv6, is_address

COLUMNS = 0x8000
"""A flag in the event number of a record: the record holds rows for columns."""
_FIRST = ("instance", "side", "time", "packet")


class Kind:
    """An event of a layer, and the positions of its columns in a row."""

    def __init__(self, layer: Layer, recorded: Recorded) -> None:
        values = layer.events[recorded.base]
        self.layer, self.name = layer.name, recorded.event
        self.places: dict[str, tuple[int, int]] = {name: (word, 64) for word, name in enumerate(_FIRST)}
        self.names: dict[str, tuple[str, ...]] = {}
        word = len(_FIRST)
        for name, bits in layer.columns(recorded.base):
            if name not in _FIRST:  # _FIRST is in every event; otherwise the last duplicate wins, as in `event.NAME`
                self.places[name] = word, bits
            word += max((bits + 63) // 64, 1)
        self.words = word
        own = {value.name for value in values}
        self.addresses = {name for name, (_, bits) in self.places.items() if name not in own and is_address(name, bits)}
        self.names |= {value.name: value.names for value in values if value.names is not None}


class Events:
    """A batch of events of one kind, in order. layer, name: the kind. `len` gives the number of events.

    Columns have the names of the attributes of single events: instance, side, time, packet, the parts of the key
    (sender first), and the values of the event.
    """

    layer = ""
    name = ""
    _kind: Kind

    def __init__(self, count: int, record: bytes) -> None:
        self._count = count
        end = 8 * count * self._kind.words
        self._words = memoryview(record)[:end].cast("Q")
        self._bytes = record[end:]

    def __len__(self) -> int:
        return self._count

    def column(self, name: str) -> list[Any]:
        """One value of each event. Raises KeyError, which lists the existing names."""
        if name.endswith(PACKED) and name not in self._kind.places:
            return [address.packed for address in self.column(name.removesuffix(PACKED))]
        word, bits = self._place(name)
        address = name in self._kind.addresses
        if bits > 64:
            wide = self._wide(word, bits)
            return [ipv6(octets) for octets in wide] if address else wide
        found: list[int] = self._words[word :: self._kind.words].tolist()
        if bits == 0:
            octets = self._bytes
            return [octets[at & 0xFFFFFFFF : (at & 0xFFFFFFFF) + (at >> 32)] for at in found]
        if address:
            return [ipv4(number) for number in found]
        names = self._kind.names.get(name)
        return [names[value] for value in found] if names is not None else found

    def lengths(self, name: str) -> list[int]:
        """The number of bytes of a value in each event; cheaper than reading the bytes. Raises KeyError."""
        word, bits = self._place(name)
        if bits:
            raise KeyError(f"'{name}' of '{self.name}' is a number, not bytes")
        return [at >> 32 for at in self._words[word :: self._kind.words].tolist()]

    def rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """The values of these names, event by event. Raises KeyError."""
        return zip(*map(self.column, names), strict=True)

    def _place(self, name: str) -> tuple[int, int]:
        place = self._kind.places.get(name)
        if place is None:
            known = ", ".join(self._kind.places)
            raise KeyError(f"'{self.name}' of layer '{self.layer}' has no column '{name}'; it has {known}")
        return place

    def _wide(self, word: int, bits: int) -> list[bytes]:
        """A key part of more than 64 bits, read from its words; the most significant word comes first."""
        columns = [self._words[word + k :: self._kind.words].tolist() for k in range((bits + 63) // 64)]
        size = bits // 8
        return [b"".join(piece.to_bytes(8, "big") for piece in pieces)[:size] for pieces in zip(*columns, strict=True)]


def types_of(manifest: Manifest) -> list[type[Events]]:
    """The Events subclass for each column event number."""
    found: list[type[Events]] = []
    for recorded in manifest.columns:
        kind = Kind(manifest.layer(recorded.layer), recorded)
        found.append(type("Events", (Events,), {"layer": kind.layer, "name": kind.name, "_kind": kind}))
    return found
