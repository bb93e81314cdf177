"""sluice serve PROGRAM: compile a service written in FLICK, and run it.

PROGRAM is a file, or the name of a ready service: --list names them. Its grammars are those of --grammar, or of its
first line.

Each connection that --listen accepts has an instance of the program's process; --backends says where the other channels
lead. The service runs until Ctrl-C or SIGTERM, and then prints what it counted. --check only checks the program, and
says its types and the memory that it takes.

  sluice serve http_balancer --listen 127.0.0.1:8080 --backends 127.0.0.1:8081,127.0.0.1:8082
  sluice serve router.fk --grammar memcached_binary --listen 127.0.0.1:11211 --backends 127.0.0.1:11301,127.0.0.1:11302

--config FILE runs several services in one process, each with its own memory and share of the cores' time. The file is
TOML: a table [NAME] for each, with program, listen, backends, and the options above as keys; workers and slice stand
before the tables.

--access-log FILE has a line for each request of HTTP. SIGUSR1 opens FILE anew, after it was renamed.

SIGHUP, or `sluice reload SOCKET` with --control SOCKET, reads the program or FILE again, and starts a new process with
it. New connections go there; those that are there go on with the version before.

ADDRESS is HOST:PORT; a port of 0 is chosen by the system. A backend can be a folder, whose files are sent: a path that
begins with /, ./ or ../. One that is written tls://HOST:PORT is connected by TLS, and its certificate has to have the
name HOST; h2://HOST:PORT is the same with HTTP/2, and h2c://HOST:PORT has HTTP/2 without TLS. dns://HOST:PORT is all
addresses of a name, and @FILE has a backend in each line. Names are resolved again each --resolve seconds, and FILE is
watched: when they have other backends, the services are reloaded. A channel is named before it where there are
several: --backends caches=10.0.0.1:11211,10.0.0.2:11211.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any

from sluice.cli.common.errors import UsageError
from sluice.cli.common.options import add_command
from sluice.cli.common.progress import busy
from sluice.cli.common.services import Configured, checked_limits, named, read_config, read_tls, require_web, with_cache
from sluice.cli.common.serving import run_services
from sluice.service.bounds import Bounds, Limits, bounds_of
from sluice.service.build import build_program
from sluice.service.describe import describe
from sluice.service.grammar.ready import ready_names
from sluice.service.lang.errors import ServiceError
from sluice.service.load import Service, load_file, ready_services
from sluice.service.lower.program import lower
from sluice.service.names import Names
from sluice.service.serve import Address, AddressError, Backend, read_address, read_networks, wire

_BACKENDS = 2
"""The number of channels that --check assumes for an array without --backends when it computes memory."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "serve", __doc__, action)
    parser.add_argument("program", metavar="PROGRAM", nargs="?", help="a FLICK program, or a ready service")
    parser.add_argument("--list", action="store_true", help="name the ready services and grammars, and end")
    parser.add_argument("--config", metavar="FILE", help="several services, from a TOML file")
    parser.add_argument("--listen", metavar="[CHANNEL=]ADDRESS", help="where connections are accepted")
    parser.add_argument(
        "--backends",
        action="append",
        default=[],
        metavar="[CHANNEL=]ADDRESS,...",
        help="what a channel, or each channel of an array, is connected to; may be given several times",
    )
    names = ", ".join(ready_names())
    parser.add_argument(
        "--grammar", action="append", default=[], metavar="GRAMMAR", help=f"message grammars: a file, or one of {names}"
    )
    parser.add_argument("--process", metavar="NAME", help="which process, if the program has several")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=N", dest="settings", help="a compile-time parameter's value"
    )
    defaults = Limits()
    for name, text in (
        ("workers", "threads that serve"),
        ("instances", "connections at once"),
        ("buffers", "buffers of all connections"),
        ("buffer_size", "bytes of a buffer"),
        ("idle", "seconds after which a connection ends on which nothing happens; 0: never"),
        ("timeout", "seconds in which a backend has to answer; 0: no limit"),
        ("message_time", "seconds in which a message has to arrive; 0: no limit"),
        ("body_time", "seconds of a period in which a forwarded body has to move; 0: no limit"),
        ("body_rate", "bytes that it has to move in each of these seconds"),
        ("most", "connections to a backend that are in use; 0: any number"),
        ("down", "seconds for which a backend that failed counts as down"),
        ("splice", "bytes from which on a body that nothing reads passes in the kernel; 0: never"),
        ("keep", "idle connections to each backend that a worker keeps open"),
        ("share", "share of the cores' time, compared with other services of --config"),
        ("slice", "microseconds of a turn"),
        ("health", "seconds between two health checks of a backend; 0: none"),
        ("health_rise", "checks in a row after which a backend is back"),
        ("health_fall", "failed checks in a row after which a backend is down"),
        ("access_log_size", "MiB after which the access log is renamed, and a new file begun; 0: never"),
        ("access_log_keep", "files before it that are kept"),
        ("access_log_buffer", "KiB of lines of the access log that a worker holds until they are written"),
        ("http2", "streams of a connection of HTTP/2 at once; 0: clients use HTTP/1.1 only"),
        ("http2_memory", "MiB of memory of HTTP/2"),
        ("body", "MiB of a body of HTTP whose length is not known before"),
        ("backend_proxy", "version of the PROXY header that backends are sent, 1 or 2; 0: none"),
        ("handshake", "seconds in which a TLS handshake has to be done; 0: no limit"),
        ("handshakes", "TLS handshakes with clients at once; 0: any number"),
        ("tls_memory", "MiB of memory of TLS"),
    ):
        default = getattr(defaults, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=default, metavar="N", help=f"{text} ({default})"
        )
    parser.add_argument(
        "--cache",
        type=int,
        metavar="N",
        help="MiB in which responses of HTTP backends are cached; 0: none (as many as the program says, or none)",
    )
    parser.add_argument(
        "--events",
        choices=("epoll", "io_uring"),
        default=defaults.events,
        help=f"what reports events ({defaults.events})",
    )
    parser.add_argument(
        "--tls",
        action="append",
        default=[],
        metavar="CHAIN,KEY",
        help="clients use TLS: a certificate chain and its key, PEM files; again for other names of this server",
    )
    parser.add_argument(
        "--alpn", metavar="NAME,...", help="protocols of TLS that are negotiated (http/1.1 for programs of HTTP)"
    )
    parser.add_argument(
        "--backend-ca", metavar="FILE", help="certificates that sign those of backends (default: those of the system)"
    )
    parser.add_argument(
        "--health-path", default="", metavar="PATH", help="health checks request it by HTTP: the status is 200 to 399"
    )
    parser.add_argument(
        "--proxy-protocol",
        default="",
        metavar="NETWORK,...",
        help="addresses of proxies: connections from there begin with a PROXY header, which names the client",
    )
    parser.add_argument(
        "--access-log",
        default="",
        metavar="FILE",
        help="a line for each request of HTTP; SIGUSR1 opens the file anew, after it was renamed",
    )
    parser.add_argument(
        "--access-log-format",
        default=defaults.access_log_format,
        metavar="FORMAT",
        help="combined (as of nginx), json, or a text with nginx's variables, as '$remote_addr $request' (combined)",
    )
    parser.add_argument("--metrics", metavar="ADDRESS", help="where counters are read by HTTP, in Prometheus' format")
    parser.add_argument(
        "--control", metavar="SOCKET", help="a Unix socket by which `sluice reload` gives a new program or new backends"
    )
    parser.add_argument(
        "--drain",
        type=int,
        default=60,
        metavar="N",
        help="seconds in which connections of the version before may end after a reload (60)",
    )
    parser.add_argument(
        "--resolve",
        type=int,
        default=30,
        metavar="N",
        help="seconds after which names of backends are resolved again (30)",
    )
    parser.add_argument("--check", action="store_true", help="check the program, print its types and memory, and end")
    parser.add_argument("--print-c", action="store_true", help="print the generated C, and end")
    parser.add_argument("--json", action="store_true", help="print JSON")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.list:
        print("services: " + ", ".join(ready_services()) + "\ngrammars: " + ", ".join(ready_names()))
        return 0
    if (options.program is None) == (options.config is None):
        raise UsageError("name a program, or give --config FILE: see sluice serve --list")
    if options.config is None and (options.check or options.print_c):
        return _look(options)
    return run_services(options, _configured)


