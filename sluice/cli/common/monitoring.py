"""Interfaces to a running box: --metrics, --control (`sluice top`), and the summary so far on SIGUSR1."""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import queue
import signal
import socket
import socketserver
import stat
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, cast

from sluice.cli.common.errors import CommandError
from sluice.cli.common.metrics import CONTENT_TYPE, metrics
from sluice.cli.common.summary import summary
from sluice.engine.box import Box
from sluice.engine.observed import Observed, Snapshot
from sluice.engine.reload import ReloadError, Reloading, describe

SECONDS = 0.25
"""Between two snapshots."""
PATIENCE = 5.0
"""Seconds in which a client sends its request and reads the answer."""
REQUEST_MOST = 1 << 24
"""Bytes of a request: it may have the text of a function."""
RELOAD_MOST = 120.0
"""Seconds until a new version of a function is in the box, or is not."""


def add_observing(parser: argparse.ArgumentParser) -> None:
    """Add the options --metrics and --control."""
    parser.add_argument(
        "--metrics",
        type=address,
        metavar="[ADDR:]PORT",
        help="serve the numbers of the run to Prometheus, at /metrics; without an address on the loopback interface",
    )
    parser.add_argument(
        "--control", metavar="SOCKET", help="a Unix socket by which `sluice top` shows the run, while it lasts"
    )


def address(text: str) -> tuple[str, int]:
    """ADDR:PORT, :PORT or PORT."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no address: write PORT, or ADDR:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


@dataclass
class Observer:
    """Gives out snapshots of a box. `tick` is called by the thread that drives the box, some times a second."""

    observed: Observed
    shown: bool = False
    """Whether anyone may need a snapshot at any time."""
    asked: bool = False
    """Whether a summary is to be printed."""
    servers: list[socketserver.BaseServer] = field(default_factory=lambda: [])
    arguments: list[str] = field(default_factory=lambda: [])
    """The command line of the box."""

    def __post_init__(self) -> None:
        self.snapshot: Snapshot = self.observed.take()
        self._due = 0.0
        self.begun = False
        self._work: queue.Queue[tuple[dict[str, Any], queue.Queue[dict[str, Any]]]] = queue.Queue(1)
        self._reloading: tuple[Reloading, queue.Queue[dict[str, Any]]] | None = None

    def do(self, given: dict[str, Any]) -> dict[str, Any]:
        """Have the thread that drives the box do something, and wait for the answer."""
        answer: queue.Queue[dict[str, Any]] = queue.Queue(1)
        try:
            self._work.put((given, answer), timeout=1)
            return answer.get(timeout=RELOAD_MOST)
        except queue.Full:
            return {"error": "the box is busy with another reload"}
        except queue.Empty:
            return {"error": "the box does not answer"}

    def answer(self, what: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request of the control socket."""
        kind = what.get("do")
        if kind == "snapshot":
            return self.snapshot.as_json()
        if kind in ("describe", "reload"):
            return self.do(what)
        return {"error": 'the request is {"do": "snapshot"}'}

    def _step(self) -> None:
        """Execute the requests."""
        box = self.observed.box
        if self._reloading is None:
            try:
                given, answer = self._work.get_nowait()
            except queue.Empty:
                return
            if given["do"] == "describe":
                answer.put(describe(box, self.arguments))
                return
            try:
                self._reloading = Reloading(box, given), answer
            except ReloadError as error:
                answer.put({"error": str(error)})
                return
        reloading, answer = self._reloading
        try:
            done = reloading.step()
        except ReloadError as error:
            self._reloading = None
            answer.put({"error": str(error)})
            return
        if done is not None:
            self._reloading = None
            answer.put({"done": done})

    def begin(self) -> None:
        """Start to answer requests, each kind in a separate thread."""
        for server in self.servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
        self.begun = True

    def end(self) -> None:
        """Answer no more requests."""
        if self._reloading is not None:
            self._reloading[0].abandon()
        for server in self.servers:
            if self.begun:
                server.shutdown()
            server.server_close()

    def tick(self) -> None:
        """Take a snapshot if one is due. Print a summary if it was requested."""
        now = time.monotonic()
        self._step()
        if self.asked or (self.shown and now >= self._due):
            self._due = now + SECONDS
            self.snapshot = self.observed.take()
        if self.asked:
            self.asked = False
            print(summary(self.snapshot.outcome()), file=sys.stderr, flush=True)


