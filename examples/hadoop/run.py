"""A word count of Hadoop, and the aggregator service in the place of its reducers.

    mvn -q dependency:copy-dependencies -DoutputDirectory=jars && python run.py --jars jars

The job writes its map outputs; a sender for each map gives its segment to the service, as the paper's mappers do.
Hadoop's own reader reads what the service has merged. Its words and counts have to be those of the job's result.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPENS = ("--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
PATIENCE = 120.0


class HadoopError(Exception):
    """A step that failed; the message has its output."""


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise HadoopError(f"{command[0]} failed:\n{done.stderr[-4000:]}")
    return done.stdout


def write_input(folder: Path, files: int, lines: int) -> None:
    """Text whose words have the frequencies of a Zipf law."""
    rng = random.Random(1)
    words = [f"{rng.choice(('word', 'long' * 40, 'ä'))}{number}" for number in range(3000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    folder.mkdir()
    for number in range(files):
        text = "".join(" ".join(rng.choices(words, weights, k=10)) + "\n" for _ in range(lines))
        (folder / f"part{number}.txt").write_text(text, encoding="utf-8")


def word_count(jars: Path, work: Path) -> tuple[dict[str, int], list[list[Path]], list[str]]:
    """Run the job: its result, the segments of each reducer, and the command of the program that reads them."""
    _run(["javac", "-cp", f"{jars}/*", "-d", str(work), str(HERE / "WordCount.java")])
    java = ["java", *OPENS, "-cp", f"{work}:{jars}/*", "WordCount"]
    kept = work / "kept"
    kept.mkdir()
    _run([*java, "job", str(work / "input"), str(work / "output"), str(kept)])
    lines = [line for each in (work / "output").glob("part-r-*") for line in each.read_text("utf-8").splitlines()]
    result = {word: int(count) for word, count in (line.split("\t") for line in lines)}
    if not list(kept.glob("map*")):
        raise HadoopError("the job left no map outputs")
    return result, [sorted(kept.glob(f"map*.reduce{number}")) for number in range(2)], java


def aggregate(segments: list[Path]) -> bytes:
    """Send segments to the service; what it sends to the reducer that connects."""

    def give(listener: socket.socket, data: bytes) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = listener.accept()
            with accepted:
                accepted.sendall(data)

    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for each in segments:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listener.settimeout(PATIENCE)
            ports.append(listener.getsockname()[1])
            threading.Thread(target=give, args=(listener, each.read_bytes()), daemon=True).start()
        backends = ",".join(f"127.0.0.1:{port}" for port in ports)
        command = [
            sys.executable,
            "-m",
            "sluice",
            "serve",
            "aggregator",
            "--listen",
            "127.0.0.1:0",
            "--backends",
            backends,
        ]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(service.wait)
        stack.callback(service.terminate)
        assert service.stdout is not None
        port = int(service.stdout.readline().split(";")[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as reducer:
            parts: list[bytes] = []
            while part := reducer.recv(1 << 20):
                parts.append(part)
        return b"".join(parts)


def compare(jars: Path, work: Path) -> tuple[int, int]:
    """The words of the job, and their total. Raises HadoopError if the service has others."""
    result, reducers, java = word_count(jars.resolve(), work)
    found: dict[str, int] = {}
    for number, segments in enumerate(reducers):
        merged = work / f"merged{number}"
        merged.write_bytes(aggregate(segments))
        pairs = [line.split("\t") for line in _run([*java, "read", str(merged)]).splitlines()]
        if len({word for word, _ in pairs}) != len(pairs):
            raise HadoopError("a word stands twice in what the service has merged")
        found.update({word: int(count) for word, count in pairs})
    if found != result:
        raise HadoopError(f"the service counted {len(found)} words, and the job {len(result)}, or other counts")
    return len(found), sum(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", type=Path, required=True, help="the folder with Hadoop's jars")
    parser.add_argument("--maps", type=int, default=3)
    parser.add_argument("--lines", type=int, default=5000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        write_input(Path(work, "input"), options.maps, options.lines)
        words, total = compare(options.jars, Path(work))
    print(f"{words:,} words, {total:,} in all: the same by the service and by Hadoop")


if __name__ == "__main__":
    main()