def _look(options: argparse.Namespace) -> int:
    """Print the output of --check or --print-c for a program."""
    service = _load(options)
    processes = service.checked.processes
    if options.check and options.process is None and len(processes) != 1:
        memory = f"choose a process: --process {' or '.join(sorted(processes))}" if processes else None
        _print(describe(service, None, memory), options.json)
        return 0
    process = service.process(options.process)
    if options.check:
        limits = with_cache(service, _limits(options), options.cache is not None)
        _print(describe(service, process, _checked_bounds(service, process, options, limits)), options.json)
        return 0
    print(lower(service, process).source, end="")
    return 0


def _load(options: argparse.Namespace) -> Service:
    service = load_file(options.program, options.grammar, _settings(options.settings))
    for warning in service.warnings:
        print(f"sluice: warning: {warning}", file=sys.stderr)
    return service


def _configured(options: argparse.Namespace, names: Names) -> list[Configured]:
    """The services of the command line, or of --config."""
    limits = _limits(options)
    if options.config is not None:
        return read_config(options.config, limits, names, options.cache is not None)
    service = _load(options)
    limits = with_cache(service, limits, options.cache is not None)
    process = service.process(options.process)
    if options.listen is None:
        raise UsageError("--listen is missing: say where connections are accepted, such as --listen 127.0.0.1:11211")
    try:
        wiring = wire(
            process,
            _one(options.listen),
            [_several(each, names) for each in options.backends],
            read_tls(service, process, options.tls, options.alpn, options.backend_ca, options.http2),
            read_networks(options.proxy_protocol),
        )
    except AddressError as error:
        raise UsageError(str(error)) from error
    require_web(service, process, wiring, limits)
    return [Configured(process.name, lower(service, process).source, wiring, limits)]


