"""Code that commands share to compile and run a stack: from the command line to a box and its outcome."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

from sluice.cli.common.check_hooks import check_hooks
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.links import Links
from sluice.cli.common.monitoring import observing
from sluice.cli.common.privileges import give_up_privileges
from sluice.cli.common.progress import busy, progress_line
from sluice.cli.common.streams import reader_is_gone
from sluice.engine.box import Box, CompiledStack, Outcome, Settings, compile_stack
from sluice.engine.fanout import WorkerSources, division
from sluice.engine.functions import Wanted
from sluice.engine.inputs import Inputs, Rotation, is_interface
from sluice.engine.workers import WorkerBoxes, refusal
from sluice.ir.graph import Program
from sluice.lang.errors import DescriptionError
from sluice.lang.stack import Stack
from sluice.stacks.find import find_stack
from sluice.stacks.ports import add_tunnel_port, searches_tunnels

GROUPS = 4
"""Groups of connections that each worker has of an input without an end."""


def stack_of(name: str, options: argparse.Namespace) -> Stack:
    """The stack with that name or file, with the tunnel ports and keys of the command line."""
    stack = find_stack(name)
    for tunnel, port in options.tunnel_ports:
        try:
            add_tunnel_port(stack, tunnel, port)
        except DescriptionError as error:
            raise UsageError(f"--tunnel-port {tunnel}={port}: {error.what}; {error.advice}") from error
    try:
        stack.join(*options.key)
    except DescriptionError as error:
        raise UsageError(f"--key {','.join(options.key)}: {error.what}; {error.advice}") from error
    return stack


def tunnel_ports_function(stack: Stack, options: argparse.Namespace) -> list[str]:
    """The function that detects tunnels on other ports, with the known ports as its parameter; none for a stack without
    UDP and VXLAN.
    """
    if not searches_tunnels(stack):
        return []
    known = "+".join(str(port) for _, port in options.tunnel_ports)
    return [f"tunnel_ports:known={known}" if known else "tunnel_ports"]


def checks_of(options: argparse.Namespace) -> frozenset[str]:
    """The optional checks that the command line enables."""
    return frozenset({"checksums"}) if options.checksums else frozenset()


def compile_for(stack: Stack, wanted: Wanted, options: argparse.Namespace, fresh: bool = False) -> CompiledStack:
    """Compile a stack with the functions and options of the command line."""
    if wanted.track_only:
        for layer in stack.layers.values():
            layer.prototype.buffer_data = False
    warnings: list[str] = []
    natives = dict(options.natives)
    taken = {name for name, value in natives.items() if name == "keylog" and wanted.set_unset(name, value)}

    def check(program: Program) -> None:
        _check_natives(program, {name: value for name, value in natives.items() if name not in taken})
        warnings.extend(check_hooks(program, wanted))

    try:
        what = f"compiling {stack.name or 'the stack'}: up to a minute, and from the cache the next time"
        with busy(what):
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
                decides=wanted.python_decides(),
                quick=(lambda: compile_in_background(options.arguments)) if getattr(options, "quick", False) else None,
            )
    finally:
        warn(warnings)


def compile_in_background(arguments: list[str]) -> None:
    """Start a separate process that runs a command's default compilation and then exits."""
    instead = ["--compile-only" if argument == "--quick" else argument for argument in arguments]
    command = [sys.executable, "-m", "sluice", *instead]
    with contextlib.suppress(OSError):  # a failure only makes the next run slower
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: os.nice(10),
        )


def _check_natives(program: Program, given: dict[str, str]) -> None:
    """Raise CommandError for an option that no native module of the stack accepts."""
    known = sorted({module.option for module in program.natives if module.option})
    for name in given:
        if name not in known:
            takes = f"its modules take {', '.join(known)}" if known else "it has no module that takes any"
            raise CommandError(f"--native {name}=...: not of stack {program.name}, {takes}")


def warn(texts: list[str]) -> None:
    """Print warnings on standard error."""
    for text in texts:
        print(f"sluice: warning: {text}", file=sys.stderr)


def settings_of(options: argparse.Namespace, timeouts: bool) -> Settings:
    """The settings of a box from the command line."""
    natives: dict[str, str] = dict(options.natives)
    return Settings(
        options.memory, options.max_instances, timeouts, options.idle, options.seed, natives, options.prefault,
        options.fragment_timeout, hold=options.hold, work=options.work, bundle=options.bundle,
        bundle_mean=options.bundle_mean, depth=options.nesting, records=options.records,
        derivations=options.derivations,
    )  # fmt: skip


