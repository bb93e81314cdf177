"""Engines that place the agents of instances on hosts, and start them there.

An engine decides where; Sluice only asks it to start a program, with some bytes as its input, and whether it still
runs. When an agent or its host ends, the controller of the chain asks for another one. Ray has actors for that;
`command` is any program that runs a command on another host, such as ssh, `ip netns exec` or `kubectl run -i`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sluice.chain.processes.limits import end_with_controller

PROGRAM = ("-m", "sluice.chain.hosts")
"""The program of an agent, for the interpreter of Python on its host."""
_PATIENCE = 1.0
"""Seconds in which a program ends by itself when its input is closed; then by SIGTERM."""


class EngineError(Exception):
    """An engine cannot start an agent, or the agent has ended."""


class Running(Protocol):
    """An agent that was started."""

    def ended(self) -> str | None:
        """Why it does not run any more; None while it does."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class Engine(Protocol):
    """Starts agents. It is used by several processes, each of which starts one."""

    def start(self, name: str, task: bytes) -> Running:
        """Start the agent of an instance, whose name is that of messages, with a task as its input. Its standard
        output is that of the chain. Raises EngineError.
        """
        ...


@dataclass
class _Child:
    process: subprocess.Popen[bytes]

    def ended(self) -> str | None:
        code = self.process.poll()
        if code is None:
            return None
        return f"the program that ran it ended with {signal.strsignal(-code) if code < 0 else f'status {code}'}"

    def stop(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        for end in (self.process.terminate, self.process.kill):  # an agent removes its files when its input is closed
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_PATIENCE)
                return
            end()
        self.process.wait()


def _started(words: list[str], task: bytes) -> Running:
    """A program of this host with a task as its input, which stays open. Raises EngineError."""
    try:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, preexec_fn=end_with_controller)
        assert process.stdin is not None
        process.stdin.write(task)
        process.stdin.flush()
    except OSError as error:
        raise EngineError(f"{words[0]}: {error.strerror}") from error
    return _Child(process)


@dataclass(frozen=True)
class CommandEngine:
    """Runs agents by a command, to which that of the agent is appended. {name} and {number} in its words are those
    of the instance: the number, from 0, is that among the instances of the function.
    """

    words: tuple[str, ...]

    def start(self, name: str, task: bytes) -> Running:
        number = name.partition("#")[2] or "0"
        words = [word.replace("{name}", name).replace("{number}", number) for word in self.words]
        return _started([*words, sys.executable, *PROGRAM], task)


@dataclass(frozen=True)
class RayEngine:
    """Runs each agent in an actor of a Ray cluster, which chooses its node (ray_actor.py). address: of the cluster;
    "" for the one that Ray finds.
    """

    address: str = ""

    def start(self, name: str, task: bytes) -> Running:
        words = [sys.executable, "-m", "sluice.chain.hosts.ray_actor", self.address or "auto", name]
        return _started(words, task)


def _ray(rest: str) -> Engine:
    if importlib.util.find_spec("ray") is None:
        raise EngineError("Ray is not installed: install it by `pip install 'sluice[cluster]'`")
    return RayEngine(rest)


def _command(rest: str) -> Engine:
    words = tuple(shlex.split(rest))
    if not words:
        raise EngineError("write the words of a command: command:ssh host2")
    return CommandEngine(words)


ENGINES: dict[str, Callable[[str], Engine]] = {"ray": _ray, "command": _command}


def find_engine(text: str) -> Engine:
    """The engine of `KIND` or `KIND:REST`. Raises EngineError."""
    kind, _, rest = text.partition(":")
    if kind not in ENGINES:
        raise EngineError(f"'{kind}' is no engine: write ray, ray:ADDRESS, or command:WORDS, as in command:ssh host2")
    try:
        return ENGINES[kind](rest)
    except ValueError as error:
        raise EngineError(f"'{rest}': {error}") from error
