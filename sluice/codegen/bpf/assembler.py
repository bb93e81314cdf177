"""Instructions of eBPF (Documentation/bpf/standardization/instruction-set.rst of the kernel), with labels."""

from __future__ import annotations

import struct

FP = 10
"""The register of the frame, at the end of the stack."""
MOVE = "="
_ALU = {"+": 0, "-": 1, "*": 2, "/": 3, "|": 4, "&": 5, "<<": 6, ">>": 7, "%": 9, "^": 0xA, MOVE: 0xB}
_JUMP = {"==": 1, ">": 2, ">=": 3, "!=": 5, "<": 0xA, "<=": 0xB}
_SIZE = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
_LOAD_IMMEDIATE, _SWAP, _GOTO, _CALL, _EXIT = 0x18, 0xDC, 0x05, 0x85, 0x95
_ALU64, _JUMP64, _REGISTER, _LOAD, _STORE, _INDIRECT = 0x07, 0x05, 0x08, 0x61, 0x63, 0x40
IMMEDIATE_MOST = 0x7FFFFFFF
"""Larger ones are extended by their sign."""


class ReachError(Exception):
    """A jump goes too far: the program is too long."""


class Assembler:
    """A program that grows. Registers are numbers from 0 to 10."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []
        """Operation, both registers, offset, immediate value."""
        self._jumps: dict[int, str] = {}
        self._labels: dict[str, int] = {}
        self._made = 0

    def _add(self, operation: int, to: int = 0, other: int = 0, offset: int = 0, value: int = 0) -> None:
        self._code.append((operation, to | other << 4, offset, value))

    def new_label(self) -> str:
        """A label that no other one is equal to."""
        self._made += 1
        return f".{self._made}"

    def label(self, name: str) -> None:
        """The next instruction is where jumps to `name` lead."""
        self._labels[name] = len(self._code)

    def alu(self, operator: str, to: int, value: int) -> None:
        """`to = to operator value`, of 64 bits; `value` has at most 31 and a sign. MOVE: `to = value`."""
        self._add(_ALU64 | _ALU[operator] << 4, to, value=value)

    def alu_register(self, operator: str, to: int, other: int) -> None:
        """The same with the value of a register."""
        self._add(_ALU64 | _ALU[operator] << 4 | _REGISTER, to, other)

    def set(self, to: int, value: int) -> int:
        """`to = value`, of any 64 bits. Returns the place of the instruction, which `patched` may give another value."""
        place = len(self._code)
        self._add(_LOAD_IMMEDIATE, to, value=value & 0xFFFFFFFF)
        self._add(0, value=value >> 32)
        return place

    def swap(self, to: int, bits: int) -> None:
        """The low `bits` of a register (16, 32, 64) in the other order of bytes; the others become 0."""
        self._add(_SWAP, to, value=bits)

    def load(self, to: int, base: int, offset: int, size: int) -> None:
        """`size` bytes of memory, in the order of the machine."""
        self._add(_LOAD | _SIZE[size], to, base, offset)

    def store(self, base: int, offset: int, value: int, size: int) -> None:
        """The low `size` bytes of register `value` to memory."""
        self._add(_STORE | _SIZE[size], base, value, offset)

    def load_packet(self, at: int, size: int) -> None:
        """`size` bytes (1, 2 or 4) of the packet, the first one the most significant, at the offset that register `at` has, to
        register 0. Register 6 has the context. Registers 1 to 5 are lost. Beyond the packet, the program returns 0.
        """
        self._add(_SIZE[size] | _INDIRECT, other=at)

    def jump(self, operator: str, left: int, right: int, to: str) -> None:
        """To a label if `left operator right`, a number."""
        self._jumps[len(self._code)] = to
        self._add(_JUMP64 | _JUMP[operator] << 4, left, value=right)

    def jump_register(self, operator: str, left: int, right: int, to: str) -> None:
        """The same of two registers."""
        self._jumps[len(self._code)] = to
        self._add(_JUMP64 | _JUMP[operator] << 4 | _REGISTER, left, right)

    def goto(self, to: str) -> None:
        """To a label."""
        self._jumps[len(self._code)] = to
        self._add(_GOTO)

    def call(self, helper: int) -> None:
        """A function of the kernel, by its number."""
        self._add(_CALL, value=helper)

    def exit(self) -> None:
        """Return register 0."""
        self._add(_EXIT)

    def finish(self) -> tuple[bytes, dict[int, int]]:
        """The program, in the order of this machine, without instructions that are never reached: the verifier of the kernel
        rejects them. Also the new places of the others. Raises ReachError.
        """
        places = {old: new for new, old in enumerate(sorted(self._reached()))}
        out = bytearray()
        for place in places:
            operation, registers, offset, value = self._code[place]
            if (to := self._jumps.get(place)) is not None:
                offset = places[self._labels[to]] - places[place] - 1
                if not -0x8000 <= offset <= 0x7FFF:
                    raise ReachError
            out += struct.pack("=BBhI", operation, registers, offset, value & 0xFFFFFFFF)
        return bytes(out), places

    def _reached(self) -> set[int]:
        reached: set[int] = set()
        waiting = [0]
        while waiting:
            place = waiting.pop()
            while place not in reached:
                reached.add(place)
                operation = self._code[place][0]
                if (to := self._jumps.get(place)) is not None:
                    waiting.append(self._labels[to])
                if operation in (_GOTO, _EXIT):
                    break
                place += 1
        return reached


def patched(program: bytes, place: int, value: int) -> bytes:
    """The program with another value of an instruction that `Assembler.set` has made."""
    out = bytearray(program)
    struct.pack_into("=I", out, 8 * place + 4, value & 0xFFFFFFFF)
    struct.pack_into("=I", out, 8 * place + 12, value >> 32)
    return bytes(out)
