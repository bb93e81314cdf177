"""The choice of a packet's worker as a program for the kernel: PACKET_FANOUT_EBPF (packet(7)).

It runs the dispatch graphs on the kernel's packet and computes the hash of core/dispatch.h, so it returns what NAME_worker
returns for the frame that the packet becomes. This suffices where all keys of a packet are those of the hash. In stacks
with path graphs (passes/path_keys.py), a packet may have others, which only the thread that receives all packets can learn.

What has no bound that the verifier of the kernel finds is not decided: loops, as over the options of an IPv4 header, and
layers that come again, as a second VLAN tag. Such packets go to worker UNDECIDED, which hands them over.

Registers of the graphs are on the stack of the program: numbers in one place, bytes in two, where they begin and end in
the frame. Register 6 is the context, 7 what is added to an offset in the frame for the one in the packet, 8 the secret.

The packet begins with the network header if it was received, and with the link header if the host sends it. The kernel
has taken off a VLAN tag, which the receiver of frames restores. So the first bytes of the frame are copied, with the tag.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from sluice.codegen.bpf.assembler import FP, IMMEDIATE_MOST, MOVE, Assembler, ReachError, patched
from sluice.ir import instruction as ir
from sluice.ir.expression import COMPARISONS, Binary, Const, Expr, Flip, Length, Reg, Slice, is_bytes
from sluice.ir.graph import Graph, Program
from sluice.passes.analysis.blocks import loops

ETHERNET = 1
"""The link type that the program is for."""
_HEADER = 14
_TAG = 4
_HEAD = 32
"""Bytes of the frame that are copied, at most; as many are at the end of the stack."""
_AFTER = 8
"""Bytes after the link header that are copied with it, for numbers that are in both."""
_HEAD_MOST = _HEADER + _TAG
"""Numbers that begin before this offset are read from the copy."""
_STACK = 512
UNDECIDED = 0
"""The worker of packets that the program does not decide. It hands them over."""
_OUTGOING = 4
"""PACKET_OUTGOING."""
_LENGTH, _KIND, _TAGGED, _TAG_VALUE, _TAG_TYPE = 0, 4, 20, 24, 28
"""Offsets of len, pkt_type, vlan_present, vlan_tci, vlan_proto in struct __sk_buff."""
_LOAD_BYTES, _LOAD_BYTES_RELATIVE, _FROM_MAC = 26, 68, 0
_HALF, _WORKER = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""Constants of core/dispatch.h."""
_WORDS = 8
"""Bytes of a key that are hashed together."""


class UnsuitableError(Exception):
    """The dispatch of a stack cannot be a program of the kernel. The text is the reason."""


class _UndecidedError(Exception):
    """A program of the kernel cannot decide from here on."""


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
    if any(layer.path is not None for layer in program.layers.values()):
        raise UnsuitableError("a packet may have keys of several workers, as of a tunnel and of what is in it")
    graphs = {name: layer.dispatch for name, layer in program.layers.items() if layer.dispatch is not None}
    roots = dict(program.roots)
    first = roots.get(ETHERNET, roots.get(None))
    if first not in graphs:
        raise UnsuitableError("no key of a packet selects its worker")
    if _longest(graphs, first) > program.depth:
        raise UnsuitableError("packets with fewer layers than it has are refused")
    try:
        return _Writer(program, graphs, first).write()
    except ReachError:
        raise UnsuitableError("the program for the kernel is too long") from None


