"""The part of libbpf that the loader needs, by ctypes: objects, programs, maps, links."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from sluice.isolate.errors import IsolateError

LIBRARIES = ("libbpf.so.1",)
_BTF_KIND_STRUCT, _BTF_KIND_TYPEDEF = 4, 8
_RUN_ON_CPU = 1 << 0
_ANY = 0

_Print = ctypes.CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
_log: list[str] = []
"""Messages of libbpf and the verifier on the last load."""


class _TestRun(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("data_in", c_void_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_void_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
        ("flags", c_uint32),
        ("cpu", c_uint32),
        ("batch_size", c_uint32),
    )


class _LinkOptions(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("flags", c_uint32), ("spare", c_uint32))


_SIGNATURES: dict[str, tuple[type, list[type]]] = {
    "bpf_object__open_file": (c_void_p, [c_char_p, c_void_p]),
    "bpf_object__load": (c_int, [c_void_p]),
    "bpf_object__close": (type(None), [c_void_p]),
    "bpf_object__find_map_by_name": (c_void_p, [c_void_p, c_char_p]),
    "bpf_object__find_program_by_name": (c_void_p, [c_void_p, c_char_p]),
    "bpf_object__next_program": (c_void_p, [c_void_p, c_void_p]),
    "bpf_program__name": (c_char_p, [c_void_p]),
    "bpf_program__section_name": (c_char_p, [c_void_p]),
    "bpf_program__set_autoload": (c_int, [c_void_p, ctypes.c_bool]),
    "bpf_program__attach": (c_void_p, [c_void_p]),
    "bpf_program__attach_cgroup": (c_void_p, [c_void_p, c_int]),
    "bpf_program__fd": (c_int, [c_void_p]),
    "bpf_prog_test_run_opts": (c_int, [c_int, POINTER(_TestRun)]),
    "bpf_link__destroy": (c_int, [c_void_p]),
    "bpf_link_create": (c_int, [c_int, c_int, c_uint32, POINTER(_LinkOptions)]),
    "bpf_obj_get_info_by_fd": (c_int, [c_int, c_void_p, POINTER(c_uint32)]),
    "bpf_tc_hook_create": (c_int, [c_void_p]),
    "bpf_tc_hook_destroy": (c_int, [c_void_p]),
    "bpf_tc_attach": (c_int, [c_void_p, c_void_p]),
    "bpf_tc_detach": (c_int, [c_void_p, c_void_p]),
    "bpf_tc_query": (c_int, [c_void_p, c_void_p]),
    "bpf_map__fd": (c_int, [c_void_p]),
    "bpf_map__value_size": (c_uint32, [c_void_p]),
    "bpf_map__key_size": (c_uint32, [c_void_p]),
    "bpf_map__set_max_entries": (c_int, [c_void_p, c_uint32]),
    "bpf_map__initial_value": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "bpf_map_update_elem": (c_int, [c_int, c_void_p, c_void_p, c_uint64]),
    "bpf_map_delete_elem": (c_int, [c_int, c_void_p]),
    "bpf_map_lookup_elem": (c_int, [c_int, c_void_p, c_void_p]),
    "bpf_map_get_next_key": (c_int, [c_int, c_void_p, c_void_p]),
    "btf__load_vmlinux_btf": (c_void_p, []),
    "btf__find_by_name_kind": (c_int32, [c_void_p, c_char_p, c_uint32]),
    "btf__free": (type(None), [c_void_p]),
    "libbpf_set_print": (c_void_p, [_Print]),
}


@cache
def library() -> ctypes.CDLL:
    """libbpf, with the types of the functions that are used. Raises IsolateError if there is none."""
    for name in LIBRARIES:
        try:
            found = ctypes.CDLL(name, use_errno=True)
            break
        except OSError:
            continue
    else:
        raise IsolateError(
            "there is no libbpf, version 1: run scripts/setup.sh --isolate, or install it (Debian: libbpf1)"
        )
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(found, name)
        function.restype = None if result is type(None) else result
        function.argtypes = arguments
    found.libbpf_set_print(_print)
    return found


@_Print
def _print(level: int, text: bytes, arguments: int) -> int:
    """Keep warnings: they contain the verifier's log when a program is refused. On the platforms for which programs are
    built, a va_list is passed as a pointer.
    """
    warning = 0
    if level == warning:
        buffer = ctypes.create_string_buffer(1 << 16)
        ctypes.CDLL(None).vsnprintf(buffer, c_size_t(len(buffer)), text, c_void_p(arguments))
        _log.append(buffer.value.decode(errors="replace"))
    return 0


def _failed(what: str) -> IsolateError:
    number = ctypes.get_errno()
    said = "".join(_log)[-2000:].strip()
    text = f"{what}: {os.strerror(number)}" + (f"\n{said}" if said else "")
    if number == 1 or number == 13:
        text += "\n    root is needed, or the capabilities CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    return IsolateError(text)


def known_tracepoints(names: Iterable[str]) -> set[str]:
    """Those of the named tracepoints that the running kernel has, and a BTF program can attach to."""
    return _known({name: (f"btf_trace_{name}", _BTF_KIND_TYPEDEF) for name in names})


@cache
def has_type(name: str) -> bool:
    """Whether the running kernel has a struct of that name."""
    return bool(_known({name: (name, _BTF_KIND_STRUCT)}))


def _known(types: dict[str, tuple[str, int]]) -> set[str]:
    """Those whose type, by name and kind, is in the kernel's BTF."""
    btf = library().btf__load_vmlinux_btf()
    if not btf:
        raise IsolateError("the kernel has no BTF (/sys/kernel/btf/vmlinux): one with CONFIG_DEBUG_INFO_BTF is needed")
    try:
        return {
            key for key, (name, kind) in types.items() if library().btf__find_by_name_kind(btf, name.encode(), kind) > 0
        }
    finally:
        library().btf__free(btf)


