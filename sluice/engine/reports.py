"""What a box counted and functions reported: the structs of runtime/driver/embed.h, for Python."""

from __future__ import annotations

import ctypes

REPORTS_MOST = 256
"""SL_REPORTS_MOST."""


class CounterInfo(ctypes.Structure):
    """struct sl_counter_info."""

    _fields_ = (("layer", ctypes.c_char_p), ("name", ctypes.c_char_p))


class Busy(ctypes.Structure):
    """struct sl_busy: the time that a thread spends with packets, in nanoseconds."""

    _fields_ = (("packets", ctypes.c_uint64), ("nanoseconds", ctypes.c_uint64), ("longest", ctypes.c_uint64))


class Report(ctypes.Structure):
    """struct sl_report: a number of a function's own."""

    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_uint64), ("function", ctypes.c_char_p))

    @property
    def full_name(self) -> str:
        """Its name, after that of its function in a chain."""
        name = self.name.decode()
        return f"{self.function.decode()}.{name}" if self.function else name


class Refused(ctypes.Structure):
    """struct sl_refused: a link type with which the stack does not begin, and how many packets of it came."""

    _fields_ = (("link_type", ctypes.c_uint32), ("packets", ctypes.c_uint64))
