"""Our headers beside tshark's, of a random sample of the corpus."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.budget import examples
from tests.support.corpus import captures
from tests.support.headers import Header, headers_of
from tests.tshark.dissection import Node, dissect
from tests.tshark.generated import write
from tests.tshark.table import COUNT, NotShown, Table, Value, Where, shown

WHOLE = 200
SAMPLE = examples(WHOLE, 60)
"""Packets for each parser, or all that there are. Each explanation is needed in the whole sample."""

SEED = 20260101


@dataclass(frozen=True)
class Disagreement:
    """A field, or COUNT, of a header in a packet of which tshark says something else."""

    parser: str
    field: str
    capture: str
    frame: int
    ours: Value
    theirs: Value

    def __str__(self) -> str:
        ours, theirs = (value.hex() if isinstance(value, bytes) else value for value in (self.ours, self.theirs))
        return f"{self.parser}.{self.field}: {ours}, tshark {theirs} ({self.capture}, frame {self.frame})"


@dataclass
class Comparison:
    """What was compared, by parser: packets, and values; disagreements; explanations that were needed."""

    packets: Counter[str] = field(default_factory=lambda: Counter())
    values: Counter[str] = field(default_factory=lambda: Counter())
    disagreements: list[Disagreement] = field(default_factory=lambda: [])
    explained: Counter[tuple[str, str, str]] = field(default_factory=lambda: Counter())


Packet = tuple[Path, int]


def _counts(tables: dict[str, Table], header: Header) -> bool:
    return header.parser in tables and tables[header.parser].ours(header)


def sample(headers: dict[Path, dict[int, list[Header]]], tables: dict[str, Table]) -> dict[str, list[Packet]]:
    """For each parser, packets that have its header, drawn at random with a fixed seed."""
    found: dict[str, list[Packet]] = defaultdict(list)
    for path, frames in headers.items():
        for frame, layers in frames.items():
            for parser in dict.fromkeys(header.parser for header in layers if _counts(tables, header)):
                found[parser].append((path, frame))
    drawn = {}
    for parser, packets in sorted(found.items()):
        chosen = random.Random(f"{SEED} {parser}").sample(packets, min(SAMPLE, len(packets)))
        drawn[parser] = sorted(chosen)
    return drawn


def compare_packet(table: Table, ours: list[Header], theirs: Node) -> Iterator[tuple[str, Value, Value]]:
    """What is compared of a packet: the field, our value, tshark's."""
    nodes = table.found(theirs)
    yield COUNT, len(ours), len(nodes)
    for header, node in zip(ours, nodes, strict=False):
        for name, how in table.fields.items():
            if isinstance(how, NotShown) or (isinstance(how, Where) and not how.condition(node)):
                continue
            value = header.fields.get(name)
            value = None if value == b"" else value  # tshark does not show what is empty
            yield name, value, shown(how.how if isinstance(how, Where) else how, node, value)


def compare(tables: dict[str, Table], stack: str = "everything") -> Comparison:
    """Hold the sample of the parsers in `tables` against tshark, over the corpus, and all generated packets."""
    with TemporaryDirectory() as folder:
        return _compare(tables, stack, write(Path(folder)))


def _compare(tables: dict[str, Table], stack: str, generated: list[Path]) -> Comparison:
    headers = {path: headers_of(stack, path) for path in captures()}
    drawn = sample(headers, tables)
    for path in generated:
        headers[path] = headers_of(stack, path)
        for frame, layers in headers[path].items():
            for parser in {header.parser for header in layers if _counts(tables, header)}:
                drawn.setdefault(parser, []).append((path, frame))
    wanted: dict[Path, set[int]] = defaultdict(set)
    for parser, packets in drawn.items():
        if tables[parser].nodes:
            for path, frame in packets:
                wanted[path].add(frame)
    nodes = {name for table in tables.values() for name in table.nodes}
    protocols = sorted(nodes | {name.split(".")[0] for name in nodes})
    trees = {path: dissect(path, frames, protocols) for path, frames in wanted.items()}
    result = Comparison()
    for parser, packets in drawn.items():
        table = tables[parser]
        result.packets[parser] = len(packets)
        for path, frame in packets if table.nodes else []:
            ours = [one for one in headers[path][frame] if one.parser == parser and table.ours(one)]
            for name, one, other in compare_packet(table, ours, trees[path][frame]):
                result.values[parser] += 1
                if one == other:
                    continue
                reason = table.explanation(name, path.name)
                if reason is None:
                    result.disagreements.append(Disagreement(parser, name, path.name, frame, one, other))
                else:
                    result.explained[parser, name, reason] += 1
    return result
