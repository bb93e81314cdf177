"""The memory of a service, known before it runs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sluice.service.grammar.plan import BODY


@dataclass(frozen=True)
class Limits:
    """The memory that is allocated at start, for all workers together."""

    instances: int = 4096
    buffers: int = 8192
    buffer_size: int = 16384
    workers: int = 1
    idle: int = 600
    """Seconds after which an instance ends that did nothing; 0: never."""
    timeout: int = 30
    """Seconds in which a backend has to answer; 0: no limit."""
    message_time: int = 30
    """Seconds in which a message has to arrive, or its beginning if it is forwarded as it is received; 0: no limit."""
    body_time: int = 60
    """Seconds of a period in which `body_rate` bytes for each of them have to pass, of a client's message that is
    forwarded while it arrives, and of the output to a connection; 0: no limit.
    """
    body_rate: int = 100
    keep: int = 64
    """Idle connections to each backend that a worker keeps open, on average."""
    most: int = 0
    """Connections to a backend that are in use; 0: any number."""
    down: int = 5
    """Seconds for which a backend that failed counts as down; 0: it never does."""
    splice: int = 65536
    """Bytes from which on a body that nothing reads passes in the kernel; 0: never."""
    health: int = 0
    """Seconds between two health checks of a backend; 0: there are none."""
    health_rise: int = 2
    """Checks in a row that put a backend back."""
    health_fall: int = 3
    """Consecutive failed checks after which it is not used."""
    health_path: str = ""
    """The target of the HTTP request; empty: a backend is only connected."""
    handshake: int = 10
    """Seconds in which a TLS handshake has to be done; 0: no limit."""
    handshakes: int = 1024
    """TLS handshakes with clients at once; 0: any number."""
    access_log: str = ""
    """The file of the access log; empty: there is none."""
    access_log_format: str = "combined"
    """combined, json, or a text with variables."""
    access_log_size: int = 0
    """MiB after which the file is renamed, and a new one begun; 0: never."""
    access_log_keep: int = 5
    """Older files that remain then."""
    access_log_buffer: int = 1024
    """KiB of lines that a worker holds until they are written."""
    cache: int = 0
    """MiB of the cache of HTTP responses; 0: there is none."""
    http2: int = 0
    """Streams of a connection of HTTP/2 at once; 0: clients use HTTP/1.1 only."""
    backend_proxy: int = 0
    """The version of the PROXY header that backends are sent; 0: none."""
    share: int = 1
    """Of the cores' time, compared with other services of the same process."""
    slice: int = 50
    """Microseconds after which an instance has to wait for its next turn."""
    events: str = "epoll"
    """The interface that reports events: epoll or io_uring."""
    tls_memory: int = 256
    """MiB of memory of TLS, of all services of the process."""
    body: int = BODY >> 20
    """MiB of a body of HTTP whose length is not known before, for all services of the process."""
    http2_memory: int = 64
    """MiB of memory of HTTP/2, of all services of the process."""


POINTER = 8
"""Bytes of a pointer."""
MORE_UPLINKS = 64
"""Connections of HTTP/2 to backends of a worker, besides one for each backend; runtime/worker.h has the same."""
LINE = 17 << 10
"""Bytes of a worker for an access log, besides its lines; runtime/log.h has the longest line."""


@dataclass(frozen=True)
class Bounds:
    """Bytes. `instance` is the memory of an idle connection; `busy` with the variables of its program, and a buffer on
    both sides of each of its channels; `total` is the memory that the process reserves at start, and never exceeds.
    """

    instance: int
    busy: int
    total: int


def bounds_of(
    program: Path,
    channels: int,
    limits: Limits,
    service: int = 0,
    folders: bool = False,
    tls: bool = False,
    proxied: bool = False,
    uplinks: int = 0,
) -> Bounds:
    """The bounds of a service of a program whose instances have that many channels; `folders`: some serve folders;
    `tls`: its clients or backends use TLS, whose memory is in the total; `proxied`: clients send PROXY headers;
    `uplinks`: backends of HTTP/2.
    """
    done = subprocess.run([str(program), "--sizes"], capture_output=True, text=True, check=True)
    sizes: dict[str, int] = json.loads(done.stdout)[service]
    head = (sizes["instance"] + channels * sizes["channel"] + 15) & ~15
    instance = (head + sizes["own"] + 15) & ~15
    frame = (sizes["frame"] + 15) & ~15
    if folders:
        instance += channels * sizes["reader"]
    if tls:
        instance += channels * POINTER
    if limits.cache:
        instance += channels * sizes["cached"]
    buffer = (sizes["buffer"] + limits.buffer_size + 63) & ~63
    if limits.access_log or limits.backend_proxy or proxied:
        instance += sizes["ends"]
    log = 0
    if limits.access_log:
        ring = 1 << (limits.access_log_buffer * 1024 - 1).bit_length()
        log = limits.instances * ((sizes["visit"] + 63) & ~63) + limits.workers * (ring + LINE)
    kept = limits.keep * channels * sizes["idle"] + channels * (sizes["backend"] + sizes["tally"])
    return Bounds(
        instance,
        instance + frame + (4 if limits.cache else 2) * channels * buffer,
        (limits.instances + (limits.workers * (uplinks + MORE_UPLINKS) if uplinks else 0)) * instance
        + limits.instances * frame
        + limits.buffers * buffer
        + limits.workers * (kept + sizes["lane"] + sizes["worker"])
        + sizes["shared"]
        + log
        + (limits.cache << 20)
        + (limits.tls_memory << 20 if tls else 0)
        + (limits.http2_memory << 20 if limits.http2 or uplinks else 0),
    )
