"""What several commands share: their options, the box they run, progress, and the summary."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from sluice.cli.common.check_hooks import check_hooks
from sluice.cli.common.errors import CommandError, UsageError
from sluice.engine.box import HOLD, Box, CompiledStack, Outcome, Settings, compile_stack
from sluice.engine.functions import FunctionError, Wanted, counters_of, parameters_of
from sluice.hooks.parameter_text import read_parameters
from sluice.ir.graph import Program
from sluice.lang.errors import DescriptionError
from sluice.lang.stack import Stack
from sluice.passes.pipeline import UnknownPassError, select
from sluice.stacks.find import find_stack


def add_command(
    commands: Any, name: str, doc: str | None, action: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A command's parser. Its help is the text of its file, the first line of which reads `sluice ...: what
    it does.`
    """
    text = doc or ""
    brief = text.split("\n", 1)[0].partition(": ")[2].rstrip(".")
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=brief,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",  # --help of commands that take functions is one of ours
    )
    parser.set_defaults(action=action)
    return parser


def add_stack(parser: argparse.ArgumentParser) -> None:
    """The argument STACK."""
    parser.add_argument("stack", metavar="STACK", help="a name, or a Python file that describes a stack")


def add_functions(parser: argparse.ArgumentParser, what: str = "a ready function, a C file or a Python file") -> None:
    """The option -f; --help behind it tells what may be set of the functions that it named."""
    parser.add_argument("-h", "--help", action=_Help, help="show this help, with the parameters of functions before it")
    parser.add_argument(
        "-f",
        action="append",
        default=[],
        metavar="FUNCTION",
        dest="functions",
        help=f"{what}; may be given several times",
    )


