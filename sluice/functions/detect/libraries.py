"""The libraries that match: Hyperscan or Vectorscan, which compiles databases, and PCRE2, which checks expressions."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from functools import cache
from typing import Any

from sluice.functions.detect.errors import DetectionError, RuleError
from sluice.functions.detect.model import Pcre

_CASELESS, _STREAM = 1, 2
"""HS_FLAG_CASELESS and HS_MODE_STREAM of hs_compile.h."""

PCRE_OPTIONS = {
    "i": 0x00000008, "s": 0x00000020, "m": 0x00000400, "x": 0x00000080, "A": 0x80000000, "E": 0x00000010,
    "G": 0x00040000,
}  # fmt: skip
"""Flags of Perl's, and Snort's A, E and G, as options of pcre2.h."""
_BYTES_ALONE = 0x00100000 | 0x00001000
"""PCRE2_NEVER_BACKSLASH_C and PCRE2_NEVER_UTF: bytes are searched, not text."""


class _CompileError(ctypes.Structure):
    _fields_ = (("message", ctypes.c_char_p), ("expression", ctypes.c_int))


@cache
def hyperscan() -> Any:
    """libhs. Raises DetectionError where it is not there."""
    for name in ("libhs.so.5", ctypes.util.find_library("hs")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None:
            library.hs_version.restype = ctypes.c_char_p
            return library
    raise DetectionError(
        "rules are matched by Hyperscan or Vectorscan, which is not there: install libhyperscan-dev or "
        "libvectorscan-dev (Debian)"
    )


@cache
def _pcre2() -> Any:
    for name in ("libpcre2-8.so.0", ctypes.util.find_library("pcre2-8")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None:
            library.pcre2_compile_8.restype = ctypes.c_void_p
            return library
    raise DetectionError("rules with pcre need PCRE2, which is not there: install libpcre2-dev (Debian)")


def version() -> str:
    """The version of the library that compiles databases: one that another version compiled is not read."""
    return hyperscan().hs_version().decode()


def pcre_options(pcre: Pcre) -> int:
    """The options to compile an expression with."""
    value = _BYTES_ALONE
    for flag in pcre.flags:
        value |= PCRE_OPTIONS[flag]
    return value


def pcre_text(pcre: Pcre) -> bytes:
    """The bytes of an expression."""
    return pcre.text.encode("utf-8", "surrogateescape")


def check_pcre(pcre: Pcre) -> None:
    """Compile an expression once. Raises RuleError with the message of PCRE2."""
    library, text = _pcre2(), pcre_text(pcre)
    number, offset = ctypes.c_int(), ctypes.c_size_t()
    code = library.pcre2_compile_8(
        text,
        ctypes.c_size_t(len(text)),
        ctypes.c_uint32(pcre_options(pcre)),
        ctypes.byref(number),
        ctypes.byref(offset),
        None,
    )
    if code:
        library.pcre2_code_free_8(ctypes.c_void_p(code))
        return
    message = ctypes.create_string_buffer(256)
    library.pcre2_get_error_message_8(number, message, ctypes.c_size_t(len(message)))
    raise RuleError(
        pcre.place,
        "option 'pcre'",
        f"{message.value.decode(errors='replace')}, at character {offset.value} of the expression",
    )


def database(patterns: Sequence[tuple[bytes, bool]]) -> bytes:
    """The compiled database, in the form that is stored, of texts (with nocase or not): their ids are their places.

    Raises DetectionError.
    """
    library = hyperscan()
    count = len(patterns)
    texts = (ctypes.c_char_p * count)(*(text for text, _ in patterns))
    lengths = (ctypes.c_size_t * count)(*(len(text) for text, _ in patterns))
    flags = (ctypes.c_uint * count)(*(_CASELESS * nocase for _, nocase in patterns))
    ids = (ctypes.c_uint * count)(*range(count))
    made, error = ctypes.c_void_p(), ctypes.POINTER(_CompileError)()
    status = library.hs_compile_lit_multi(
        texts,
        flags,
        ids,
        lengths,
        ctypes.c_uint(count),
        ctypes.c_uint(_STREAM),
        None,
        ctypes.byref(made),
        ctypes.byref(error),
    )
    if status:
        said = error.contents.message.decode(errors="replace") if error else f"error {status}"
        raise DetectionError(f"the patterns could not be compiled: {said}")
    stored, size = ctypes.c_char_p(), ctypes.c_size_t()
    status = library.hs_serialize_database(made, ctypes.byref(stored), ctypes.byref(size))
    library.hs_free_database(made)
    if status:
        raise DetectionError(f"the compiled patterns could not be stored: error {status}")
    found = ctypes.string_at(stored, size.value)
    ctypes.CDLL(None).free(stored)
    return found