@contextlib.contextmanager
def observing(box: Box, options: argparse.Namespace | None) -> Generator[Observer | None]:
    """Show a box while it runs, by the options of the command line.

    Raises CommandError if a port or a socket is not available.
    """
    metrics_at = getattr(options, "metrics", None)
    control = getattr(options, "control", None)
    with contextlib.ExitStack() as stack:
        main = threading.current_thread() is threading.main_thread()
        if options is None or not main:
            yield None
            return
        observer = Observer(Observed(box), shown=bool(metrics_at or control))
        observer.arguments = list(getattr(options, "arguments", None) or [])

        def ask(_signal: int, _frame: object) -> None:
            observer.asked = True

        before = signal.signal(signal.SIGUSR1, ask)
        stack.callback(signal.signal, signal.SIGUSR1, before)
        stack.callback(observer.end)
        if metrics_at:
            observer.servers.append(metrics_server(metrics_at, lambda: metrics(observer.snapshot)))
        if control:
            observer.servers.append(control_server(control, observer.answer))
            stack.callback(remove_socket, control)
        yield observer


class _Bounded(socketserver.BaseServer):
    """Answers one client after the other, each within PATIENCE in all.

    So none holds up the others, or the end of the run.
    """

    patience = PATIENCE

    def finish_request(self, request: Any, client_address: Any) -> None:
        def give_up() -> None:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(self.patience, give_up)
        timer.daemon = True
        timer.start()
        try:
            super().finish_request(request, client_address)
        finally:
            timer.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is no fault of the run."""


def metrics_server(at: tuple[str, int], text: Callable[[], str]) -> socketserver.BaseServer:
    """A server that answers requests for /metrics with a text. Raises CommandError if the port is not available."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "the numbers are at /metrics")
                return
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(_Bounded, http.server.HTTPServer):
        address_family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET

    try:
        server = Server(at, Page)
    except OSError as error:
        raise CommandError(f"--metrics {at[0]}:{at[1]}: {error.strerror or error}") from error
    if not at[1]:
        print(f"sluice: metrics at port {server.server_address[1]}", file=sys.stderr, flush=True)
    return server


def control_server(path: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> socketserver.BaseServer:
    class Request(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline(REQUEST_MOST)
            what: Any = {}
            with contextlib.suppress(ValueError):
                what = json.loads(line)
            what = cast(dict[str, Any], what) if isinstance(what, dict) else {}
            self.wfile.write(json.dumps(answer(what)).encode() + b"\n")

    class Server(_Bounded, socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True
        block_on_close = False
        patience = RELOAD_MOST  # a reload lasts as long as its trial

    if _answers(path):
        raise CommandError(f"--control {path}: another box has this socket")
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)  # of a box that was killed
    before = os.umask(0o177)  # for its owner alone
    try:
        return Server(path, Request)
    except OSError as error:
        raise CommandError(f"--control {path}: {error.strerror or error}") from error
    finally:
        os.umask(before)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.settimeout(1)
        try:
            end.connect(path)
        except OSError:
            return False
    return True


def remove_socket(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def ask(path: str) -> Snapshot:
    """The snapshot of the box that has this socket. Raises CommandError."""
    try:
        return Snapshot.from_json(request(path, {"do": "snapshot"}))
    except (ValueError, TypeError) as error:
        raise CommandError(f"{path}: {error}; is a box running with --control {path}?") from error


def request(path: str, what: dict[str, Any], patience: float = PATIENCE) -> dict[str, Any]:
    """The answer of the box that has this socket. Raises CommandError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.settimeout(patience)
            end.connect(path)
            end.sendall(json.dumps(what).encode() + b"\n")
            with end.makefile("rb") as answer:
                return json.loads(answer.readline())
    except (OSError, ValueError, TypeError) as error:
        said = getattr(error, "strerror", None) or error
        raise CommandError(f"{path}: {said}; is a box running with --control {path}?") from error
