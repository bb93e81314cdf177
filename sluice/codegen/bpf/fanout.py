"""The choice of a packet's worker as a program for the kernel: PACKET_FANOUT_EBPF (packet(7)).

It runs the dispatch graphs on the kernel's packet and computes the hash of core/dispatch.h, so it returns what NAME_worker
returns for the frame that the packet becomes. This suffices where all keys of a packet are those of the hash. In stacks
with path graphs (passes/path_keys.py), a packet may have others, which only the thread that receives all packets can learn.

What has no bound that the verifier of the kernel finds is not decided: loops, as over the options of an IPv4 header, and
layers that come again, as a second VLAN tag. Such packets go to worker UNDECIDED, which hands them over.

Registers of the graphs are on the stack of the program: numbers in one place, bytes in two, where they begin and end in
the frame. Register 6 is the context, 7 what is added to an offset in the frame for the one in the packet, 8 the secret.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from sluice.codegen.bpf.assembler import FP, MOVE, ReachError, patched
from sluice.codegen.bpf.errors import UndecidedError, UnsuitableError
from sluice.codegen.bpf.expressions import ExpressionWriter
from sluice.codegen.bpf.graphs import above, cyclic, is_longer, named, registers_of, sizes_of_bytes
from sluice.ir import instruction as ir
from sluice.ir.expression import Binary, Const, Expr, Length, Reg, Slice, is_bytes
from sluice.ir.graph import Graph, Program
from sluice.passes.analysis.blocks import loops

ETHERNET = 1
"""The link type that the program is for."""
STATELESS = "no layer has instances, so that any worker may process a packet"
"""Why there is no program, and none is needed."""
UNDECIDED = 0
"""The worker of packets that the program does not decide. It hands them over."""
_HALF, _WORKER = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""Constants of core/dispatch.h."""
_WORDS = 8
"""Bytes of a key that are hashed together."""


@dataclass(frozen=True)
class Fanout:
    """A program for the kernel, without the secret of the hash and the number of workers."""

    code: str
    """Its bytes, in hexadecimal."""
    secret: int
    workers: int
    """Where these are."""

    def program(self, secret: int, workers: int) -> bytes:
        """The program, complete."""
        return patched(patched(bytes.fromhex(self.code), self.secret, secret), self.workers, workers)


def fanout(program: Program) -> Fanout:
    """The program for frames of Ethernet. Raises UnsuitableError."""
    if not any(layer.instance is not None for layer in program.layers.values()):
        raise UnsuitableError(STATELESS)
    if any(layer.path is not None for layer in program.layers.values()):
        raise UnsuitableError("a packet may have keys of several workers, as of a tunnel and of what is in it")
    graphs = {name: layer.dispatch for name, layer in program.layers.items() if layer.dispatch is not None}
    roots = dict(program.roots)
    first = roots.get(ETHERNET, roots.get(None))
    if first not in graphs:
        raise UnsuitableError("no key of a packet selects its worker")
    if is_longer(graphs, first, program.depth):
        raise UnsuitableError("packets with fewer layers than it has are refused")
    try:
        return _Writer(program, graphs, first).write()
    except ReachError:
        raise UnsuitableError("the program for the kernel is too long") from None


