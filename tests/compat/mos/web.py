"""The web server and the web client of the examples, their files, and what the client should say of these."""

from __future__ import annotations

import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from tests.compat.mos.programs import program

Start = Callable[[list[str]], subprocess.Popen[str]]
PATIENCE = 30.0


def start_here(command: list[str]) -> subprocess.Popen[str]:
    """Starts a program in the namespace of the tests."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def configuration(folder: Path, name: str = "end.conf", kind: str = "end", **items: str) -> Path:
    """A configuration of an end host, or a monitor, with items and blocks of its block `mos`."""
    lines = [f"{name} {value}" if value.startswith("{") else f"{name} = {value}" for name, value in items.items()]
    path = folder / name
    path.write_text(f"application {{ type = {kind}\n cpu_mask = 0x3 }}\nmos {{\n" + "\n".join(lines) + "\n}\n")
    return path


def make_files(folder: Path, count: int) -> Path:
    """Files 0, 1, ... of random bytes and lengths."""
    made = folder / "www"
    made.mkdir()
    chance, mean = random.Random(count), 6000 if count < 1000 else 1000
    for number in range(count):
        (made / str(number)).write_bytes(chance.randbytes(int(chance.expovariate(1 / mean))))
    return made


def expected(folder: Path, count: int) -> str:
    """The client's last line when the first `count` files came whole."""
    size = total = 0
    for number in range(count):
        value = 0xCBF29CE484222325
        data = (folder / str(number)).read_bytes()
        for byte in number.to_bytes(4, "little") + data:
            value = (value ^ byte) * 0x100000001B3 % (1 << 64)
        size += len(data)
        total = (total + value) % (1 << 64)
    return f"whole {count} errors 0 bytes {size} sum {total:016x}"


def free_port() -> int:
    """A port that no program listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def webserver(start: Start, config: Path, files: Path, port: int, *words: str) -> Generator[list[str]]:
    """The server, until the block ends; then the list has what it printed."""
    command = [str(program("webserver")), "-f", str(config), "-p", str(port), "-d", str(files), *words]
    process, said = start(command), list[str]()
    try:
        yield said
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (process.returncode, output, errors)
        said += output.splitlines()
    finally:
        process.kill()
        process.wait(timeout=60)


def webget(
    start: Start, config: Path, address: str, port: int, count: int, connections: int, patience: float = 60
) -> str:
    """What the client prints; it is started again while the server does not listen yet."""
    command = [str(program("webget")), "-f", str(config), "-a", address, "-p", str(port), "-c", str(connections)]
    end = time.monotonic() + PATIENCE
    while True:
        process = start([*command, "-n", "1"])
        _, errors = process.communicate(timeout=patience)
        if process.returncode == 0 or not re.search("refused|No route", errors) or time.monotonic() > end:
            break
        time.sleep(0.05)
    process = start([*command, "-n", str(count)])
    output, errors = process.communicate(timeout=patience)
    return errors + output.strip()