def _checked_bounds(service: Any, process: Any, options: argparse.Namespace, limits: Limits) -> Bounds | str:
    """The memory of a process with the given backends, or the reason why it is unknown."""
    try:
        lowered = lower(service, process)
    except ServiceError as error:
        return f"not compiled: {error}"
    channels = sum(_BACKENDS if each.kind == "array" else 1 for each in process.channels)
    folders, tls, uplinks = False, bool(options.tls), 0
    if options.backends:
        names = Names(lambda why: None)
        backends = [each for text in options.backends for each in _several(text, names)[1]]
        channels, folders = 1 + len(backends), any(each.port == 0 for each in backends)
        tls, uplinks = tls or any(each.name for each in backends), sum(each.http2 for each in backends)
    with busy("compiling"):
        program = build_program(process.name, lowered.source, tls=tls, http2=bool(limits.http2 or uplinks))
    proxied = bool(options.proxy_protocol)
    return bounds_of(program, channels, limits, folders=folders, tls=tls, proxied=proxied, uplinks=uplinks)


def _print(data: dict[str, Any], as_json: bool) -> None:
    print(json.dumps(data) if as_json else "\n".join(data["text"]))


def _limits(options: argparse.Namespace) -> Limits:
    given = {each.name: getattr(options, each.name) for each in dataclasses.fields(Limits)}
    return checked_limits({**given, "cache": given["cache"] or 0})


def _settings(given: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not value.isdigit():
            raise UsageError(f"--set {each}: write NAME=NUMBER")
        found[name] = int(value)
    return found


def _one(text: str) -> tuple[str, Address]:
    name, rest = named(text)
    return name, read_address(rest)


def _several(text: str, names: Names) -> tuple[str, list[Backend]]:
    name, rest = named(text)
    return name, [backend for each in rest.split(",") if each for backend in names.use(each)]
