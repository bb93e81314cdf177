"""sluice chain CHAIN.py -r FILE [-w OUT] | -i A --forward B: run several functions over one stack.

CHAIN.py describes the chain: its functions with their parameters, in sequence (>>) and in parallel (|), and the stack.
All are compiled with the stack into one program, so that parsing and reassembly happen once.

  sluice chain guard.py -r in.pcap -w out.pcap      a capture; what leaves the chain goes to another one
  sluice chain guard.py -i eth1 --forward eth2      inline: what comes in at one interface leaves at the other

With --isolate each function runs in a process of its own, and is restarted if it crashes: it can neither write what
others have nor crash them. It has a user of its own if the chain is started by root, and a filter of system calls if
the kernel has seccomp; a warning says what is missing.

A packet that a function drops is not seen by the functions after it. In parallel all functions decide, and drop wins
over change, change over pass. `sluice show CHAIN.py` says what each function subscribes to and publishes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice.chain.check import check_chain, drops_decided_above
from sluice.chain.describe import describe
from sluice.chain.description import Chain
from sluice.chain.find import find_chain
from sluice.chain.plan import Plan, read_chain
from sluice.chain.processes.commands import ControlSocket
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.instances import StateError
from sluice.chain.processes.limits import end_with_controller
from sluice.chain.processes.program import IsolatedChain, isolate
from sluice.chain.processes.root import Root
from sluice.chain.processes.undetermined import undetermined
from sluice.cli.common.chain_text import chain_picture, chain_text
from sluice.cli.common.detection import prepare_rules
from sluice.cli.common.equivalence import Ideal, check_comparable
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.files import check_function_outputs, check_output, write_text
from sluice.cli.common.forwarding import add_forwarding, check_policies, forwarding_inputs, inline_settings
from sluice.cli.common.inputs import add_inputs, check_inputs, input_files, named
from sluice.cli.common.instances import (
    add_instances,
    chain_state,
    check_instances,
    hosts_of,
    plan_text,
    policies_of,
    with_state,
)
from sluice.cli.common.options import add_command, add_run_options, add_workers
from sluice.cli.common.privileges import add_privileges, check_privileges, give_up_privileges, series_of
from sluice.cli.common.running import (
    check_workers,
    compile_for,
    run_file,
    settings_of,
    stack_of,
    stopped_early,
    warn,
)
from sluice.cli.common.streams import printed_apart
from sluice.cli.common.summary import finish
from sluice.cli.common.written import add_written, rotation_of
from sluice.engine.box import Box, Outcome, Settings
from sluice.engine.functions import Wanted
from sluice.engine.inputs import Inputs, Rotation
from sluice.lang.stack import Stack
from sluice.state.chain_store import ChainStore
from sluice.state.errors import StoreError
from sluice.state.session import session


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "chain", __doc__, action)
    parser.add_argument("chain", metavar="CHAIN.py", help="a Python file that describes a chain")
    add_inputs(parser)
    add_forwarding(parser)
    add_written(parser, "what leaves the chain")
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON; functions then print to standard error"
    )
    parser.add_argument(
        "-o", metavar="FILE", dest="prints", help="where functions print, and write rows (default: standard output)"
    )
    parser.add_argument("--isolate", action="store_true", help="each function runs in a process of its own")
    parser.add_argument(
        "--control", metavar="SOCKET", help="with --isolate: where `sluice chainctl` reaches the running chain"
    )
    add_instances(parser)
    parser.add_argument("--compile-only", action="store_true", help="compile what is not cached, and run nothing")
    parser.add_argument("--no-timeouts", action="store_true", help="nothing times out, as in `sluice flows`")
    add_run_options(parser)
    add_workers(parser, isolates=False)  # its --isolate is of functions
    add_privileges(parser)


def read_file(path: str) -> Chain:
    """The chain that a file describes. Raises CommandError where there is none."""
    if not Path(path).is_file() or not path.endswith(".py"):
        raise CommandError(f"{path}: give a Python file that describes a chain, as in examples/chain/guard.py")
    chain = find_chain(Path(path))
    if chain is None:
        raise CommandError(
            f"{path}: no variable is a Chain: write chain = Chain(function(...) >> function(...), stack=...)"
        )
    return chain


def prepared(chain: Chain, options: argparse.Namespace) -> tuple[Plan, Stack]:
    """A chain that was read and checked, and its stack."""
    plan = read_chain(chain)
    given = chain.stack_path()
    stack = given if isinstance(given, Stack) else stack_of(given, options)
    check_chain(plan, stack)
    return plan, stack


def show_chain(options: argparse.Namespace) -> int:
    """What `sluice show` does with a file that describes a chain."""
    for name in ("layer", "depth"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name}: {options.stack} describes a chain; the option is for stacks")
    plan, stack = prepared(read_file(options.stack), argparse.Namespace(tunnel_ports=[], key=[]))
    data = describe(plan, stack.name or "(without a name)")
    if options.svg:
        check_output(options.svg, options.stack)
        write_text(options.svg, chain_picture(data))
    if options.json:
        print(json.dumps(data))
    elif not options.svg:
        print(chain_text(data))
    return 0


def action(options: argparse.Namespace) -> int:
    """Run it."""
    inputs = forwarding_inputs(options)
    check_policies(options, ())  # its functions have one policy
    if options.prints is not None:
        check_output(options.prints, *input_files(inputs), options.chain)
    with printed_apart(options.prints, apart=options.json and not options.plan):
        outcome = _run(options, inputs)
    return (
        0
        if (options.compile_only or options.plan) and not outcome.stopped
        else finish(outcome, options.json, named(inputs))
    )


def _run(options: argparse.Namespace, inputs: Inputs) -> Outcome:
    """Everything but the summary."""
    wanted = Wanted()
    try:
        check_inputs(inputs)
        rotation = rotation_of(options)
        plan, stack = prepared(read_file(options.chain), options)
        wanted = plan.wanted()
        prepare_rules(wanted)
        isolated = _isolated(plan, options)
        check_privileges(options, inputs, later=[options.state, *series_of(options)])
        check_instances(options)
        check_comparable(options, inputs)
        check_workers(options.workers, wanted, inputs, options.output)
        check_function_outputs(wanted, *input_files(inputs))
        _check_inline(wanted, options, input_files(inputs))
        compiled = compile_for(stack, isolated.wanted() if isolated else wanted, options)
        if isolated:
            isolated.compile(compiled)
            warn(list(undetermined(isolated.plan.c())))
        warn(list(drops_decided_above(plan, compiled.program)))
        if options.compile_only:
            return Outcome(0, {}, {})
        settings = inline_settings(settings_of(options, timeouts=not options.no_timeouts), options)
    except KeyboardInterrupt:
        return stopped_early(wanted)
    # rows and what other functions print are separate, as in `sluice run`
    several = len(plan.members) > 1 and wanted.writes_rows()
    with printed_apart(None, apart=several and options.prints is None and not options.json) as stdout:
        if stdout is not None:
            wanted.direct_rows(stdout)
        if isolated:
            isolated.set_options(wanted)
            return _run_isolated(isolated, stack, settings, inputs, options, rotation)
        with session(options.store, wanted.c, options.state is not None, wanted.python) as state:
            settings = replace(settings, store=state.store, state_file=state.state_file)
            outcome = run_file(
                compiled, wanted, settings, inputs, output=options.output, workers=options.workers, rotation=rotation,
                observed=options, groups=options.groups, dispatch=options.dispatch,
            )  # fmt: skip
            return with_state(options, state.finished(outcome), state.text)


def _isolated(plan: Plan, options: argparse.Namespace) -> IsolatedChain | None:
    """The processes of a chain, with --isolate. Raises UsageError for options that do not go with it."""
    if not options.isolate:
        if options.control is not None:
            raise UsageError("--control: is of a chain that runs with --isolate; give both, or none")
        return None
    for name, given in (("--workers", options.workers != 1), ("--quick", getattr(options, "quick", False))):
        if given:
            raise UsageError(f"{name}: does not go with --isolate; leave one of them out")
    return isolate(plan, options.instances, stores=options.store.kind != "local")


def _run_isolated(
    chain: IsolatedChain,
    described: Stack,
    settings: Settings,
    inputs: Inputs,
    options: argparse.Namespace,
    rotation: Rotation | None,
) -> Outcome:
    """Run it in processes."""
    assert chain.stack is not None
    stack = chain.stack
    stack_functions = chain.wanted()

    def run(box: type[Box]) -> Outcome:
        return run_file(
            stack, stack_functions, settings, inputs, output=options.output, rotation=rotation, box=box, begin=begin
        )

    def begin() -> None:
        """The process of the stack has opened its interfaces. Functions have separate users."""
        if options.user is not None or options.capabilities:
            give_up_privileges(options, inputs)
            end_with_controller()  # the kernel forgets it where the user changes

    try:
        with chain_state(chain, settings, inputs, options) as state:
            if options.plan:
                print(plan_text(chain, options.json))
                return Outcome(0, {}, {})
            return _controlled(chain, described, settings, inputs, options, run, state)
    except StoreError as error:
        raise CommandError(str(error)) from error


def _controlled(
    chain: IsolatedChain,
    described: Stack,
    settings: Settings,
    inputs: Inputs,
    options: argparse.Namespace,
    run: Callable[[type[Box]], Outcome],
    state: ChainStore | None,
) -> Outcome:
    forwards, requests = options.output is not None or inputs.forwarding, None
    root = root_of(inputs, options)
    try:
        if options.control is not None:
            requests = ControlSocket(options.control, lambda plan: check_chain(plan, described))
        controller = Controller(
            chain, settings, forwards, requests=requests, stores=state, log_drops=inputs.live, root=root
        )
        controller.policies, controller.hosts = policies_of(chain, options), hosts_of(chain, options)
        ideal = (
            Ideal(chain.plan, described, controller.settings, inputs, options) if options.check_equivalence else None
        )
        outcome = controller.run(run)
        if ideal is not None:
            outcome = ideal.finish(outcome, state.text() if state else "")
        outcome.reports |= {f"{name}.parts_moved": moved for name, moved in controller.instances.moves.items()}
        return with_state(options, outcome, state.text if state else None)
    except StateError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"--isolate: {error.filename or 'a process'}: {error.strerror}") from error
    finally:
        if requests is not None:
            requests.close()


def root_of(inputs: Inputs, options: argparse.Namespace) -> Root:
    """The action when the process of the stack ends early: files are read again, interfaces continue."""
    replays = inputs.repeatable
    output = options.output or ""
    joins = not (options.capture_size or options.capture_time or output.endswith((".gz", ".zst", ".lz4", ".xz")))
    joins = joins and (not output or Path(output).is_file() or not Path(output).exists())  # a pipe or device is not cut
    return Root(joins and (replays or inputs.live), replays, options.output)


def _check_inline(wanted: Wanted, options: argparse.Namespace, files: list[str]) -> None:
    """Check the output file; report where the decisions of functions have no effect."""
    if options.output is not None:
        check_output(options.output, *files)
    elif options.forward is None and (inline := [function.label for function in wanted.c if function.inline]):
        print(
            f"sluice: note: {', '.join(inline)}: decides on packets, and nothing takes what leaves the chain; -w FILE "
            "does of a capture file, --forward INTERFACE of an interface",
            file=sys.stderr,
        )