def run_file(
    compiled: CompiledStack,
    wanted: Wanted,
    settings: Settings,
    inputs: Inputs,
    rows_on_terminal: bool = False,
    output: str | None = None,
    workers: int = 1,
    rotation: Rotation | None = None,
    failed: Callable[[], bool] = lambda: False,
    box: type[Box] = Box,
    report_to: Callable[[int, int, int], bool] | None = None,
    observed: argparse.Namespace | None = None,
    begin: Callable[[], None] = lambda: None,
    isolated: bool = False,
    groups: int | None = None,
    only: int | None = None,
    dispatch: str = "box",
) -> Outcome:
    """Run a box over inputs. Progress goes to `report_to`, else to a terminal, unless a function writes rows to it.

    output: the capture file for transmitted packets; rotation: of it. workers: the number of boxes that share the
    packets; isolated: each in a process; groups: by worker; only: the one that this process has; dispatch: who divides
    the packets of interfaces among them (WorkerBoxes). failed: stops the run if it returns True.
    box: the class of a single one. observed: the options by which the run is shown while it lasts (observing.py), and
    of its rights (privileges.py). begin: starts threads, once these rights were dropped. Raises BrokenPipeError if the
    reader of the output has closed it.
    """
    shown = contextlib.nullcontext(report_to) if report_to or rows_on_terminal else progress_line()
    try:
        opened = _open(
            compiled, wanted, settings, inputs, output, workers, rotation, box, isolated, groups, only, dispatch
        )
    except KeyboardInterrupt:
        return stopped_early(wanted)
    links = Links(opened, inputs)
    with opened, shown as progress, observing(opened, observed) as observer:

        def report(done: int, size: int, packets: int) -> bool:
            links.look()
            if reader_is_gone():
                raise BrokenPipeError
            if observer is not None:
                observer.tick()
            return failed() or (progress is not None and progress(done, size, packets))

        def ready() -> None:
            if observed is not None:
                give_up_privileges(observed, inputs, divided=isinstance(opened.source, WorkerSources))
            begin()
            if observer is not None:
                observer.begin()  # threads, which have the rights that are left
            if inputs.live:
                for note in opened.notes if isinstance(opened, WorkerBoxes) else ():
                    print(f"sluice: note: {note}", file=sys.stderr)
                _receiving(inputs)

        return opened.run(inputs, report, ready)


def _open(
    compiled: CompiledStack,
    wanted: Wanted,
    settings: Settings,
    inputs: Inputs,
    output: str | None,
    workers: int,
    rotation: Rotation | None,
    box: type[Box],
    isolated: bool,
    groups: int | None,
    only: int | None,
    dispatch: str,
) -> Box:
    if workers == 1 and dispatch in ("kernel", "queues"):
        raise UsageError(f"--dispatch {dispatch}: packets are divided among several workers: give --workers, too")
    if workers == 1 and not isolated:
        return box(compiled, settings, wanted.python, wanted.options, output, inputs.forwarding, rotation)
    # an input without an end has no last row to wait for, and only interfaces cannot wait
    ordered = not inputs.endless
    receive = _workers_receive(compiled, inputs, isolated, groups, dispatch)
    return WorkerBoxes(
        compiled,
        settings,
        wanted.python,
        wanted.options,
        forwards=inputs.forwarding,
        workers=workers,
        ordered=ordered,
        drops=inputs.live,
        isolated=isolated,
        groups=groups or (GROUPS if inputs.endless and not receive else 1),
        only=only,
        dispatch=dispatch,
    )


def _workers_receive(
    compiled: CompiledStack, inputs: Inputs, isolated: bool, groups: int | None, dispatch: str
) -> bool:
    """Whether workers may receive packets themselves. Raises UsageError if it is requested but not possible."""
    if dispatch == "box":
        return False
    if dispatch != "auto" and groups and groups > 1:
        raise UsageError(f"--dispatch {dispatch}: groups of connections do not move then: leave out --groups {groups}")
    _, why = division(dispatch, compiled.generated.fanout, inputs, isolated)
    if dispatch != "auto" and why:
        raise UsageError(f"--dispatch {dispatch}: {why}: give --dispatch box, or leave it out")
    return why is None and groups is None


def check_workers(
    workers: int, wanted: Wanted, inputs: Inputs, output: str | None = None, isolated: bool = False
) -> None:
    """Raise UsageError where several workers are not possible. isolated: they are processes. Crashes of functions are
    traced then, so that they are reported.
    """
    shared = [function.name for function in wanted.c if function.shared]
    arriving = [function.name for function in wanted.c if function.arrives]
    if (why := refusal(workers, wanted.python, output, shared, isolated, arriving)) is not None:
        raise UsageError(why)
    if isolated or workers > 1:
        wanted.c[:] = [replace(function, needs=function.needs | {"crash"}) for function in wanted.c]
    given = f"--workers {workers}" if workers > 1 else "--isolate"
    if (workers > 1 or isolated) and inputs.forwarding and inputs.on_overload == "open":
        raise UsageError(f"--on-overload open: one worker can let packets pass unseen: leave out {given}")


def _receiving(inputs: Inputs) -> None:
    """Report that the interfaces are open: packets sent from now on are received."""
    names = ", ".join(uri.partition(":")[2] for uri in inputs.uris if is_interface(uri))
    print(f"sluice: receiving from {names}; Ctrl-C ends it", file=sys.stderr, flush=True)


def stopped_early(wanted: Wanted) -> Outcome:
    """The outcome of a run that was stopped before its first packet. Calls the functions' end handlers."""
    for function in wanted.python:
        for ending in function.endings:
            ending()
    return Outcome(0, {}, {}, stopped=True, interrupted=True)
