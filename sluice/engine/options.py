"""The bounds and options of a box, and their form in C (struct sl_options)."""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.codegen.events.control import DECIDING_MOST
from sluice.engine.functions import Options

DELIVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
"""What receives batches of events for functions in Python: user, address, size."""
HOLD = 1 << 24
"""The default of Settings.hold, in bytes."""
WORK = 2048
"""The default of Settings.work: SL_WORK."""
BUNDLE = 128
"""The default of Settings.bundle: SL_BUNDLE."""
BUNDLE_MEAN = 10
"""The default of Settings.bundle_mean: SL_BUNDLE_MEAN."""
DERIVATIONS = 5
"""The default of Settings.derivations: SL_DERIVATIONS."""
DEPTH_LEAST = 16
"""The smallest value of Settings.depth but 0."""
VERSION = 1
"""SL_OPTIONS_VERSION."""
HELD_BYTES, HELD_SECONDS = 1 << 24, 0.2
"""The defaults of Settings.held_bytes and held_seconds."""


class COptions(ctypes.Structure):
    """struct sl_options."""

    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("memory", ctypes.c_uint64),
        ("max_instances", ctypes.c_uint32),
        ("timeouts", ctypes.c_bool),
        ("idle", ctypes.c_double),
        ("lifetime", ctypes.c_double),
        ("function_options", ctypes.POINTER(ctypes.c_char_p)),
        ("deliver", DELIVER),
        ("user", ctypes.c_void_p),
        ("native_options", ctypes.POINTER(ctypes.c_char_p)),
        ("prefault", ctypes.c_bool),
        ("forwards", ctypes.c_bool),
        ("size", ctypes.c_uint16),
        ("version", ctypes.c_uint16),
        ("function_values", ctypes.POINTER(ctypes.POINTER(ctypes.c_char_p))),
        ("store", ctypes.c_void_p),
        ("state_file", ctypes.c_char_p),
        ("hold", ctypes.c_uint64),
        ("group", ctypes.c_void_p),
        ("worker", ctypes.c_uint32),
        ("held_bytes", ctypes.c_uint64),
        ("held_nanoseconds", ctypes.c_uint64),
        ("held_open", ctypes.c_bool),
        ("message", ctypes.c_void_p),
        ("message_size", ctypes.c_size_t),
        ("work", ctypes.c_uint32),
        ("fault_open", ctypes.c_uint64),
        ("fault_closed", ctypes.c_uint64),
        ("overload_open", ctypes.c_uint64),
        ("depth", ctypes.c_uint32),
        ("records", ctypes.c_uint32),
        ("bundle", ctypes.c_uint32),
        ("bundle_mean", ctypes.c_uint32),
        ("derivations", ctypes.c_uint32),
    )


@dataclass
class Settings:
    """Bounds and options of a box.

    memory: bytes that all sequences together may hold. max_instances: the limit of each table. timeouts: whether
    timeouts are enabled. idle: seconds that replace each layer's general timeout. lifetime: seconds that replace each
    lifetime. seed: of the hashes and of sl_random, random if None. natives: option values for native modules, by option
    name. prefault: whether opening the box touches all memory that these bounds allow, so that processing a packet
    causes no page fault. store: the address of a struct sl_store that holds shared objects of functions; None: they are
    local. state_file: the file to which local ones are written at the end; None: none. hold: bytes that one side of a
    connection may hold out of order, if its sequence has no limit. held_bytes, held_seconds: bounds of the packets that
    functions hold until they have decided. held_open: beyond them packets pass. work: messages that are cut from one
    packet at most; bundle: those that each cost as much as a packet. bundle_mean: the same on average. derivations: of
    keys for QUIC, for 64 packets on average at most. depth: layers that one packet passes at most, from 16 to 255;
    records: layers that it passes besides if they are records; 0: as many as the stack says. on_fault, on_overload: by
    function in C, `open` or `closed`: what happens to packets once it failed, and `open` where packets pass without it
    while they come faster than the box processes them.
    """

    memory: int = 1 << 30
    max_instances: int = 1 << 22
    timeouts: bool = True
    idle: float | None = None
    seed: int | None = None
    natives: dict[str, str] = field(default_factory=lambda: {})
    prefault: bool = False
    lifetime: float | None = None
    store: int | None = None
    state_file: str | None = None
    hold: int = HOLD
    held_bytes: int = HELD_BYTES
    held_seconds: float = HELD_SECONDS
    held_open: bool = False
    work: int = WORK
    bundle: int = BUNDLE
    bundle_mean: int = BUNDLE_MEAN
    derivations: int = DERIVATIONS
    depth: int = 0
    records: int = 0
    on_fault: Mapping[str, str] = field(default_factory=lambda: {})
    on_overload: Mapping[str, str] = field(default_factory=lambda: {})

    def mask(self, functions: Sequence[str], given: Mapping[str, str], policy: str) -> int:
        """The bits of the functions in C, in the order of the box, that have a policy.

        One after the first DECIDING_MOST has no bit (SL_FUNCTION_BIT): the box does not go on without it.
        """
        deciding = enumerate(functions[:DECIDING_MOST])
        return sum(1 << number for number, name in deciding if given.get(name) == policy)


def seed_of(settings: Settings) -> int:
    """The seed of a box: that of the settings, or a random one."""
    return secrets.randbits(64) if settings.seed is None else settings.seed


def c_options(
    settings: Settings, functions: Sequence[Options], count: int, natives: list[str], deliver: Any = None
) -> COptions:
    """Convert the settings to struct sl_options.

    functions: option texts, or parameter values by name, for the first functions of the `count` functions in C.
    natives: the names of the options that native modules accept. deliver: a DELIVER callback that receives batches of
    events for functions in Python.
    """
    texts = _texts([given if isinstance(given, str) else "" for given in functions] + [""] * count)
    pairs = [[] if isinstance(given, str) else _pairs(given) for given in functions]
    values = (ctypes.POINTER(ctypes.c_char_p) * (count + 1))(*map(_values, pairs[:count]))
    return COptions(
        seed_of(settings),
        settings.memory,
        settings.max_instances,
        settings.timeouts,
        settings.idle or 0.0,
        settings.lifetime or 0.0,
        texts,
        deliver or DELIVER(),
        None,
        _texts([settings.natives.get(option, "") for option in natives]),
        settings.prefault,
        False,
        ctypes.sizeof(COptions),
        VERSION,
        ctypes.cast(values, ctypes.POINTER(ctypes.POINTER(ctypes.c_char_p))),
        settings.store,
        os.fsencode(settings.state_file) if settings.state_file else None,
        settings.hold,
        held_bytes=settings.held_bytes,
        held_nanoseconds=max(1, round(settings.held_seconds * 1e9)),
        held_open=settings.held_open,
        work=settings.work,
        depth=settings.depth,
        records=settings.records,
        bundle=settings.bundle,
        bundle_mean=settings.bundle_mean,
        derivations=settings.derivations,
    )


def _texts(texts: list[str]) -> Any:
    """A char *[] for C. An empty string is appended, because a ctypes array cannot have length 0."""
    array = (ctypes.c_char_p * (len(texts) + 1))(*map(os.fsencode, texts), b"")
    return ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p))


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [text for pair in values.items() for text in pair]


def _values(pairs: list[str]) -> Any:
    """A NULL-terminated char *[] of alternating names and values; NULL if there are none."""
    if not pairs:
        return None
    array = (ctypes.c_char_p * (len(pairs) + 1))(*map(os.fsencode, pairs), None)
    return ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p))
