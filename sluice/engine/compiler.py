"""The C compiler: finds one, and compiles a stack into a library that is cached by content."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sluice.codegen.stack import Generated
from sluice.engine.cache import LIBRARY, OBJECT, WORK, CacheError, cache_folder, trim, use
from sluice.engine.includes import Files, included
from sluice.engine.made_once import made_once
from sluice.engine.opaque import member_of_box
from sluice.engine.processor import processor
from sluice.engine.sealed_file import move, seal
from sluice.ir.graph import NativeModule

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
RUNTIME_SOURCES = tuple(sorted([*RUNTIME.glob("driver/*.c"), *RUNTIME.glob("io/*.c")]))
LIBRARIES = ("-ldl", "-lm", "-lpthread")
"""The libraries that the runtime is linked with."""
MICROBOXES = RUNTIME.parent / "compat" / "microboxes"
INCLUDE_FOLDERS = (RUNTIME, RUNTIME / "function", RUNTIME / "native", MICROBOXES)
"""The include path: the runtime, and the headers that users' functions and native modules name without a folder."""
INCLUDES = tuple(f"-I{folder}" for folder in INCLUDE_FOLDERS)
WARNINGS = ("-Wall", "-Wextra")
ZIG = (sys.executable, "-m", "ziglang", "cc")
"""The compiler of the `ziglang` wheel."""


class CompilerError(Exception):
    """There is no C compiler, or it reported errors (for generated code, this is a defect of Sluice)."""


def compiler() -> tuple[str, ...]:
    """The command of the C compiler: $CC if it is set, else gcc, clang or cc, else the one in the `ziglang` wheel.

    Raises CompilerError.
    """
    for command in _candidates():
        if _works(command):
            return command
    given = os.environ.get("CC", "")
    if given.strip():
        raise CompilerError(f"CC='{given}' does not compile and link C; set CC to a C compiler, or unset it")
    raise CompilerError("no C compiler found: install gcc or clang, or `pip install ziglang`, or set CC")


def _candidates() -> list[tuple[str, ...]]:
    """The compiler commands that are installed, in order of preference."""
    given = os.environ.get("CC", "")
    if given.strip():
        command = _words(given)
        if shutil.which(command[0]) is None:
            raise CompilerError(f"CC='{given}': there is no program {command[0]}; set CC to a C compiler, or unset it")
        return [command]
    return [command for command in (*((name,) for name in ("gcc", "clang", "cc")), ZIG) if shutil.which(command[0])]


def _words(given: str) -> tuple[str, ...]:
    """The program and arguments of $CC."""
    try:
        return tuple(shlex.split(given))
    except ValueError as error:
        raise CompilerError(f"CC='{given}': {error}") from error


