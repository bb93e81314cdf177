"""Services of one process from a TOML file: a table for each, and options for all of them before the tables."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sluice.cli.common.errors import UsageError
from sluice.service.bounds import Limits
from sluice.service.lang.check.scope import Signature
from sluice.service.load import Service, load_file
from sluice.service.lower.program import lower
from sluice.service.names import Names
from sluice.service.serve import (
    COMMON,
    AddressError,
    Backend,
    Tls,
    Wiring,
    read_address,
    read_authorities,
    read_certificate,
    read_networks,
    wire,
)  # fmt: skip

_LIMITS = tuple(each.name for each in dataclasses.fields(Limits) if each.name not in COMMON)
_KEYS = (
    "program",
    "grammar",
    "process",
    "listen",
    "backends",
    "set",
    "tls",
    "alpn",
    "backend_ca",
    "proxy_protocol",
    *_LIMITS,
)


LOG_VARIABLES = (
    "remote_addr", "remote_port", "remote_user", "time_local", "time_iso8601", "msec", "request", "status",
    "bytes_sent", "body_bytes_sent", "http_referer", "http_user_agent", "http_host", "upstream_addr",
    "upstream_header_time", "request_time", "end",
)  # fmt: skip
"""Of access logs; runtime/log_format.c has the same."""

CERTIFICATES = 64
"""Certificates of a service; runtime/tls.h has the same number."""


@dataclass(frozen=True)
class Configured:
    """A service that is ready to be compiled: its C, and how it is run."""

    name: str
    source: str
    wiring: Wiring
    limits: Limits


def checked_limits(values: dict[str, Any]) -> Limits:
    """Limits whose values are in their ranges. Raises UsageError."""
    for name, value in values.items():
        if name == "events":
            if value not in ("epoll", "io_uring"):
                raise UsageError(f"--events {value}: epoll or io_uring")
            continue
        if name == "health_path":
            if value and not re.fullmatch(r"/[!-~]{0,511}", str(value)):
                raise UsageError(f"--health-path {value}: a path such as /health, of at most 512 characters")
            continue
        if name == "access_log":
            _check_log(str(value))
            continue
        if name == "access_log_format":
            _check_format(str(value))
            continue
        if not isinstance(value, int) or value < 0:
            raise UsageError(f"--{name.replace('_', '-')} {value}: a number from 0")
    limits = Limits(**values)
    if not 1 <= limits.workers <= 256:
        raise UsageError(f"--workers {limits.workers}: from 1 to 256")
    if not 64 <= limits.buffer_size <= 1 << 24:
        raise UsageError(f"--buffer-size {limits.buffer_size}: from 64 to {1 << 24} bytes")
    for name in ("instances", "buffers"):
        if getattr(limits, name) < limits.workers:
            raise UsageError(f"--{name} {getattr(limits, name)}: one for each worker at least")
    if not 1 <= limits.share <= 1000:
        raise UsageError(f"--share {limits.share}: from 1 to 1000")
    if not 1 <= limits.slice <= 1_000_000:
        raise UsageError(f"--slice {limits.slice}: from 1 to 1000000 microseconds")
    if not 1 <= limits.tls_memory <= 1 << 20:
        raise UsageError(f"--tls-memory {limits.tls_memory}: from 1 to {1 << 20} MiB")
    if limits.health > 86400:
        raise UsageError(f"--health {limits.health}: at most 86400 seconds")
    for name in ("health_rise", "health_fall"):
        if not 1 <= getattr(limits, name) <= 1000:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(limits, name)}: from 1 to 1000")
    if limits.health_path and not limits.health:
        raise UsageError(f"--health-path {limits.health_path}: give --health, the seconds between two checks, too")
    if not 1 <= limits.access_log_buffer <= 1 << 20:
        raise UsageError(f"--access-log-buffer {limits.access_log_buffer}: from 1 to {1 << 20} KiB")
    if limits.access_log_keep > 1000:
        raise UsageError(f"--access-log-keep {limits.access_log_keep}: at most 1000 files")
    if limits.access_log:
        limits = dataclasses.replace(limits, access_log=str(Path(limits.access_log).absolute()))
    if limits.cache > 1 << 20:
        raise UsageError(f"--cache {limits.cache}: at most {1 << 20} MiB")
    if limits.http2 > 1000:
        raise UsageError(f"--http2 {limits.http2}: at most 1000 streams of a connection; 0: none")
    if limits.http2 and limits.buffer_size < 16384:
        raise UsageError(f"--buffer-size {limits.buffer_size}: at least 16384 bytes with --http2")
    if not 1 <= limits.http2_memory <= 1 << 20:
        raise UsageError(f"--http2-memory {limits.http2_memory}: from 1 to {1 << 20} MiB")
    if not 1 <= limits.body <= 1 << 30:
        raise UsageError(f"--body {limits.body}: from 1 to {1 << 30} MiB")
    if limits.backend_proxy > 2:
        raise UsageError(f"--backend-proxy {limits.backend_proxy}: version 1 or 2, or 0 for none")
    if limits.keep > 4096:
        raise UsageError(f"--keep {limits.keep}: at most 4096")
    return limits


def _check_log(path: str) -> None:
    if path and (not Path(path).absolute().parent.is_dir() or (Path(path).exists() and not Path(path).is_file())):
        raise UsageError(f"--access-log {path}: give a file in a folder that exists")


def _check_format(text: str) -> None:
    names = re.findall(r"\$([a-z_0-9]*)", text)
    for each in names:
        if each not in LOG_VARIABLES:
            raise UsageError(f"--access-log-format: ${each} is not known; known are ${', $'.join(LOG_VARIABLES)}")
    if text not in ("combined", "json") and not 1 <= len(names) < 64:
        raise UsageError(f"--access-log-format {text}: combined, json, or 1 to 63 variables such as $request")
    if "\n" in text or "\0" in text:
        raise UsageError("--access-log-format: a line is one line")


def named(text: str) -> tuple[str, str]:
    """CHANNEL=ADDRESS, or an address alone."""
    name, equals, rest = text.partition("=")
    return (name, rest) if equals else ("", text)


def read_tls(
    service: Service,
    process: Signature,
    certificates: list[str],
    protocols: str | None,
    authorities: str | None,
    http2: int = 0,
) -> Tls:
    """TLS of a service. Without `protocols`, those are negotiated that its messages have, and with `http2` that, too.
    Raises AddressError and UsageError.
    """
    if len(certificates) > CERTIFICATES:
        raise UsageError(f"--tls is given {len(certificates)} times: at most {CERTIFICATES}")
    own = (*(("h2",) if http2 else ()), *service.protocols(process))
    names = own if protocols is None else tuple(protocols.split(",")) if protocols else ()
    if any(not each or not each.isascii() for each in names) or sum(len(each) + 1 for each in names) > 256:
        raise UsageError(f"--alpn {protocols}: names such as http/1.1, separated by commas; at most 256 characters")
    return Tls(
        tuple(read_certificate(each) for each in certificates),
        names,
        "" if authorities is None else read_authorities(authorities),
    )


def with_cache(service: Service, limits: Limits, given: bool) -> Limits:
    """Limits with the cache that the program itself names, unless the size is `given`, also as 0. Raises UsageError."""
    if not given:
        limits = dataclasses.replace(limits, cache=service.cache)
    if limits.cache and limits.buffer_size < 4096:
        raise UsageError(f"--buffer-size {limits.buffer_size}: at least 4096 bytes with a cache")
    return limits


def require_web(service: Service, process: Signature, wiring: Wiring, limits: Limits) -> None:
    """Refuse options and backends of HTTP where a service uses another protocol. Raises UsageError."""
    if wiring.uplinks and not service.reads_web(process):
        raise UsageError("backends h2:// and h2c://: this service does not use HTTP; write their addresses alone")
    if wiring.uplinks and limits.backend_proxy:
        raise UsageError(
            "--backend-proxy: a connection of HTTP/2 to a backend has requests of several clients, and no header of one"
        )
    if wiring.uplinks and limits.buffer_size < 16384:
        raise UsageError(f"--buffer-size {limits.buffer_size}: at least 16384 bytes with backends of HTTP/2")
    if limits.http2 and not service.accepts_web(process, wiring.accept):
        raise UsageError("--http2: the clients of this service do not use HTTP; omit it")
    if limits.cache and not service.reads_web(process):
        raise UsageError("--cache: no backend of this service uses HTTP; omit it")
    if limits.access_log and not service.accepts_web(process, wiring.accept):
        raise UsageError("--access-log: the clients of this service do not use HTTP; omit it")


def read_config(path: str, limits: Limits, names: Names, cached: bool = False) -> list[Configured]:
    """The services of a file; limits that it does not give are those given, and so is the size of the cache if it is
    `cached`. Raises UsageError and ServiceError.
    """
    try:
        data: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; give a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    tables = {name: cast(dict[str, Any], table) for name, table in data.items() if isinstance(table, dict)}
    common = {name: value for name, value in data.items() if name not in tables}
    for name in common:
        if name not in COMMON:
            raise UsageError(f"{path}: '{name}' stands before the tables; write it in the table of a service")
    if not tables:
        raise UsageError(f"{path}: no service; write a table [NAME] with program, listen and backends")
    every = {**dataclasses.asdict(limits), **common}
    return [_service(path, name, table, every, names, cached) for name, table in tables.items()]


def _service(
    path: str, name: str, table: dict[str, Any], limits: dict[str, Any], names: Names, cached: bool
) -> Configured:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise UsageError(f"{path}: [{name!r}] is no name; use letters, digits, _ and -")
    for key in table:
        if key in COMMON:
            raise UsageError(f"{path}: '{key}' is for all services; write it before the tables")
        if key not in _KEYS:
            raise UsageError(f"{path}: [{name}] has no key '{key}'; known here: {', '.join(_KEYS)}")
    for key in ("program", "listen"):
        if not isinstance(table.get(key), str):
            raise UsageError(f'{path}: [{name}] has no {key}; write {key} = "..."')
    program = table["program"]
    beside = Path(path).parent / program
    grammar = table.get("grammar", [])
    service = load_file(
        str(beside) if beside.is_file() else program,
        [grammar] if isinstance(grammar, str) else grammar,
        table.get("set"),
    )
    process = service.process(table.get("process"))
    checked = checked_limits({**limits, **{key: table[key] for key in _LIMITS if key in table}})
    checked = with_cache(service, checked, cached or "cache" in table)
    backends = table.get("backends", {})
    given: dict[str, Any] = cast(dict[str, Any], backends) if isinstance(backends, dict) else {"": backends}
    try:
        wiring = wire(
            process,
            (named(table["listen"])[0], read_address(named(table["listen"])[1])),
            [(channel, _addresses(each, names)) for channel, each in given.items() if each],
            read_tls(service, process, _texts(table, "tls"), table.get("alpn"), table.get("backend_ca"), checked.http2),
            read_networks(",".join(_texts(table, "proxy_protocol"))),
        )
    except AddressError as error:
        raise UsageError(f"{path}: [{name}]: {error}") from error
    require_web(service, process, wiring, checked)
    return Configured(name, lower(service, process).source, wiring, checked)


def _texts(table: dict[str, Any], key: str) -> list[str]:
    value = table.get(key, [])
    return [str(each) for each in (cast(list[Any], value) if isinstance(value, list) else [value])]


def _addresses(value: Any, names: Names) -> list[Backend]:
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    return [backend for each in items for backend in names.use(str(each))]
