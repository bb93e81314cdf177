"""Runs instead of a compiler while `sluice analyze build` records: wrapper.py NAME ARGUMENT...

Compiles with clang 19, without optimisation and with debug info, and has it embed the bitcode of each translation unit
in the object file, so that the linker itself selects the parts of a program. If clang does not compile a file, the
compiler that was called does, and the file is logged as left out.

Environment: SLUICE_RECORD_LOG, the file to which a line of JSON is appended for each call; SLUICE_RECORD_PATH, the PATH
on which the build's own compilers are.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

RECORD = [
    # As at -O0, but with the bodies of C99's inline functions, which a program may have nowhere else.
    *("-O1", "-Xclang", "-disable-llvm-passes"),
    *("-g", "-fno-discard-value-names", "-Xclang", "-fembed-bitcode=all"),
    *(
        "-Wno-error",
        "-Wno-unknown-warning-option",
        "-Wno-unused-command-line-argument",
        "-Wno-ignored-optimization-argument",
    ),
]
SECTION = ".sluice.bitcode"
"""Not clang's .llvmbc, by which plug-ins of GNU ar and ld treat an object as one of link-time optimisation."""
_DROPPED = re.compile(
    r"-O.*|-g(?!cc-).*|-s|-flto.*|-fno-lto|-ffat-lto-objects|-fuse-linker-plugin|-fwhole-program|-fembed-bitcode.*"
    r"|-Werror.*|-pedantic-errors|(-Wp,)?-[DU]_FORTIFY_SOURCE.*|-fprofile-.*|-fsanitize=.*|--coverage|-fauto-profile.*"
)
_C, _CPP, _ASSEMBLY = {".c", ".i"}, {".cc", ".cpp", ".cxx", ".C", ".ii"}, {".s", ".S", ".sx"}
_WITH_VALUE = {
    *("-o", "-I", "-D", "-U", "-L", "-l", "-x", "-T", "-u", "-z", "-e", "-MF", "-MT", "-MQ", "-arch", "-aux-info"),
    *("-include", "-isystem", "-idirafter", "-iquote", "-imacros", "-Xlinker", "-Xassembler", "-Xpreprocessor"),
}


def expand(arguments: list[str]) -> list[str]:
    """Arguments with response files (@FILE) replaced by their content."""
    found: list[str] = []
    for argument in arguments:
        if argument.startswith("@") and os.path.isfile(argument[1:]):
            with open(argument[1:], encoding="utf-8", errors="surrogateescape") as file:
                found += expand(shlex.split(file.read()))
        else:
            found.append(argument)
    return found


def read(arguments: list[str]) -> dict[str, object]:
    """The effect of a call: its output, sources, other inputs, and whether it compiles, links, or neither."""
    output: str | None = None
    sources: list[str] = []
    inputs: list[str] = []
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        if argument in _WITH_VALUE:
            at += 1
            value = arguments[at] if at < len(arguments) else ""
            if argument == "-o":
                output = value
            elif argument == "-l":
                inputs.append(f"-l{value}")
        elif argument.startswith("-o") and len(argument) > 2:
            output = argument[2:]
        elif argument.startswith("-l"):
            inputs.append(argument)
        elif not argument.startswith("-"):
            known = os.path.splitext(argument)[1] in _C | _CPP | _ASSEMBLY
            (sources if known else inputs).append(argument)
        at += 1
    flags = set(arguments)
    if flags & {"-E", "-M", "-MM", "-fsyntax-only", "--version", "-dumpversion", "-dumpmachine"}:
        kind = "other"
    elif flags & {"-c", "-S"}:
        kind = "compile"
    else:
        kind = "link" if sources or inputs else "other"
    return {"kind": kind, "output": output, "sources": sources, "inputs": inputs, "shared": "-shared" in flags}


def without_inputs(arguments: list[str]) -> list[str]:
    """The options of a call, without its output, inputs and libraries."""
    kept: list[str] = []
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        if argument in _WITH_VALUE:
            if argument not in ("-o", "-l"):
                kept += arguments[at : at + 2]
            at += 1
        elif argument.startswith("-") and not argument.startswith(("-o", "-l")):
            kept.append(argument)
        at += 1
    return kept