@cache
def _works(command: tuple[str, ...]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text("#include <stdint.h>\n#include <sys/mman.h>\nint sluice_try(void) { return 0; }\n")
        done = subprocess.run(
            [*command, "-shared", "-fPIC", str(source), "-o", str(Path(folder, "try.so"))],
            capture_output=True,
        )
        return done.returncode == 0


@cache
def _version(command: tuple[str, ...]) -> str:
    return subprocess.run([*command, "--version"], capture_output=True, text=True).stdout


def flags() -> tuple[str, ...]:
    """Options for compiling and linking; $SLUICE_CFLAGS adds to them (sanitizers, for example)."""
    extra = tuple(shlex.split(os.environ.get("SLUICE_CFLAGS", "")))
    return ("-std=gnu11", "-O2", "-march=native", "-g1", "-fPIC", *WARNINGS, *extra)


@dataclass(frozen=True)
class Compiled:
    """A library, and the seconds that the C compiler took (0 if it was cached)."""

    path: Path
    seconds: float
    messages: str


def _digest(command: tuple[str, ...], sources: Sequence[tuple[bytes, Path | None]], files: Files) -> str:
    """A digest of the sources, of the headers that they include, and of the compiler, processor and options."""
    digest = hashlib.sha256()
    for text in (_version(command), processor(), *command, *flags()):
        digest.update(text.encode() + b"\0")
    for text, _ in sources:
        digest.update(text + b"\0")
    for path in included(sources, INCLUDE_FOLDERS, files):
        digest.update(path.name.encode() + b"\0" + files.contents(path) + b"\0")
    return digest.hexdigest()[:32]


def _runtime_digests(command: tuple[str, ...]) -> dict[Path, str]:
    """The digest of each source of the runtime."""
    files = sorted(path for folder in (RUNTIME, MICROBOXES) for path in folder.rglob("*.[ch]"))
    states = ((path, path.stat()) for path in files)
    state = tuple((str(path), state.st_mtime_ns, state.st_size) for path, state in states)
    return _digests_of(command, flags(), processor(), RUNTIME_SOURCES, state)


@cache
def _digests_of(
    command: tuple[str, ...], _flags: object, _processor: str, sources: tuple[Path, ...], _state: object
) -> dict[Path, str]:
    """The same, calculated again only when what it depends on has changed: the options or a file of the runtime."""
    files = Files()
    return {path: _digest(command, [(path.read_bytes(), path.parent)], files) for path in sources}


def _fingerprint(generated: Generated, command: tuple[str, ...]) -> str:
    others = (*native_files(generated.natives), *source_files(generated.sources))
    sources = [
        (generated.source.encode(), None),
        (generated.header.encode(), None),
        *((path.read_bytes(), path.parent) for path in others),
        (" ".join([*_runtime_digests(command).values(), *linked_libraries(generated)]).encode(), None),
    ]
    return _digest(command, sources, Files())


def compile_library(generated: Generated, fresh: bool = False) -> Compiled:
    """The shared library of a generated stack. With `fresh`, it is compiled even if it is cached.

    Raises CompilerError with the compiler's messages, and CacheError if the library cannot be stored.
    """
    folder = cache_folder()

    def place(command: tuple[str, ...]) -> Path:
        return folder / f"{generated.name}-{_fingerprint(generated, command)}{LIBRARY}"

    for command in [] if fresh else _candidates():  # a cached library proves that its compiler works
        if use(path := place(command)) is not None:
            return Compiled(path, 0.0, "")
    path = place(compiler())
    use(path)
    try:
        made = _compile(generated, compiler(), path, fresh)
    except OSError as error:
        raise CacheError(
            f"{error.filename or folder}: {error.strerror}; set SLUICE_CACHE to a folder for compiled stacks that "
            "can be written"
        ) from error
    trim(folder)
    return made


def _compile(generated: Generated, command: tuple[str, ...], path: Path, fresh: bool) -> Compiled:
    """Compile into the library `path`; the file appears complete or is not created (sealed_file.py).

    All sources are compiled in parallel, one per processor; the source of the stack takes longest. The objects of the
    runtime's sources are the same for every stack, so they are cached next to the libraries.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=WORK) as work:
        Path(work, f"{generated.name}.h").write_text(generated.header)
        source = Path(work, f"{generated.name}.c")
        source.write_text(generated.source)
        begin = time.perf_counter()
        digests = _runtime_digests(command)
        places = {each: path.parent / f"{each.stem}-{digests[each]}{OBJECT}" for each in RUNTIME_SOURCES}
        missing = [each for each, place in places.items() if use(place) is None or fresh]
        objects = {
            each: Path(work, f"{i}{OBJECT}")
            for i, each in enumerate([source, *(Path(module.path) for module in generated.natives), *missing])
        }
        run = [*command, *flags(), f"-I{work}", *INCLUDES]
        others = {Path(source): Path(work, f"source{i}{OBJECT}") for i, source in enumerate(generated.sources)}
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            steps = [
                pool.submit(_call, generated, [*run, "-c", str(each), "-o", str(made)])
                for each, made in objects.items()
            ]
            # third-party sources are compiled without warnings
            steps += [
                pool.submit(_call, generated, [*run, "-w", "-c", str(each), "-o", str(made)])
                for each, made in others.items()
            ]
        messages = "".join(step.result() for step in steps)
        for each in missing:
            seal(objects[each])
            move(objects.pop(each), places[each])
        made = Path(work, path.name)
        libraries = [f"-l{library}" for library in linked_libraries(generated)]
        linked = [str(made) for made in (*objects.values(), *others.values(), *places.values())]
        messages += _call(generated, [*run, "-shared", *linked, "-o", str(made), *libraries, *LIBRARIES])
        seconds = time.perf_counter() - begin
        seal(made)
        move(made, path)
    return Compiled(path, seconds, messages)


def compile_parts(generated: Generated, stack: str, functions: dict[str, str]) -> Path:
    """Link a stack and its separately compiled functions into a library. Only parts that are not cached are compiled.

    stack: the source of the stack, in which the functions are weak symbols. functions: the source of each function, by
    name. Raises CompilerError.
    """
    command, folder, headers = compiler(), cache_folder(), Files()

    def object_of(name: str, text: bytes, beside: Path | None) -> Path:
        digest = _digest((*command, *QUICK), [(text, beside), (generated.header.encode(), None)], headers)
        return folder / f"quick_{name}-{digest}{OBJECT}"

    sources: dict[Path, tuple[str, str]] = {}
    for name, text in {generated.name: stack, **functions}.items():
        sources[object_of(name, text.encode(), None)] = name, text
    files = [*(Path(module.path) for module in generated.natives), *map(Path, generated.sources), *RUNTIME_SOURCES]
    places = {path: object_of(path.stem, path.read_bytes(), path.parent) for path in files}
    joined = hashlib.sha256(" ".join(map(str, [*sources, *places.values()])).encode()).hexdigest()[:32]
    path = folder / f"quick_{generated.name}-{joined}{LIBRARY}"
    if use(path) is not None:
        return path
    run = [*command, *flags(), *QUICK, *INCLUDES]
    with tempfile.TemporaryDirectory(dir=folder, prefix=WORK) as work:
        Path(work, f"{generated.name}.h").write_text(generated.header)
        steps: dict[Path, Path] = {place: source for source, place in places.items() if use(place) is None}
        for number, (place, (name, text)) in enumerate(sources.items()):
            if use(place) is None:
                steps[place] = Path(work, f"{number}_{name}.c")
                steps[place].write_text(text)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            made = {place: Path(work, place.name) for place in steps}
            waiting = [
                pool.submit(_call, generated, [*run, f"-I{work}", "-c", str(source), "-o", str(made[place])])
                for place, source in steps.items()
            ]
        for step in waiting:
            step.result()
        for place, each in made.items():
            seal(each)
            move(each, place)
        libraries = [f"-l{library}" for library in linked_libraries(generated)]
        linked = Path(work, path.name)
        parts = map(str, [*sources, *places.values()])
        _call(generated, [*run, "-shared", *parts, "-o", str(linked), *libraries, *LIBRARIES])
        seal(linked)
        move(linked, path)
    trim(folder)
    return path


def compile_shared(name: str, sources: Sequence[Path], options: Sequence[str]) -> Path:
    """A cached library of some of the runtime's sources. options: with which it is compiled and linked.

    Raises CompilerError, and CacheError if it cannot be stored.
    """
    command = compiler()
    digest = _digest((*command, *options), [(each.read_bytes(), each.parent) for each in sources], Files())

    def make(path: Path) -> None:
        run = [*command, *flags(), *INCLUDES, "-shared", *map(str, sources), "-o", str(path), *options, *LIBRARIES]
        done = subprocess.run(run, capture_output=True, text=True)
        if done.returncode:
            raise CompilerError(f"the C compiler refused:\n{done.stderr.strip()[:8000]}")

    return made_once(f"{name}-{digest}{LIBRARY}", make)


QUICK = ("-O0", "-g0")
"""Options of `--quick`, for a short compilation. Its warnings are not shown: the default compilation reports them."""


def _call(generated: Generated, command: list[str]) -> str:
    """Run the C compiler and return its messages. Raises CompilerError."""
    done = subprocess.run(command, capture_output=True, text=True)
    if reason := member_of_box(done.stderr, RUNTIME):
        raise CompilerError(reason)
    if done.returncode:
        raise CompilerError(f"the C compiler refused:\n{done.stderr.strip()[:8000]}{_libraries(generated)}")
    return done.stderr


def linked_libraries(generated: Generated) -> list[str]:
    """Names of the libraries that native modules and functions are linked with, each once."""
    of_modules = (library for module in generated.natives for library in module.libraries)
    return list(dict.fromkeys((*of_modules, *generated.libraries)))


def native_files(modules: tuple[NativeModule, ...]) -> list[Path]:
    """The source files of native modules, and the headers STEM_*.h next to each."""
    found: list[Path] = []
    for module in modules:
        source = Path(module.path)
        found += [source, *sorted(source.parent.glob(f"{source.stem}_*.h"))]
    return found


def source_files(sources: tuple[str, ...]) -> list[Path]:
    """The C files that functions are linked with, and the headers next to them."""
    paths = [Path(source) for source in sources]
    headers = {header for path in paths for header in path.parent.glob("*.h")}
    return [*paths, *sorted(headers)]


def _libraries(generated: Generated) -> str:
    """Advice on libraries of native modules that may be missing, for a compiler error."""
    lines = [
        f"\n    {module.path} needs {' '.join(f'-l{library}' for library in module.libraries)}: if that is what "
        "is missing, install it with its headers."
        for module in generated.natives
        if module.libraries
    ]
    if generated.libraries:
        needed = " ".join(f"-l{library}" for library in generated.libraries)
        lines.append(f"\n    a function needs {needed}: if that is what is missing, install it with its headers.")
    return "".join(lines)
