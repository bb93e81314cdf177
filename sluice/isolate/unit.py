"""`sluice isolate run` as a service of systemd."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from sluice.isolate.capabilities import ENFORCING

_TEXT = """\
[Unit]
Description=Charge network CPU time to containers (sluice isolate)
After=network.target

[Service]
Type=notify
ExecStart={run}
ExecStopPost={restore}
Restart=on-failure
RestartSec=1
TimeoutStopSec=30
RuntimeDirectory=sluice-isolate
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
CacheDirectory=sluice
CacheDirectoryMode=0700
Environment=SLUICE_CACHE=/var/cache/sluice
CapabilityBoundingSet={capabilities}
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
NoNewPrivileges=yes

[Install]
WantedBy=multi-user.target
"""
AT_START = (*ENFORCING, "CAP_SYS_NICE", "CAP_SETPCAP")
"""The capabilities until the programs are loaded: CAP_SYS_NICE for its priority and the measurement of interrupts,
CAP_SETPCAP to drop capabilities.
"""


def unit_text(arguments: Sequence[str]) -> str:
    """The unit. arguments: options of `sluice isolate run`. ProtectControlGroups stays off, as limits are written, and
    so does PrivateNetwork. Watchdog and `restore` bring limits back however it ends.
    """
    command = [sys.executable, "-P", "-m", "sluice", "isolate"]
    state: list[str] = []
    for number, word in enumerate(arguments):
        if word == "--state" and number + 1 < len(arguments):
            state = ["--state", arguments[number + 1]]
        elif word.startswith("--state="):
            state = [word]
    return _TEXT.format(
        run=_joined([*command, "run", *arguments]),
        restore=_joined([*command, "restore", *state]),
        capabilities=" ".join(AT_START),
    )


def _joined(words: Sequence[str]) -> str:
    """As systemd reads a command line: with its own meaning of % and $."""
    return shlex.join(words).replace("%", "%%").replace("$", "$$")


def notify(state: str) -> None:
    """Notify systemd, if it started this process (sd_notify(3)): READY=1, STOPPING=1."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
        try:
            end.sendto(state.encode(), address.replace("@", "\0", 1) if address[0] == "@" else str(Path(address)))
        except OSError as error:
            print(f"sluice: systemd is not notified: {error.strerror}", file=sys.stderr)
