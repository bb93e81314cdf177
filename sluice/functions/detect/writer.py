"""Writes the numbers and texts of a table that a function reads."""

import struct


class Writer:
    """Numbers of 32 bits, little-endian, and bytes with their length in front."""

    def __init__(self) -> None:
        self.out = bytearray()

    def number(self, *values: int) -> None:
        """Append numbers, modulo 2^32."""
        for value in values:
            self.out += struct.pack("<I", value & 0xFFFFFFFF)

    def long(self, *values: int) -> None:
        """Append numbers of 64 bits, the lower half first."""
        for value in values:
            self.number(value, value >> 32)

    def blob(self, data: bytes) -> None:
        """Append bytes and their length."""
        self.number(len(data))
        self.out += data
