"""sluice top SOCKET: show what a running box does, second by second.

The box runs with --control SOCKET. For each layer, worker and function, `top` shows packets and bits per second,
flows, drops by their reason, how much of its time a worker is busy, and the longest time that it did not look for
packets. Keys: q ends it, the arrows and page keys scroll, space pauses.

  sluice run tcp_ip -i eth0 -f flowlog --control /run/box.sock
  sluice top /run/box.sock
  sluice top /run/box.sock --once --json      the rates of one second, for a program
  sluice top --dashboard > sluice.json        a dashboard for Grafana, of what --metrics serves
"""

from __future__ import annotations

import argparse
import curses
import json
import sys
import time
from typing import Any

from sluice.cli.common.dashboard import dashboard
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.monitoring import ask
from sluice.cli.common.options import add_command, seconds
from sluice.cli.common.top_text import lines_of, rates
from sluice.engine.observed import Snapshot


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "top", __doc__, action)
    parser.add_argument("socket", metavar="SOCKET", nargs="?", help="that of `sluice run --control SOCKET`")
    parser.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS", help="of the rates (default 1)")
    parser.add_argument("--once", action="store_true", help="print one picture, and end")
    parser.add_argument("--json", action="store_true", help="with --once: as JSON")
    parser.add_argument("--dashboard", action="store_true", help="print a dashboard for Grafana, and end")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.dashboard:
        print(json.dumps(dashboard(), indent=2))
        return 0
    if options.socket is None:
        raise UsageError("give the socket of a box that runs with --control SOCKET")
    if options.json and not options.once:
        raise UsageError("--json: is for --once: give both, or none")
    before = ask(options.socket)
    if not options.once and sys.stdout.isatty():
        try:
            curses.wrapper(_watch, options, before)
        except KeyboardInterrupt:
            pass
        except curses.error as error:
            raise CommandError(f"the terminal cannot show it ({error}): use --once") from error
        return 0
    now = _after(options, before)
    shown = rates(before, now)
    print(json.dumps(shown) if options.json else "\n".join(lines_of(shown, time.time() - now.time)))
    return 0


def _after(options: argparse.Namespace, before: Snapshot) -> Snapshot:
    """A later snapshot than that one."""
    end = time.monotonic() + options.interval + 2
    time.sleep(options.interval)
    now = ask(options.socket)
    while now.time == before.time and time.monotonic() < end:
        time.sleep(0.05)
        now = ask(options.socket)
    return now


def _watch(screen: Any, options: argparse.Namespace, before: Snapshot) -> None:
    """Draw until the user ends it, or the box does."""
    curses.curs_set(0)
    screen.timeout(100)
    lines, top, paused, due, gone = ["..."], 0, False, time.monotonic() + options.interval, ""
    while True:
        if not paused and not gone and time.monotonic() >= due:
            due = time.monotonic() + options.interval
            try:
                now = ask(options.socket)
            except CommandError:
                gone = "the box has ended: q ends this, too"
            else:
                if now.time != before.time:
                    lines, before = lines_of(rates(before, now)), now
                else:
                    lines = lines_of(rates(before, now), time.time() - now.time)
        height, width = screen.getmaxyx()
        top = max(0, min(top, len(lines) - height + 2))
        screen.erase()
        for row, line in enumerate(lines[top : top + height - 1]):
            head = line[:1].isupper() and line[:6].strip() in ("WORKER", "LAYER", "FUNCTI")
            screen.addnstr(row, 0, line, width - 1, curses.A_REVERSE if head else curses.A_NORMAL)
        foot = gone or ("paused" if paused else "q quit, space pause, arrows scroll")
        if height > 1:
            screen.addnstr(height - 1, 0, foot, width - 1, curses.A_DIM)
        screen.refresh()
        key = screen.getch()
        if key in (ord("q"), 27):
            return
        paused = paused != (key == ord(" "))
        top += {curses.KEY_UP: -1, curses.KEY_DOWN: 1, curses.KEY_PPAGE: 2 - height, curses.KEY_NPAGE: height - 2}.get(
            key, 0
        )