class _Help(argparse.Action):
    """--help, which knows the functions that stand before it."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: object) -> None:
        parser.print_help()
        for name in getattr(namespace, "functions", []):
            try:
                print(f"\n{function_help(name)}")
            except FunctionError as error:
                parser.error(str(error))
        parser.exit()


def function_help(name: str) -> str:
    """What may be set of a function behind its colon, and what it counts."""
    parameters, counters = parameters_of(name), counters_of(name)
    rows = [(item.usage, item.help, item.value if item.kind != "flag" else "") for item in parameters]
    lines = [f"{name}: has no parameters"]
    if parameters:
        lines = [f"parameters of {name}, as in -f {name}:{','.join(item.usage for item in parameters[:2])}"]
    width = max((len(usage) for usage, _, _ in rows), default=0)
    lines += [f"  {usage:<{width}}  {help}{f' (default {value})' if value else ''}" for usage, help, value in rows]
    if counters:
        lines.append(f"what {name} counts")
        width = max(len(counter) for counter, _ in counters)
        lines += [f"  {counter:<{width}}  {help}" for counter, help in counters]
    return "\n".join(lines)


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that compiles a stack."""
    parser.add_argument(
        "--checksums", action="store_true", help="verify checksums; packets with wrong ones are malformed"
    )
    parser.add_argument(
        "--key",
        default=[],
        metavar="NAME,...",
        type=_names,
        help="what else tells flows apart, of all that the layers below offer: vlan, tunnel",
    )
    parser.add_argument(
        "--passes",
        default="all",
        metavar="all|none|LIST",
        type=passes_of,
        help="optimisation passes, by name, with commas",
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of names with commas, as in vlan,tunnel")
    return names


def stack_of(name: str, options: argparse.Namespace) -> Stack:
    """The stack of that name or file, with the keys that the command line asks for."""
    stack = find_stack(name)
    try:
        stack.join(*options.key)
    except DescriptionError as error:
        raise UsageError(f"--key {','.join(options.key)}: {error.what}; {error.advice}") from error
    return stack


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that runs a box."""
    add_compile_options(parser)
    parser.add_argument(
        "--idle", type=_seconds, metavar="SECONDS", help="time out what was quiet for so long, in packet time"
    )
    parser.add_argument(
        "--memory",
        type=_bytes,
        default=1 << 30,
        metavar="BYTES",
        help="that all sequences together may hold (default 1 GiB)",
    )
    parser.add_argument(
        "--hold",
        type=_bytes,
        default=HOLD,
        metavar="BYTES",
        help="that one side of a connection may hold while earlier bytes are missing, within its receiver's window and "
        "--memory (default 16 MiB)",
    )
    parser.add_argument(
        "--max-instances",
        type=_instances,
        default=1 << 22,
        metavar="N",
        help="connections per table (default 4194304); of some layers fewer, as the parser says",
    )
    parser.add_argument(
        "--prefault",
        action="store_true",
        help="take all memory that --memory and --max-instances allow at the start, so that no packet waits for it",
    )
    parser.add_argument(
        "--native",
        type=_native,
        action="append",
        default=[],
        metavar="NAME=TEXT",
        dest="natives",
        help="what a module in C of the stack gets as its option NAME",
    )
    parser.add_argument(
        "--keylog",
        type=lambda path: ("keylog", path),
        action="append",
        metavar="FILE",
        dest="natives",
        help="secrets to open QUIC packets with, in the format of SSLKEYLOGFILE; the same as --native keylog=FILE",
    )
    parser.add_argument("--seed", type=_seed, metavar="N", help="of the hashes; random unless given")


def _native(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=TEXT")
    return name, value


def count_from_1(what: str) -> Callable[[str], int]:
    """The type of an option that is a number of `what`."""
    return _number(f"a number of {what}", 1, 1 << 48)


def _number(what: str, least: int, most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not {what} from {least} to {most}")
        return value

    return convert


_bytes = _number("a number of bytes", 1 << 16, 1 << 48)
_instances = _number("a number of instances", 1, 1 << 28)
_seed = _number("a seed", 0, (1 << 64) - 1)
repeats = _number("a number of runs", 1, 10_000)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number of seconds")
    return value


def passes_of(text: str) -> str | list[str]:
    """The value of --passes: "all", "none", or names that exist."""
    if text in ("all", "none"):
        return text
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        check_pass(name)
    return names


def check_pass(name: str) -> None:
    """Raise UsageError when there is no pass of that name."""
    try:
        select([name])
    except UnknownPassError as error:
        raise UsageError(str(error)) from error


def checks_of(options: argparse.Namespace) -> frozenset[str]:
    """Optional checks that the command line asks for."""
    return frozenset({"checksums"}) if options.checksums else frozenset()


def check_input(path: str) -> None:
    """Raise CommandError when a capture cannot be read, before anything is compiled or written for it."""
    if os.path.isdir(path):
        raise CommandError(f"{path}: is a directory; give a capture file (pcap or pcapng)")
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):  # which to open might wait for ever
        raise CommandError(f"{path}: captures are read from files: write what comes through the pipe to one first")
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def check_output(path: str, *inputs: str) -> None:
    """Raise CommandError when a file cannot be written, or is one of the inputs."""
    for given in inputs:
        if os.path.exists(path) and os.path.exists(given) and os.path.samefile(path, given):
            raise CommandError(f"{path}: is the input as well, and would be overwritten; write to another file")
    if os.path.isdir(path):
        raise CommandError(f"{path}: is a directory; give the name of a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"{path}: there is no directory {folder}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise CommandError(f"{path}: cannot be written")


def check_function_outputs(wanted: Wanted, *inputs: str) -> None:
    """The same for the files that functions are told to write: their parameter `out`."""
    for function, given in zip(wanted.c, wanted.options, strict=True):
        path = read_parameters(function.parameters, given).get("out") if function.parameters else None
        if isinstance(path, str) and path:
            check_output(path, *inputs)


def write_text(path: str | Path, text: str) -> None:
    """Write a file. Raises CommandError with the reason when that is not possible."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def compile_for(stack: Stack, wanted: Wanted, options: argparse.Namespace, fresh: bool = False) -> CompiledStack:
    """Compile a stack with the functions and options of the command line."""
    if wanted.track_only:
        for layer in stack.layers.values():
            layer.prototype.buffer_data = False
    warnings: list[str] = []

    def check(program: Program) -> None:
        _check_natives(program, dict(options.natives))
        warnings.extend(check_hooks(program, wanted))

    try:
        with busy(f"compiling {stack.name or 'the stack'}"):
            return compile_stack(
                stack,
                tuple(wanted.c),
                wanted.python_hooks(),
                options.passes,
                checks_of(options),
                fresh,
                check=check,
                demanded=wanted.python_demanded(),
                many=wanted.python_many(),
            )
    finally:
        warn(warnings)


def _check_natives(program: Program, given: dict[str, str]) -> None:
    """Raise CommandError for an option that no module of the stack takes."""
    known = sorted({module.option for module in program.natives if module.option})
    for name in given:
        if name not in known:
            takes = f"its modules take {', '.join(known)}" if known else "it has no module that takes any"
            raise CommandError(f"--native {name}=...: not of stack {program.name}, {takes}")


def warn(texts: list[str]) -> None:
    """Say on standard error what is allowed, and probably not meant."""
    for text in texts:
        print(f"sluice: warning: {text}", file=sys.stderr)


def settings_of(options: argparse.Namespace, timeouts: bool) -> Settings:
    """Settings of a box from the command line."""
    natives: dict[str, str] = dict(options.natives)
    return Settings(
        options.memory,
        options.max_instances,
        timeouts,
        options.idle,
        options.seed,
        natives,
        options.prefault,
        options.hold,
    )


def run_file(
    compiled: CompiledStack,
    wanted: Wanted,
    settings: Settings,
    path: str,
    rows_on_terminal: bool = False,
    output: str | None = None,
) -> Outcome:
    """Run a box over a file, with progress on a terminal, unless what a function writes goes there.

    output: the capture file of what leaves the box.
    """
    shown = contextlib.nullcontext(None) if rows_on_terminal else progress_line()
    with Box(compiled, settings, wanted.python, wanted.options, output) as box, shown as progress:
        return box.run(path, progress)


def _on_terminal() -> bool:
    return sys.stderr.isatty()


@contextlib.contextmanager
def busy(what: str) -> Generator[None]:
    """Say on a terminal what takes its time, and take it back afterwards."""
    if not _on_terminal():
        yield
        return
    print(f"\r{what} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(_CLEAR, end="", file=sys.stderr, flush=True)


_CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def progress_line() -> Generator[Callable[[int, int, int], bool] | None]:
    """A progress callback that keeps one line of the terminal up to date, and clears it at the end; None
    elsewhere.
    """
    if not _on_terminal():
        yield None
        return
    begin = time.monotonic()
    last = 0.0
    shown = False

    def show(done: int, size: int, packets: int) -> bool:
        nonlocal last, shown
        now = time.monotonic()
        if now - last >= 0.1:
            last = now
            shown = True
            rate = packets / max(now - begin, 1e-9) / 1e6
            text = f"\r{100 * done // max(size, 1):3d}%  {packets:,} packets  {rate:.2f} M/s{_CLEAR[1:]}"
            print(text, end="", file=sys.stderr, flush=True)
        return False

    try:
        yield show
    finally:
        if shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """The machine-readable summary of a run."""
    layers = {name: counters for name, counters in outcome.counters.items() if name != "box"}
    return {
        "packets": outcome.packets,
        "seconds": round(outcome.seconds, 6),
        "box": outcome.counters.get("box", {}),
        "layers": layers,
        "reports": outcome.reports,
        "fault": outcome.fault,
        "failure": outcome.failure,
        "stopped": outcome.stopped,
    }


_ROUTINE = ("packets", "bytes", "passed", "ended", "held", "instances", "bytes:in", "bytes:delivered")
_OUTCOMES = ("malformed:", "cut:", "dropped:")
_BOX_REASONS = (
    ("unknown link type", "packets of a link type that the stack does not begin with"),
    ("too deep", "packets nested too deeply"),
)


def summary(outcome: Outcome) -> str:
    """What the box saw, by layer: packets, bytes, instances, what was passed on, and what was given up and
    why.
    """
    box = outcome.counters.get("box", {})
    lines = [f"{outcome.packets:,} packets, {box.get('bytes', 0):,} bytes in {_duration(outcome.seconds)}"]
    seen = [(name, c) for name, c in outcome.counters.items() if name != "box" and c.get("packets")]
    if seen:
        width = max(len(name) for name, _ in seen)
        head = f"{'layer':<{width}}  {'packets':>11} {'bytes':>14} {'passed on':>11} {'ended':>11} {'held':>9}"
        lines.append(f"{head} {'instances':>10}  what else")
        for name, c in seen:
            row = f"{name:<{width}}  {c['packets']:>11,} {c['bytes']:>14,} {c.get('passed', 0):>11,}"
            row += f" {c.get('ended', 0):>11,} {c.get('held', 0):>9,} {c.get('instances', 0):>10,}"
            lines.append(f"{row}  {_what_else(c)}".rstrip())
    lines += [f"{box[key]:,} {text}" for key, text in _BOX_REASONS if box.get(key)]
    lines += [f"{name}: {value:,}" for name, value in outcome.reports.items()]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _what_else(counters: dict[str, int]) -> str:
    """The other counters that are not 0; first those by which packets end, so that these can be added up."""
    others = [(name, value) for name, value in counters.items() if value and name not in _ROUTINE]
    others.sort(key=lambda item: not item[0].startswith(_OUTCOMES))
    return ", ".join(f"{_words(name)} {value:,}" for name, value in others)


def _words(counter: str) -> str:
    """A counter's name as a summary has it: `malformed:version` becomes `malformed (version)`."""
    what, _, why = counter.partition(":")
    if what == "ended":
        what = "instances ended"  # packets that ended have a column of their own
    return f"{what} ({why})" if why else what


def finish(outcome: Outcome, as_json: bool, quiet: bool = False) -> int:
    """Print the summary, say what is wrong with the file; the exit status."""
    if as_json:
        print(json.dumps(outcome_json(outcome)))
    elif not quiet:
        print(summary(outcome))
    if outcome.fault:
        print(f"sluice: {outcome.fault}; the packets before it were processed", file=sys.stderr)
    if outcome.failure:
        print(f"sluice: {outcome.failure}", file=sys.stderr)
    return 1 if outcome.fault or outcome.failure else 0