class _Writer(ExpressionWriter):
    def __init__(self, program: Program, graphs: dict[str, Graph], first: str) -> None:
        super().__init__()
        self.graphs = graphs
        self.first = first
        self.after_first = {i.layer for i in graphs[first].instructions() if isinstance(i, ir.NextDispatch)}
        repeated = cyclic(graphs)
        self.returning = {(name, other) for name in repeated for other in above(graphs[name]) & repeated}
        """From which layers to which others packets may come twice."""
        self.loops: dict[str, frozenset[str]] = {}
        """Of the current layer."""
        self.sizes = sizes_of_bytes(graphs)
        self.hash, self.sum = self._room(), self._room()
        self._slots(graphs)

    def write(self) -> Fanout:
        secret = self._begin(self.first)
        for name, graph in self.graphs.items():
            self._layer(name, graph)
        self.out.label("none")
        self._constant(0, 0)
        self._put(self.sum)
        self.out.label("end")
        self._get(self.sum, 0)
        self.out.alu_register("^", 0, 8)
        self.out.set(1, _WORKER)
        self._fold()
        self.out.alu("<<", 0, 32)
        self.out.alu(">>", 0, 32)
        workers = self.out.set(1, 1)
        self.out.alu_register("*", 0, 1)
        self.out.alu(">>", 0, 32)
        self.out.exit()
        self.out.label("undecided")
        self._constant(0, UNDECIDED)
        self.out.exit()
        code, places = self.out.finish()
        return Fanout(code.hex(), places[secret], places[workers])

    # --- graphs ---

    def _layer(self, name: str, graph: Graph) -> None:
        self.places, self.used = dict(self.shared), self.shared_used
        for reg in registers_of(graph):
            self._allocate(reg)
        self.out.label(f"{name}:")
        (unit,) = graph.parameters
        for place, own in zip(self.units, (unit.name, f"{unit.name} end"), strict=True):
            self._get(place, 0)
            self._put(self.places[own])
        self.unit = self.places[unit.name], self.places[f"{unit.name} end"]
        self.out.goto(f"{name}:{graph.entry}")
        self.near = name == self.first or name in self.after_first
        self.loops = loops(graph)
        for block in graph.blocks.values():
            self.out.label(f"{name}:{block.name}")
            if block.name in self.loops:
                self.out.goto("undecided")
                continue
            try:
                for instruction in block.body:
                    self._instruction(instruction)
                self._terminator(name, block.terminator)
            except UndecidedError:
                self.temporary = 0
                self.out.goto("undecided")

    def _instruction(self, instruction: ir.Instruction) -> None:
        match instruction:
            case ir.Load(target, mark, at, bits, order):
                self._load_number(mark, at, bits, order)
                self._assign(target)
            case ir.LoadBytes(target, mark, at, size):
                self._number(mark)
                self.out.alu("+", 0, at)
                self._get(self.unit[0], 1)
                self.out.alu_register("+", 0, 1)
                self._put(self.places[target.name])
                self._number(size)
                self._get(self.places[target.name], 1)
                self.out.alu_register("+", 0, 1)
                self._put(self.places[f"{target.name} end"])
            case ir.Mark(target, base, offset):
                self._number(Binary("+", base, offset))
                self._assign(target)
            case ir.Payload(target, mark):
                self._assign_bytes(target, Slice(self._whole, mark, Const((1 << 64) - 1)))
            case ir.Assign(target, value) if target.is_bytes:
                self._assign_bytes(target, value)
            case ir.Assign(target, value):
                self._number(value)
                self._assign(target)
            case _:
                raise UndecidedError

    @property
    def _whole(self) -> Reg:
        return Reg("local.unit", 0)

    def _load_number(self, mark: Reg, at: int, bits: int, order: str) -> None:
        first, end = at // 8, (at + bits + 7) // 8
        whole = at % 8 == 0 and bits % 8 == 0
        if end - first > 8 or (order != "big" and not (whole and bits in (8, 16, 32, 64))):
            raise UndecidedError
        self._number(mark)
        self.out.alu("+", 0, first)
        self._get(self.unit[0], 1)
        self.out.alu_register("+", 0, 1)
        self._load(end - first)
        if order != "big" and bits > 8:
            if not _is_little_endian():
                raise UndecidedError
            self.out.swap(0, bits)
        if not whole:
            self.out.alu(">>", 0, 8 * end - at - bits)
            self._constant(1, (1 << bits) - 1)
            self.out.alu_register("&", 0, 1)

    def _assign(self, target: Reg) -> None:
        """Register 0, cut to the width of the target."""
        if target.bits < 64:
            self._constant(1, (1 << target.bits) - 1)
            self.out.alu_register("&", 0, 1)
        self._put(self.places[target.name])

    def _assign_bytes(self, target: Reg, value: Expr) -> None:
        first, end, taken = self._bytes(value)
        self._get(first, 0)
        self._get(end, 1)
        self._put(self.places[target.name])
        self.out.store(FP, self.places[f"{target.name} end"], 1, 8)
        self.temporary -= taken

    def _terminator(self, layer: str, last: ir.Terminator) -> None:
        out = self.out
        match last:
            case ir.Goto(to):
                out.goto(f"{layer}:{to}")
            case ir.Branch(condition, yes, no):
                self._number(condition)
                out.jump("!=", 0, 0, f"{layer}:{yes}")
                out.goto(f"{layer}:{no}")
            case ir.Check(mark, size, yes, _, short) | ir.CheckWire(mark, size, yes, short):  # all bytes are there
                self._number(size)
                place = self._temporary()
                self._put(place)
                self._number(Length(self._whole))
                self._get(self.places[mark.name], 1)
                self._get(place, 2)
                self.temporary -= 8
                out.jump_register(">", 1, 0, f"{layer}:{short}")
                out.alu_register("-", 0, 1)
                out.jump_register("<=", 2, 0, f"{layer}:{yes}")
                out.goto(f"{layer}:{short}")
            case ir.Dispatch(key, reverse):
                self._dispatch(layer, key, reverse)
            case ir.NextDispatch(name, sdu):
                if (layer, name) in self.returning:
                    raise UndecidedError
                first, end, taken = self._bytes(sdu)
                for place, to in zip((first, end), self.units, strict=True):
                    self._get(place, 0)
                    self._put(to)
                self.temporary -= taken
                out.goto(f"{name}:")
            case _:
                out.goto("none")

    # --- the hash ---

    def _dispatch(self, layer: str, key: tuple[Expr, ...], reverse: tuple[Expr, ...]) -> None:
        self._constant(0, 0)
        self._put(self.sum)
        for half in (key, reverse):
            if not half:
                continue
            self.out.store(FP, self.hash, 8, 8)
            for part in half:
                if is_bytes(part):
                    self._hash_bytes(layer, part)
                else:
                    self._number(part)
                    self._hash_number()
            self._get(self.sum, 0)
            self._get(self.hash, 1)
            self.out.alu_register("+", 0, 1)
            self._put(self.sum)
        self.out.goto("end")

    def _hash_bytes(self, layer: str, part: Expr) -> None:
        size = self.sizes.get(named(layer, part)) if isinstance(part, Reg) else None
        if size is None:
            raise UndecidedError
        first, end, _ = self._bytes(part)
        unset = self.out.new_label()
        self._get(first, 0)
        self._get(end, 1)
        self.out.jump_register("==", 0, 1, unset)
        for at in range(0, size, _WORDS):
            self._get(first, 0)
            self.out.alu("+", 0, at)
            self._load(min(_WORDS, size - at))
            self._hash_number()
        self.out.label(unset)

    def _hash_number(self) -> None:
        """sl_dispatch_number of register 0."""
        self.out.alu_register("^", 0, 8)
        self._get(self.hash, 1)
        self.out.set(2, _HALF)
        self.out.alu_register("^", 1, 2)
        self._fold()
        self._put(self.hash)

    def _fold(self) -> None:
        """sl_fold of registers 0 and 1, to register 0: both halves of a product of 128 bits, made from four of 64."""
        out = self.out

        def low(register: int) -> None:
            out.alu("<<", register, 32)
            out.alu(">>", register, 32)

        for low_half, high_half, of in ((2, 3, 0), (4, 5, 1)):
            out.alu_register(MOVE, low_half, of)
            low(low_half)
            out.alu_register(MOVE, high_half, of)
            out.alu(">>", high_half, 32)
        out.alu_register("*", 0, 1)
        out.alu_register(MOVE, 1, 2)
        out.alu_register("*", 1, 4)
        out.alu(">>", 1, 32)  # the carry out of the low half, which the middle products are added to
        out.alu_register("*", 2, 5)
        out.alu_register("*", 4, 3)
        out.alu_register("*", 3, 5)
        for middle in (2, 4):
            out.alu_register(MOVE, 5, middle)
            low(5)
            out.alu_register("+", 1, 5)
            out.alu(">>", middle, 32)
            out.alu_register("+", 3, middle)
        out.alu(">>", 1, 32)
        out.alu_register("+", 3, 1)
        out.alu_register("^", 0, 3)


def _is_little_endian() -> bool:
    return sys.byteorder == "little"
