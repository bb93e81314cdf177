"""The frame that a packet becomes, as a program of the kernel reads it.

The packet begins with the network header if it was received, and with the link header if the host sends it. The kernel
has taken off a VLAN tag, which the receiver of frames restores. So the first bytes of the frame are copied, with the tag.
"""

from __future__ import annotations

from sluice.codegen.bpf.assembler import FP, MOVE
from sluice.codegen.bpf.places import Places

_HEADER = 14
_TAG = 4
_HEAD = 32
"""Bytes of the frame that are copied, at most; as many are at the end of the stack."""
_AFTER = 8
"""Bytes after the link header that are copied with it, for numbers that are in both."""
_HEAD_MOST = _HEADER + _TAG
"""Numbers that begin before this offset are read from the copy."""
_OUTGOING = 4
"""PACKET_OUTGOING."""
_LENGTH, _KIND, _TAGGED, _TAG_VALUE, _TAG_TYPE = 0, 4, 20, 24, 28
"""Offsets of len, pkt_type, vlan_present, vlan_tci, vlan_proto in struct __sk_buff."""
_LOAD_BYTES, _LOAD_BYTES_RELATIVE, _FROM_MAC = 26, 68, 0


class FrameReader(Places):
    """Reads numbers of the frame, at offsets in it."""

    def __init__(self) -> None:
        super().__init__(_HEAD)
        self.near = False
        """Whether the current layer may begin within the copied bytes: that of the link, and one of a VLAN tag."""
        self.units = self._room(), self._room()
        """Where the unit of the current layer begins and ends."""

    def _begin(self, first: str) -> int:
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
        out.goto(f"{first}:")
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