class Map:
    """A map of an object. Keys and values are bytes."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @property
    def descriptor(self) -> int:
        """The file descriptor, after the object was loaded."""
        return int(library().bpf_map__fd(self._handle))

    @property
    def value_size(self) -> int:
        """Bytes of a value."""
        return int(library().bpf_map__value_size(self._handle))

    def resize(self, entries: int) -> None:
        """Set the number of entries, before the object is loaded."""
        if library().bpf_map__set_max_entries(self._handle, entries):
            raise _failed("setting the size of a map")

    def memory(self) -> tuple[int, int]:
        """Address and length of a map of global variables."""
        size = c_size_t()
        address = library().bpf_map__initial_value(self._handle, ctypes.byref(size))
        return int(address or 0), size.value

    def update(self, key: bytes, value: bytes) -> None:
        """Set an entry. Raises IsolateError, for one if the map is full."""
        if library().bpf_map_update_elem(self.descriptor, key, value, _ANY):
            raise _failed("updating a map")

    def delete(self, key: bytes) -> None:
        """Remove an entry, if it is there."""
        library().bpf_map_delete_elem(self.descriptor, key)

    def lookup(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        value = ctypes.create_string_buffer(self.value_size)
        if library().bpf_map_lookup_elem(self.descriptor, key, value):
            return None
        return value.raw

    def lookup_per_cpu(self, key: bytes, cpus: int) -> list[bytes]:
        """The values of a key on all possible CPUs, of which there are `cpus`."""
        size = self.value_size + -self.value_size % 8
        values = ctypes.create_string_buffer(size * cpus)
        if library().bpf_map_lookup_elem(self.descriptor, key, values):
            raise _failed("reading a map")
        return [values.raw[start : start + self.value_size] for start in range(0, size * cpus, size)]

    def keys(self) -> Iterator[bytes]:
        """All keys; those that are added or removed meanwhile may be missing, and the walk may start again."""
        size = int(library().bpf_map__key_size(self._handle))
        following = ctypes.create_string_buffer(size)
        key: bytes | None = None
        while library().bpf_map_get_next_key(self.descriptor, key, following) == 0:
            key = following.raw
            yield key


class Object:
    """A compiled object: opened, then loaded, then attached; close() removes all of it from the kernel."""

    def __init__(self, path: Path) -> None:
        self._links: list[int] = []
        _log.clear()
        self._handle = library().bpf_object__open_file(os.fsencode(path), None)
        if not self._handle:
            raise _failed(f"opening {path}")

    def map(self, name: str) -> Map:
        """The map of that name; `.bss` and `.rodata` are those of global variables."""
        handle = library().bpf_object__find_map_by_name(self._handle, name.encode())
        if not handle:
            raise IsolateError(f"the object has no map {name}")
        return Map(handle)

    def programs(self) -> dict[str, str]:
        """Section by name of all programs."""
        found: dict[str, str] = {}
        program = library().bpf_object__next_program(self._handle, None)
        while program:
            name, section = (library().bpf_program__name(program), library().bpf_program__section_name(program))
            found[name.decode()] = section.decode()
            program = library().bpf_object__next_program(self._handle, program)
        return found

    def _program(self, name: str) -> int:
        return int(library().bpf_object__find_program_by_name(self._handle, name.encode()))

    def leave_out(self, name: str) -> None:
        """Do not load a program."""
        library().bpf_program__set_autoload(self._program(name), False)

    def load(self) -> None:
        """Load maps and programs into the kernel. Raises IsolateError with the verifier's messages."""
        _log.clear()
        if library().bpf_object__load(self._handle):
            raise _failed("the kernel refuses the BPF programs")

    def attach(self, name: str) -> None:
        """Attach a program to the hook that its section names."""
        link = library().bpf_program__attach(self._program(name))
        if not link:
            raise _failed(f"attaching {name}")
        self._links.append(link)

    def attach_to_cgroup(self, name: str, folder: int) -> int:
        """Attach a program to a cgroup, given by a descriptor of its folder; the link, for detach()."""
        link = library().bpf_program__attach_cgroup(self._program(name), folder)
        if not link:
            raise _failed(f"attaching {name}")
        self._links.append(link)
        return int(link)

    def detach(self, link: int) -> None:
        """Detach what attach_to_cgroup() attached."""
        self._links.remove(link)
        library().bpf_link__destroy(link)

    def attach_to_interface(self, name: str, index: int, place: int, flags: int = 0) -> int:
        """Attach a program to an interface of the calling thread's network namespace; the descriptor of the link. The
        kernel detaches it when that is closed, or the interface is removed.

        place: a value of enum bpf_attach_type. Raises IsolateError if the kernel or the driver cannot do it.
        """
        options = _LinkOptions(ctypes.sizeof(_LinkOptions), flags, 0)
        _log.clear()
        descriptor = library().bpf_link_create(
            library().bpf_program__fd(self._program(name)), index, place, ctypes.byref(options)
        )
        if descriptor < 0:
            raise _failed(f"attaching {name} to interface {index}")
        return int(descriptor)

    def descriptor_of(self, name: str) -> int:
        """The descriptor of a loaded program."""
        return int(library().bpf_program__fd(self._program(name)))

    def run_on(self, name: str, cpu: int) -> int:
        """Run a program of type raw_tp on a CPU, which is interrupted for it; its result. Raises OSError, if the CPU is
        offline.
        """
        options = _TestRun(size=ctypes.sizeof(_TestRun), flags=_RUN_ON_CPU, cpu=cpu)
        descriptor = library().bpf_program__fd(self._program(name))
        if library().bpf_prog_test_run_opts(descriptor, ctypes.byref(options)):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return options.retval

    def close(self) -> None:
        """Detach and unload. May be called twice."""
        for link in self._links:
            library().bpf_link__destroy(link)
        self._links.clear()
        if self._handle:
            library().bpf_object__close(self._handle)
            self._handle = None
