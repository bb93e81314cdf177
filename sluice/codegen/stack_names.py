"""What each part of the generated file needs of the other parts: names, numbers, tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from sluice.codegen.c.names import comment, identifier
from sluice.codegen.layer.instance_layout import Table
from sluice.hooks.function import Functions
from sluice.hooks.withheld import stream_layers
from sluice.ir.graph import LayerProgram, Program
from sluice.passes.analysis.packet_reads import lookahead_reads_path


@dataclass
class Counters:
    """All counters of a program, numbered in the order of first use."""

    numbers: dict[tuple[str, str], int] = field(default_factory=lambda: {})

    @property
    def names(self) -> list[tuple[str, str]]:
        """Layer and name of each counter, by number."""
        return list(self.numbers)

    def index(self, layer: str, name: str) -> int:
        """The number of a counter. An unknown counter gets a new number."""
        return self.numbers.setdefault((layer, name), len(self.numbers))

    def add(self, layer: str, name: str, amount: str = "") -> str:
        """The statement that adds to a counter."""
        at = f"box->counters[{self.index(layer, name)}]"
        text = f"{at} += {amount};" if amount else f"{at}++;"
        return f"{text:<42} /* {comment(f'{layer}: {name}')} */"


@dataclass
class StackNames:
    """What each part of the generated file needs of the other parts.

    seconds: every timeout by number. timeouts: by layer, the number of its first timeout, which is its general one.
    """

    program: Program
    functions: Functions
    tables: dict[str, Table]
    counters: Counters
    events: list[tuple[str, str]]
    columns: list[tuple[str, str]]
    seconds: list[float]
    timeouts: dict[str, int]
    weak: bool

    @property
    def prefix(self) -> str:
        """The prefix of the names of the stack's own functions."""
        return identifier(self.program.name)

    @cached_property
    def published(self) -> LayerProgram:
        """What functions publish, as events of a layer."""
        return self.functions.published.layer()

    def layer(self, name: str) -> LayerProgram:
        """The layer of that name, or what stands for one."""
        return self.published if name == self.published.name else self.program.layers[name]

    @cached_property
    def streams(self) -> frozenset[str]:
        """The layers whose events are of streams."""
        return stream_layers(self.program)

    @cached_property
    def path_is_known(self) -> bool:
        """Whether a lookahead graph reads the path of a packet, as a part of a key."""
        return any(lookahead_reads_path(layer, continues=False) for layer in self.program.layers.values())
