"""Runs services until they are stopped: compiles them, reloads them, and prints their counters."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from sluice.cli.common.errors import SHOWN, CommandError, UsageError
from sluice.cli.common.monitoring import control_server, remove_socket
from sluice.cli.common.progress import busy
from sluice.cli.common.services import Configured
from sluice.service.bounds import bounds_of
from sluice.service.build import build_program
from sluice.service.names import Names
from sluice.service.operation import Events, Operation, Plan, RefusedError
from sluice.service.serve import AddressError, read_address

FILES = 1.0
"""Seconds between two looks at files of backends."""


def run_services(
    options: argparse.Namespace, configured: Callable[[argparse.Namespace, Names], list[Configured]]
) -> int:
    """Compile services, and run them until they are stopped. `configured` reads them, at the start and for each reload.
    Raises UsageError and CommandError, and what `configured` raises.
    """
    as_json: bool = options.json
    if options.drain < 0:
        raise UsageError(f"--drain {options.drain}: a number from 0")
    if not 1 <= options.resolve <= 86400:
        raise UsageError(f"--resolve {options.resolve}: from 1 to 86400 seconds")
    try:
        metrics = None if options.metrics is None else read_address(options.metrics)
    except AddressError as error:
        raise UsageError(str(error)) from error

    def ready(plan: Plan, number: int | None, address: str) -> None:
        if number is None:
            print(json.dumps({"metrics": address}) if as_json else f"metrics at http://{address}/", flush=True)
            return
        wiring, limits = plan.services[number]
        found = bounds_of(
            plan.program,
            wiring.channels,
            limits,
            number,
            wiring.folders,
            wiring.encrypted,
            bool(wiring.trusted),
            wiring.uplinks,
        )
        data = {"ready": address, "service": plan.names[number], **dataclasses.asdict(found)}
        text = f"{plan.names[number]} serves at {address}; at most {found.total:,} bytes of memory"
        print(json.dumps(data) if as_json else text, flush=True)

    def reloaded() -> None:
        print(json.dumps({"reloaded": True}) if as_json else "reloaded", flush=True)

    def drained(ended: int) -> None:
        text = f"the version before has ended; connections that were ended by --drain: {ended}"
        print(json.dumps({"drained": True, "ended": ended}) if as_json else text, flush=True)

    def refused(why: str) -> None:
        print(f"sluice: not reloaded: {why}", file=sys.stderr, flush=True)

    def again(what: dict[str, Any]) -> tuple[Plan, Callable[[], None]]:
        try:
            changed, draft = _changed(options, what), names.draft()
            made = _plan(configured(changed, draft))
        except (*SHOWN, UsageError, CommandError, OSError) as error:
            raise RefusedError(str(error)) from error

        def use() -> None:
            nonlocal options
            options = changed
            names.adopt(draft)

        return made, use

    names = Names(lambda why: print(f"sluice: {why}", file=sys.stderr, flush=True))
    plan = _plan(configured(options, names))
    control: str | None = options.control
    server = None
    try:
        operation = Operation(again, Events(ready, reloaded, drained, refused), metrics, options.drain)
        if control is not None:
            server = control_server(control, operation.answer)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
        watching = threading.Thread(target=_watch, args=(names, operation, options.resolve, as_json), daemon=True)
        watching.start()
        status = operation.run(plan)
    except OSError as error:
        raise CommandError(f"cannot listen: {error.strerror or error}; give another address") from error
    finally:
        if server is not None and control is not None:
            server.shutdown()
            server.server_close()
            remove_socket(control)
    _print_counters(operation.totals, as_json)
    return 1 if status else 0


def _watch(names: Names, operation: Operation, resolve: int, as_json: bool) -> None:
    """Reload when backends have changed: files are looked at each second, names are resolved each `resolve` seconds. A
    reload that is refused is tried again.
    """
    refused, resolved = "", time.monotonic()
    while True:
        time.sleep(FILES)
        due = time.monotonic() - resolved >= resolve
        if due:
            resolved = time.monotonic()
        found = names.changed(due)
        if not found:
            continue
        why = operation.answer({"do": "reload"}).get("error", "")
        if why and why != refused:
            print(f"sluice: backends have changed, but: {why}", file=sys.stderr, flush=True)
        refused = why
        for text, backends in found.items() if not why else ():
            now = [
                f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}" for each in backends
            ]
            print(
                json.dumps({"backends": text, "now": now}) if as_json else f"{text} is now {', '.join(now)}", flush=True
            )


def _changed(options: argparse.Namespace, what: dict[str, Any]) -> argparse.Namespace:
    """The options with the changes of a reload: the backends, from now on."""
    backends: Any = what.get("backends")
    if backends is None:
        return options
    if options.config is not None:
        raise UsageError("the backends of these services are in the file of --config: change them there")
    if not isinstance(backends, list) or not all(isinstance(each, str) for each in cast(list[Any], backends)):
        raise UsageError("the backends are not a list of texts")
    return argparse.Namespace(**{**vars(options), "backends": backends})


def _plan(services: list[Configured]) -> Plan:
    with busy("compiling"):
        tls = any(each.wiring.encrypted for each in services)
        http2 = any(each.limits.http2 or each.wiring.uplinks for each in services)
        program = build_program(services[0].name, *(each.source for each in services), tls=tls, http2=http2)
    return Plan(program, [each.name for each in services], [(each.wiring, each.limits) for each in services])


def _print_counters(totals: dict[str, dict[str, int]], as_json: bool) -> None:
    for service, counters in totals.items():
        if as_json:
            print(json.dumps({"service": service, "counters": counters}))
            continue
        if len(totals) > 1:
            print(f"{service}:")
        width = max((len(f"{value:,}") for value in counters.values()), default=1)
        for name, value in counters.items():
            if value:
                print(f"{value:>{width},} {name}")
