"""Writes capture files and reads their packets; provides memory for a packet that ends where the packet ends."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from sluice.engine.box import Box
from sluice.engine.inputs import MESSAGE_SIZE, Frame


class Packet(NamedTuple):
    """A packet: the captured bytes, its length on the wire, time in ns, link type."""

    data: bytes
    length: int
    time: int = 0
    link_type: int = 1

    def cut(self, size: int, wire: bool) -> Packet:
        """The packet's first `size` bytes: truncated by the snap length or, with `wire`, already on the wire."""
        return self._replace(data=self.data[:size], length=size if wire else self.length)


def pcap(packets: Sequence[bytes], times: Iterable[float] | None = None, link_type: int = 1) -> bytes:
    """A capture file of whole packets, one second apart unless times are given."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, link_type)]
    for data, time in zip(packets, range(1000, 1000 + len(packets)) if times is None else times, strict=True):
        out += [struct.pack("<IIII", int(time), int(time % 1 * 1e6), len(data), len(data)), data]
    return b"".join(out)


def pcap_packets(path: Path) -> list[bytes]:
    """The packets of such a file, in little endian."""
    data, at, found = path.read_bytes(), 24, list[bytes]()
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        found.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return found


class _Frame(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), *Frame._fields_[1:])


def read_packets(library: Path, path: Path) -> list[Packet]:
    """All packets up to the end or a fault, read by the reader in a compiled stack's library."""
    c = ctypes.CDLL(str(library))
    capture, frame = ctypes.c_void_p(), _Frame()
    message = ctypes.create_string_buffer(MESSAGE_SIZE)
    if c.sl_capture_open(ctypes.byref(capture), os.fsencode(path), message, ctypes.c_size_t(MESSAGE_SIZE)):
        return []
    found: list[Packet] = []
    while c.sl_capture_next(capture, ctypes.byref(frame)) == 1:
        data = ctypes.string_at(frame.at, frame.captured) if frame.captured else b""
        found.append(Packet(data, frame.length, frame.time, frame.link_type))
    c.sl_capture_close(capture)
    return found


class Edge:
    """Feeds a box with packets that end where a page without access begins: a read after the end is fatal.

    Each packet overwrites the previous one, so a box that retains a pointer reads other bytes.
    """

    SIZE = 1 << 20

    def __init__(self, box: Box) -> None:
        self.box = box
        self.number = 0
        self._process = ctypes.CDLL(str(box.stack.compiled.path))[f"{box.stack.generated.name}_process"]
        self._process.restype = None
        self._process.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        self._map = mmap.mmap(-1, self.SIZE + mmap.PAGESIZE)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self._start + self.SIZE), ctypes.c_size_t(mmap.PAGESIZE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def packet(self, packet: Packet) -> None:
        """Process one packet."""
        self.number += 1
        size = len(packet.data)
        self._map[self.SIZE - size : self.SIZE] = packet.data
        at = self._start + self.SIZE - size
        frame = _Frame(at, size, packet.length, packet.time, packet.link_type, number=self.number)
        self._process(self.box._box, ctypes.byref(frame), 1, None)  # pyright: ignore[reportPrivateUsage]