class _Writer:
    def __init__(self, program: Program, graphs: dict[str, Graph], first: str) -> None:
        self.graphs = graphs
        self.first = first
        self.out = Assembler()
        self.places: dict[str, int] = {}
        """Of registers of the current layer, and of slots: the offset in the stack."""
        self.used = _HEAD
        self.temporary = 0
        """Bytes of the stack after `used` that are in use."""
        self.near = False
        """Whether the current layer may begin within the copied bytes: that of the link, and one of a VLAN tag."""
        self.after_first = {i.layer for i in graphs[first].instructions() if isinstance(i, ir.NextDispatch)}
        cyclic = _cyclic(graphs)
        self.returning = {(name, other) for name in cyclic for other in _above(graphs[name]) & cyclic}
        """From which layers to which others packets may come twice."""
        self.loops: dict[str, frozenset[str]] = {}
        """Of the current layer."""
        self.sizes = _sizes_of_bytes(graphs)
        self.units = self._room(), self._room()
        """Where the unit of the current layer begins and ends."""
        self.hash, self.sum = self._room(), self._room()
        self._slots()

    def _slots(self) -> None:
        for graph in self.graphs.values():
            for reg in _registers(graph):
                if reg.space == "slot":
                    self._allocate(reg)
        self.shared, self.shared_used = dict(self.places), self.used

    def _room(self) -> int:
        self.used += 8
        if self.used > _STACK:
            raise UnsuitableError("its layers have too many fields for a program of the kernel")
        return -self.used

    def _allocate(self, reg: Reg) -> None:
        for name in (reg.name, f"{reg.name} end") if reg.is_bytes else (reg.name,):
            if name not in self.places:
                self.places[name] = self._room()

    def write(self) -> Fanout:
        secret = self._begin()
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

    # --- the frame ---

    def _begin(self) -> int:
        """Copy the first bytes of the frame, and enter the first layer. Returns the place of the secret."""
        out = self.out
        out.alu_register(MOVE, 6, 1)
        secret = out.set(8, 0)
        self._constant(0, 0)
        for offset in range(-_HEAD, 0, 8):
            self._put(offset)
        for name, place in self.shared.items():
            if name.startswith("slot."):
                self._put(place)
        self._copy(_LOAD_BYTES_RELATIVE, 0, -_HEAD, _HEADER, _FROM_MAC)
        out.jump("!=", 0, 0, "none")
        received, tagged, copied = (out.new_label() for _ in range(3))
        out.set(7, -_HEADER & (1 << 64) - 1)
        out.load(0, 6, _KIND, 4)
        out.jump("!=", 0, _OUTGOING, received)
        self._constant(7, 0)
        out.label(received)
        out.load(0, 6, _TAGGED, 4)
        out.jump("!=", 0, 0, tagged)
        self._copy_after(_HEADER)
        out.goto(copied)
        out.label(tagged)
        out.load(0, FP, -_HEAD + _HEADER - 2, 2)
        out.store(FP, -_HEAD + _HEADER + _TAG - 2, 0, 2)
        out.load(0, 6, _TAG_TYPE, 4)
        out.store(FP, -_HEAD + _HEADER - 2, 0, 2)
        out.load(0, 6, _TAG_VALUE, 4)
        out.swap(0, 16)
        out.store(FP, -_HEAD + _HEADER, 0, 2)
        out.alu("-", 7, _TAG)
        self._copy_after(_HEADER + _TAG)
        out.label(copied)
        self._constant(0, 0)
        self._put(self.units[0])
        out.load(0, 6, _LENGTH, 4)
        out.alu_register("-", 0, 7)
        self._put(self.units[1])
        out.goto(f"{self.first}:")
        return secret

    def _copy(self, helper: int, at: int | None, to: int, size: int, last: int | None = None) -> None:
        """Call a helper that copies bytes of the packet. at: None: register 2 has it."""
        out = self.out
        out.alu_register(MOVE, 1, 6)
        if at is not None:
            self._constant(2, at)
        out.alu_register(MOVE, 3, FP)
        out.alu("+", 3, to)
        self._constant(4, size)
        if last is not None:
            self._constant(5, last)
        out.call(helper)

    def _copy_after(self, header: int) -> None:
        """Bytes after the link header; 0 if the packet has fewer."""
        self._constant(2, header)
        self.out.alu_register("+", 2, 7)
        self._copy(_LOAD_BYTES, None, -_HEAD + header, _AFTER)

    def _load(self, size: int) -> None:
        """The number of `size` bytes (1 to 8) in the frame at the offset in register 0, to register 0."""
        pieces: list[int] = []
        while sum(pieces) < size:
            pieces.append(max(piece for piece in (4, 2, 1) if sum(pieces) + piece <= size))
        at, value = self._temporary(), self._temporary()
        self._put(at)
        done = 0
        for piece in pieces:
            self._get(at, 0)
            self.out.alu("+", 0, done)
            self._load_piece(piece)
            if done:
                self._get(value, 1)
                self.out.alu("<<", 1, 8 * piece)
                self.out.alu_register("|", 0, 1)
            self._put(value)
            done += piece
        self.temporary -= 16

    def _load_piece(self, size: int) -> None:
        out, head, done = self.out, self.out.new_label(), self.out.new_label()
        if self.near:
            out.jump("<", 0, _HEAD_MOST, head)
        out.alu_register("+", 0, 7)
        out.load_packet(0, size)
        if not self.near:
            return
        out.goto(done)
        out.label(head)
        out.alu_register(MOVE, 3, FP)
        out.alu("+", 3, -_HEAD)
        out.alu_register("+", 3, 0)
        out.load(0, 3, 0, 1)
        for place in range(1, size):
            out.alu("<<", 0, 8)
            out.load(1, 3, place, 1)
            out.alu_register("|", 0, 1)
        out.label(done)

    # --- places ---

    def _put(self, place: int) -> None:
        self.out.store(FP, place, 0, 8)

    def _get(self, place: int, to: int) -> None:
        self.out.load(to, FP, place, 8)

    def _constant(self, to: int, value: int) -> None:
        if value <= IMMEDIATE_MOST:
            self.out.alu(MOVE, to, value)
        else:
            self.out.set(to, value)

    def _temporary(self) -> int:
        self.temporary += 8
        if self.used + self.temporary > _STACK:
            raise UnsuitableError("its expressions are too long for a program of the kernel")
        return -self.used - self.temporary

    # --- expressions ---

    def _number(self, expression: Expr) -> None:
        """Its value to register 0."""
        out = self.out
        match expression:
            case Const(value):
                self._constant(0, value)
            case Reg(name):
                self._get(self.places[name], 0)
            case Flip(operand, bits):
                self._number(operand)
                self._constant(1, (1 << bits) - 1)
                out.alu_register("&", 0, 1)
                out.alu_register("^", 0, 1)
            case Length(base):
                first, end, taken = self._bytes(base)
                self._get(end, 0)
                self._get(first, 1)
                out.alu_register("-", 0, 1)
                self.temporary -= taken
            case Binary(operator, left, right, 0):
                self._number(left)
                place = self._temporary()
                self._put(place)
                self._number(right)
                out.alu_register(MOVE, 1, 0)
                self._get(place, 0)
                self.temporary -= 8
                self._operate(operator)
            case _:
                raise _UndecidedError

    def _operate(self, operator: str) -> None:
        """`register 0 operator register 1`, as ir.expression.calculate has it, to register 0."""
        out, end = self.out, self.out.new_label()
        if operator in COMPARISONS:
            yes = out.new_label()
            out.jump_register(operator, 0, 1, yes)
            self._constant(0, 0)
            out.goto(end)
            out.label(yes)
            self._constant(0, 1)
        elif operator in ("<<", ">>", "%"):  # what the processor does not do: numbers without a result
            defined = out.new_label()
            out.jump("!=" if operator == "%" else "<", 1, 0 if operator == "%" else 64, defined)
            self._constant(0, 0)
            out.goto(end)
            out.label(defined)
            out.alu_register(operator, 0, 1)
        else:
            out.alu_register(operator, 0, 1)
        out.label(end)

    def _bytes(self, expression: Expr) -> tuple[int, int, int]:
        """Where it begins and ends: two places; and how many temporary bytes they take."""
        match expression:
            case Reg(name):
                return self.places[name], self.places[f"{name} end"], 0
            case Slice(base, low, high):
                places = self._temporary(), self._temporary()
                first, end, taken = self._bytes(base)
                self._limited(high, end, first)
                self._put(places[1])
                self._limited(low, places[1], first)
                self._put(places[0])
                self.temporary -= taken
                return *places, 16
            case _:
                raise _UndecidedError

    def _limited(self, offset: Expr, most: int, first: int) -> None:
        """The place `first` + an offset, but at most `most`, to register 0."""
        within, end = self.out.new_label(), self.out.new_label()
        self._number(offset)
        self._get(most, 1)
        self._get(first, 2)
        self.out.alu_register("-", 1, 2)
        self.out.jump_register("<=", 0, 1, within)
        self.out.alu_register(MOVE, 0, 1)
        self.out.label(within)
        self.out.alu_register("+", 0, 2)
        self.out.label(end)

    # --- graphs ---

    def _layer(self, name: str, graph: Graph) -> None:
        self.places, self.used = dict(self.shared), self.shared_used
        for reg in _registers(graph):
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
            except _UndecidedError:
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
                raise _UndecidedError

    @property
    def _whole(self) -> Reg:
        return Reg("local.unit", 0)

    def _load_number(self, mark: Reg, at: int, bits: int, order: str) -> None:
        first, end = at // 8, (at + bits + 7) // 8
        whole = at % 8 == 0 and bits % 8 == 0
        if end - first > 8 or (order != "big" and not (whole and bits in (8, 16, 32, 64))):
            raise _UndecidedError
        self._number(mark)
        self.out.alu("+", 0, first)
        self._get(self.unit[0], 1)
        self.out.alu_register("+", 0, 1)
        self._load(end - first)
        if order != "big" and bits > 8:
            if not _is_little_endian():
                raise _UndecidedError
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
                    raise _UndecidedError
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
        size = self.sizes.get(_named(layer, part)) if isinstance(part, Reg) else None
        if size is None:
            raise _UndecidedError
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