def clang(name: str, arguments: list[str], record: bool) -> tuple[int, str]:
    """Run clang on a call's arguments, without those that it does not know; the status and standard error."""
    program = "clang++-19" if "++" in name else "clang-19"
    kept = [argument for argument in arguments if not _DROPPED.fullmatch(argument)]
    while True:
        done = subprocess.run([program, *kept, *(RECORD if record else [])], stderr=subprocess.PIPE)
        text = done.stderr.decode(errors="replace")
        unknown = set(re.findall(r"(?:unknown argument|unsupported option|unsupported argument)[^']*'([^']+)'", text))
        if done.returncode == 0 or not unknown & set(kept):
            return done.returncode, text
        kept = [argument for argument in kept if argument not in unknown]


def compile_objects(name: str, arguments: list[str], objects: list[str]) -> tuple[int, str]:
    """Compile source files to objects with their bitcode."""
    status, text = clang(name, arguments, record=True)
    for path in objects:
        if status == 0 and os.path.isfile(path) and "-S" not in arguments:
            subprocess.run(["llvm-objcopy-19", "--rename-section", f".llvmbc={SECTION}", path], check=True)
    return status, text


def compile_and_link(name: str, arguments: list[str], sources: list[str]) -> tuple[int, str]:
    """A call that compiles and links, as one that compiles for each source, and one that links."""
    with tempfile.TemporaryDirectory(prefix="sluice-link-") as folder:
        objects: dict[str, str] = {}
        texts: list[str] = []
        options = without_inputs(arguments)
        for number, source in enumerate(sources):
            objects[source] = os.path.join(folder, f"{number}.o")
            status, text = compile_objects(name, [*options, "-c", source, "-o", objects[source]], [objects[source]])
            texts.append(text)
            if status != 0:
                return status, "".join(texts)
        linked = [objects.get(argument, argument) for argument in arguments]
        status, text = clang(name, linked, record=False)
        return status, "".join([*texts, text])


def link_anyway(name: str, arguments: list[str], error: str) -> list[str]:
    """Link once more without functions that only inlining provides; their names, or nothing if that does not help.

    Whether they are such functions is checked when the bitcode, which has their bodies, is linked.
    """
    names = sorted(set(re.findall(r"undefined reference to [`'\"]?([\w.$]+)", error)))
    if not names:
        return []
    status, _ = clang(name, [*arguments, "-Wl,--unresolved-symbols=ignore-all"], record=False)
    return names if status == 0 else []


def original(name: str, arguments: list[str]) -> int:
    """Run the compiler that the build called; its status."""
    path = os.environ["SLUICE_RECORD_PATH"]
    program = shutil.which(os.path.basename(name), path=path)
    if program is None:
        return 127
    return subprocess.run([program, *arguments], env={**os.environ, "PATH": path}).returncode


def first_error(text: str) -> str:
    """The first line of a compiler's output that reports an error."""
    lines = [line for line in text.splitlines() if "error:" in line or "undefined reference" in line]
    return lines[0] if lines else text.strip().split("\n")[0]


def main(name: str, arguments: list[str]) -> int:
    expanded = expand(arguments)
    call = read(expanded)
    sources = [str(source) for source in call["sources"]]  # type: ignore[union-attr]
    compiles = call["kind"] != "other" and bool(sources)
    # of a configure script, whose answers must be those of clang alone
    probe = any(os.path.basename(path).startswith("conftest") for path in [*sources, str(call["output"])])
    if not compiles:
        status, text = clang(name, expanded, record=False)
    elif call["kind"] == "link":
        status, text = compile_and_link(name, expanded, sources)
    else:
        objects = [str(call["output"] or os.path.splitext(os.path.basename(source))[0] + ".o") for source in sources]
        status, text = compile_objects(name, expanded, objects)
    call["left_out"] = False
    call["unresolved"] = []
    call["error"] = "" if status == 0 else first_error(text)
    if status != 0 and call["kind"] == "link" and not sources and not probe:
        call["unresolved"] = link_anyway(name, expanded, text)
        status = 0 if call["unresolved"] else status
    if status != 0 and compiles and not probe and original(name, arguments) == 0:
        status = 0
        call["left_out"] = True
    elif not call["unresolved"]:
        sys.stderr.write(text)
    call.update(status=status, folder=os.getcwd())
    if call["kind"] != "other" and not probe:
        line = json.dumps(call) + "\n"
        log = os.open(os.environ["SLUICE_RECORD_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(log, line.encode())  # one write: calls run at the same time
        os.close(log)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
