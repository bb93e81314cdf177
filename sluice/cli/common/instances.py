"""Options of `sluice chain` for several instances of functions, and for state in a store."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Generator
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

from sluice.chain.hosts.engine import EngineError, find_engine
from sluice.chain.hosts.relay import Hosts
from sluice.chain.hosts.tunnel import opened
from sluice.chain.processes.partition import EVEN, Candidate
from sluice.chain.processes.policy import Manager, Policy, find_policy
from sluice.chain.processes.program import IsolatedChain
from sluice.chain.processes.row_files import OUT
from sluice.chain.processes.sample import sample
from sluice.chain.processes.snapshot import contents
from sluice.cli.common.errors import UsageError
from sluice.cli.common.files import write_text
from sluice.cli.common.options import add_store, check_store
from sluice.engine.box import Outcome, Settings
from sluice.engine.inputs import Inputs
from sluice.state.chain_store import ChainStore, chain_store, hash_seed
from sluice.state.errors import StoreError

INSTANCES_MOST = 32
OFF = "SLUICE_STATE_OFF"
"""The environment variable by which tests switch mechanisms off."""


def add_instances(parser: argparse.ArgumentParser) -> None:
    """The options."""
    add_store(parser)
    parser.add_argument(
        "--state", metavar="FILE", help="at the end, write what is stored to this file, a JSON line for each object"
    )
    parser.add_argument(
        "--instances",
        type=_instances,
        default={},
        metavar="NAME=N,...",
        help="with --isolate: so many processes of these functions share their traffic",
    )
    parser.add_argument(
        "--partition",
        type=_scopes,
        default={},
        metavar="NAME=SCOPE,...",
        help="divide the traffic of these functions by a scope of their objects (default: by the load of the input)",
    )
    parser.add_argument(
        "--policy",
        type=_pairs,
        default={},
        metavar="NAME=POLICY,...",
        help="when these functions get more or fewer instances, and which are stragglers: load[:PACKETS a second], "
        "lag[:BATCHES], or FILE.py:FUNCTION",
    )
    parser.add_argument(
        "--engine",
        metavar="ENGINE",
        help="run the processes of instances with state in a store on other hosts: ray, ray:ADDRESS, or command:WORDS, "
        "a command that runs another one there, as command:'ssh host{number}'; needs --tunnel",
    )
    parser.add_argument(
        "--tunnel", metavar="ADDRESS", help="the address of this host to which other hosts send packets, by UDP"
    )
    parser.add_argument(
        "--check-equivalence",
        action="store_true",
        help="run the ideal chain beside this one: one instance of each function, local state; compare both",
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print how the traffic would be divided, and what event messages have; run nothing; with --json as JSON",
    )


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in text.split(","):
        name, sign, value = one.partition("=")
        if not sign or not name or not value:
            raise argparse.ArgumentTypeError(f"'{one}': write NAME=VALUE")
        found[name] = value
    return found


def _instances(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in _pairs(text).items():
        if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= INSTANCES_MOST:
            raise argparse.ArgumentTypeError(
                f"'{value}' is no number of instances: write one from 1 to {INSTANCES_MOST}"
            )
        found[name] = int(value)
    return found


def _scopes(text: str) -> dict[str, str]:
    return {name: value.replace(" ", "") for name, value in _pairs(text).items()}


def check_instances(options: argparse.Namespace) -> None:
    """Raises UsageError for options that need --isolate, and for those that need a store."""
    check_store(options)
    for name, given in (
        ("--instances", options.instances),
        ("--partition", options.partition),
        ("--plan", options.plan),
        ("--policy", options.policy),
        ("--engine", options.engine),
    ):
        if given and not options.isolate:
            raise UsageError(f"{name}: is of functions in processes of their own; give --isolate, too")
    if (options.engine is None) != (options.tunnel is None):
        raise UsageError(
            "--engine, --tunnel: give both: how hosts are chosen, and the address of this one that they reach"
        )
    if options.engine is not None and (options.store.kind != "server" or options.store.path):
        raise UsageError("--engine: other hosts need a store that they reach: --store valkey://HOST:PORT")
    if options.tunnel is not None and _is_every_address(options.tunnel):
        raise UsageError(f"--tunnel {options.tunnel}: means all addresses of a host: give the one that others reach")


def _is_every_address(text: str) -> bool:
    """Whether it is 0.0.0.0 or ::, to which the packets of another host do not lead here."""
    with contextlib.suppress(ValueError):
        return ip_address(text).is_unspecified
    return False


def hosts_of(chain: IsolatedChain, options: argparse.Namespace) -> Hosts | None:
    """Where instances run, by --engine; None: on this host. Raises UsageError."""
    if options.engine is None:
        return None
    try:
        hosts = Hosts(find_engine(options.engine), options.tunnel)
        opened(hosts.tunnel).close()
    except (EngineError, OSError) as error:
        raise UsageError(f"--engine {options.engine}, --tunnel {options.tunnel}: {error}") from error
    for part in filter(hosts.has, chain.leaders):
        given = part.options[0] if part.options else None
        path = str(given.get(OUT, "")) if isinstance(given, dict) else ""
        if path and not path.startswith("/dev/"):
            raise UsageError(
                f"--engine: '{part.name}' writes rows to {path}, which would be on other hosts: leave that out, and "
                "they come on the standard output"
            )
    return hosts


def policies_of(chain: IsolatedChain, options: argparse.Namespace) -> Manager | None:
    """The policies of --policy. Raises UsageError."""
    found: dict[str, Policy] = {}
    for name, text in options.policy.items():
        if name not in chain.vertices():
            known = ", ".join(chain.vertices()) or "none"
            raise UsageError(f"--policy {name}: it has no instances; functions that have: {known}")
        try:
            found[name] = find_policy(text)
        except ValueError as error:
            raise UsageError(f"--policy {name}: {error}") from error
    return Manager(found) if found else None


@contextlib.contextmanager
def chain_state(
    chain: IsolatedChain, settings: Settings, inputs: Inputs, options: argparse.Namespace
) -> Generator[ChainStore | None]:
    """The store of a chain, once it is known how the traffic is divided. Raises StoreError, RunError."""
    seed = hash_seed(options.store, settings.seed)
    sample(chain, settings, inputs, seed, options.partition)
    if options.plan or options.store.kind == "local":
        yield None
        return
    off = frozenset(filter(None, os.environ.get(OFF, "").split(",")))
    with chain_store(options.store, chain, off, seed=seed) as store:
        yield store


def with_state(options: argparse.Namespace, outcome: Outcome, text: Callable[[], str] | None) -> Outcome:
    """Write the final state, with --state."""
    if options.state is not None and text is not None:
        try:
            write_text(options.state, text())
        except StoreError as error:
            return replace(outcome, failure=outcome.failure or str(error))
    return outcome


def plan_text(chain: IsolatedChain, as_json: bool) -> str:
    """How the traffic of functions is divided, and the data of connections in event messages."""
    plans = [_plan(chain, name) for name in chain.vertices()]
    messages = contents(chain)
    if as_json:
        return json.dumps({"functions": plans, "messages": messages})
    lines: list[str] = []
    for plan in plans:
        known = plan["imbalance"] > 0
        even = (
            f"the instance with most has {plan['imbalance']:.2f} times the mean" if known else "the load is not known"
        )
        lines.append(f"{plan['function']}: {plan['instances']} instances, divided by {plan['scope']}; {even}")
        lines.append(f"  scopes     {', '.join(plan['scopes'])}; even is up to {EVEN}")
        lines.append(f"  own        {', '.join(plan['cached']) or '-'}")
        lines.append(f"  shared     {', '.join(plan['shared']) or '-'}")
    lines = lines or ["no function has several instances, or state in a store"]
    lines += [f"message {event}: {', '.join(has) or 'number of the instance'}" for event, has in messages.items()]
    return "\n".join(lines)


def _plan(chain: IsolatedChain, name: str) -> dict[str, Any]:
    chosen: Candidate = chain.scopes[name]
    of = next(part.functions.c for part in chain.leaders if part.name == name)
    shared = of[0].shared if of else ()
    return {
        "function": name,
        "instances": len(chain.instances_of(name)),
        "scope": chosen.name,
        "scopes": [one.name for one in chain.candidates(name)],
        "imbalance": round(chosen.imbalance, 3),
        "cached": list(chosen.cached),
        "shared": [item.name for item in shared if item.name not in chosen.cached],
    }