def _longest(graphs: dict[str, Graph], name: str, path: tuple[str, ...] = ()) -> int:
    """The number of layers on the longest path from one on that enters none twice."""
    if name in path:
        return 0
    return 1 + max((_longest(graphs, other, (*path, name)) for other in _above(graphs[name])), default=0)


def _above(graph: Graph) -> set[str]:
    return {i.layer for i in graph.instructions() if isinstance(i, ir.NextDispatch)}


def _cyclic(graphs: dict[str, Graph]) -> set[str]:
    """The layers that a packet may enter twice."""
    found: set[str] = set()
    for name in graphs:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            more = _above(graphs[waiting.pop()]) - seen
            seen |= more
            waiting += more
        found |= {name} & seen
    return found


def _registers(graph: Graph) -> list[Reg]:
    """The registers of a graph, in the order of their first use."""
    found: dict[str, Reg] = {reg.name: reg for reg in graph.parameters}
    for i in graph.instructions():
        for reg in (*i.read_registers(), *i.written()):
            found.setdefault(reg.name, reg)
    return list(found.values())


def _sizes_of_bytes(graphs: dict[str, Graph]) -> dict[str, int]:
    """By register with bytes (of a layer, with its name), their number, where all that sets it agrees. A slot that no layer
    has set has none.
    """
    found: dict[str, set[int | str | None]] = {}
    for layer, graph in graphs.items():
        for i in graph.instructions():
            for reg in i.written():
                if reg.is_bytes:
                    found.setdefault(_named(layer, reg), set()).add(_size_set(layer, i))
    sizes: dict[str, int] = {}
    while more := {
        name: size
        for name, given in found.items()
        if name not in sizes
        for size, *others in ([*{sizes.get(one) if isinstance(one, str) else one for one in given}],)
        if size is not None and not others
    }:
        sizes |= more
    return sizes


def _named(layer: str, reg: Reg) -> str:
    return reg.name if reg.space == "slot" else f"{layer} {reg.name}"


def _size_set(layer: str, i: ir.Instruction) -> int | str | None:
    """The number of bytes that a register gets, or the register whose number it is."""
    match i:
        case ir.LoadBytes(size=Const(value)):
            return value
        case ir.Assign(value=Reg() as other):
            return _named(layer, other)
        case _:
            return None
