"""The client in C, under sanitizers: exactly once over connections that are cut, and replies of hostile servers."""

from __future__ import annotations

import json
import os
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluice.state.library import load_library, make_library
from sluice.state.location import Location
from sluice.state.peer import Peer
from tests.state.boxes import needs_store
from tests.state.peers import Relay, replying, replying_unread
from tests.support.budget import thinned

PATIENCE = 60.0
LARGE = 1 << 20

pytestmark = needs_store


def run(
    trial: Path, path: str, prefix: str, seed: int, count: int, timeout: int = 5000, size: int = LARGE
) -> dict[str, Any]:
    words = [str(trial), path, prefix, str(seed + 1), str(seed), str(count), str(timeout), str(size)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def hostile(trial: Path, path: str, seed: int, *more: str, disk: bool = False) -> dict[str, Any]:
    """The same with a server that may say anything, as that sums are others."""
    words = [str(trial), path, "p", "1", str(seed), "200", "60", "20000", *more]
    environment = os.environ | ({"TRIAL_DISK": "1"} if disk else {})
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert done.returncode in (0, 1) and not done.stderr, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def content(store: Location) -> dict[str, int]:
    with Peer(store) as peer:
        found: dict[str, int] = {}
        for name in "abc":
            value = peer.call("GET", f"sluice:{{trial}}{name}:")
            found[name] = int(value) if isinstance(value, bytes) else 0
        items, pairs = peer.call("LLEN", "sluice:{trial}list:"), peer.call("HVALS", "sluice:{trial}map:")
        assert isinstance(items, int) and isinstance(pairs, list)
        return found | {"items": items, "map": sum(int(each) for each in pairs if isinstance(each, bytes))}


def prepared(store: Location) -> str:
    library = make_library()
    with Peer(store) as peer:
        load_library(peer, library)
    return library.prefix


def test_updates_arrive_once(trial: Path, store: Location) -> None:
    found = run(trial, store.path, prepared(store), 1, 3000)
    assert content(store).items() <= found.items()
    assert (found["lost"], found["errors"], found["failed"], found["reconnections"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("seed", thinned(range(6), 3))
def test_updates_arrive_once_over_connections_that_are_cut(
    trial: Path, store: Location, tmp_path: Path, seed: int
) -> None:
    """Whatever was transmitted twice, the store applies once: CHC's duplicate suppression."""
    prefix = prepared(store)
    least, most = (20, 2000) if seed % 2 else (1000, 30000)
    with Relay(tmp_path / "relay", store.path, seed, least, most, cuts=40) as relay:
        found = run(trial, relay.path, prefix, seed, 3000)
    assert content(store).items() <= found.items()
    assert (found["lost"], found["failed"]) == (0, 0)
    assert relay.cuts >= 10 and found["reconnections"] >= 10 and found["retransmitted"] >= 10


def test_without_the_log_updates_arrive_twice(trial: Path, store: Location, tmp_path: Path) -> None:
    """The test above sees what the duplicate check is for."""
    library = make_library()
    text = library.text.replace("return found and string.sub(found, 9)", "return false")
    text = text.replace("known[string.sub(member, 1, 8)] = string.sub(member, 9)", "")
    with Peer(store) as peer:
        load_library(peer, replace(library, text=text))
    with Relay(tmp_path / "relay", store.path, 1, 20, 2000, cuts=40) as relay:
        words = [str(trial), relay.path, library.prefix, "1", "1", "3000", "5000", str(LARGE)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    found = json.loads(done.stdout)
    assert "wrong" in found or any(content(store)[name] > found[name] for name in ("a", "b", "c", "map"))


def test_calls_that_are_not_acknowledged_are_bounded(trial: Path, store: Location, tmp_path: Path) -> None:
    """With room for few calls, the client waits for acknowledgements, and loses nothing."""
    prefix = prepared(store)
    with Relay(tmp_path / "relay", store.path, 3, 200, 3000, cuts=20) as relay:
        found = run(trial, relay.path, prefix, 3, 2000, size=6000)
    assert content(store).items() <= found.items() and found["lost"] == 0


def test_an_instance_is_not_taken_to_hang_while_it_waits(trial: Path, store: Location) -> None:
    """It waits for results, for acknowledgements of earlier calls, as there is room for few, and at its end."""
    found = run(trial, store.path, prepared(store), 5, 2000, size=1000)
    assert found["stops"] > found["waits"] + 100 and not found["stopped"]
    found = run(trial, store.path, "missing", 5, 500, size=1000)
    assert found["errors"] > 0 and found["stops"] > 0 and not found["stopped"]


def test_an_unknown_function_is_counted(trial: Path, store: Location) -> None:
    found = run(trial, store.path, "missing", 4, 300)
    assert found["errors"] > 0 and found["lost"] > 0 and found["fault"] == "yes"


def test_a_store_that_is_away(trial: Path, tmp_path: Path) -> None:
    assert "No such file" in run(trial, str(tmp_path / "nothing"), "p", 1, 10)["open"]


GARBAGE = {
    "an empty line": b"\r\n",
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "an integer": b":17\r\n",
    "a nil": b"$-1\r\n",
    "an error": b"-ERR no\r\n",
    "a reply without a prefix": b"$2\r\n17\r\n",
    "a number that is none": b"$4\r\n+1x7\r\n",
    "a number beyond 64 bits": b"$22\r\n+999999999999999999999\r\n",
    "an empty reply": b"$0\r\n\r\n",
    "an array": b"*1\r\n:1\r\n",
    "a large array": b"*2147483647\r\n",
    "a larger array": b"*4294967295\r\n:1\r\n",
    "nested arrays": b"*1\r\n" * 2000,
    "a long string": b"$1073741824\r\n" + b"x" * 3_000_000,
    "a negative length": b"$-7\r\nx\r\n",
    "too many replies": b"$2\r\n+1\r\n" * 5000,
    "RESP 3": b"%1\r\n+a\r\n:1\r\n>2\r\n:1\r\n:2\r\n",
    "half a reply": b"$5\r\n+1",
    "nothing": b"",
}


@pytest.mark.parametrize("name", list(GARBAGE))
def test_hostile_replies(trial: Path, tmp_path: Path, name: str) -> None:
    """No crash, no endless wait, no update that counts as stored."""
    with replying(tmp_path / "peer", lambda number, _: GARBAGE[name]) as path:
        found = hostile(trial, path, 5)
    assert name == "too many replies" or (found["fault"] == "yes" and found["lost"] > 0)


def test_replies_to_calls_that_were_sent_in_part(trial: Path, tmp_path: Path) -> None:
    """The replies are without a call: nothing but calls is transmitted afterwards, which the sanitizer checks."""
    with replying_unread(tmp_path / "peer", b"$1\r\n-\r\n" * 20000) as path:
        words = [str(trial), path, "p", "1", "7", "50000", "60", str(LARGE)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode in (0, 1) and not done.stderr, done.stderr


def test_updates_that_may_be_lost_are_counted_and_no_fault(trial: Path, tmp_path: Path) -> None:
    with replying(tmp_path / "peer", lambda number, _: b"") as path:
        found = hostile(trial, path, 6, "zero")
    assert (found["lost"], found["fault"]) == (0, "") and found["lost_zero"] > 0


@pytest.mark.parametrize("seed", thinned(range(10), 3))
def test_random_replies(trial: Path, tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    pieces = [*GARBAGE.values(), b"$2\r\n+1\r\n", b"$1\r\n-\r\n", b"$1\r\n!\r\n", b"*2\r\n:1\r\n:0\r\n"]

    def reply(number: int, _: bytes) -> bytes | None:
        data = bytearray(b"".join(choose.choice(pieces)[:200] for _each in range(choose.randrange(1, 6))))
        for _each in range(choose.randrange(3)):
            data.insert(choose.randrange(len(data) + 1), choose.randrange(256))
        return bytes(data) if choose.random() > 0.1 else None

    with replying(tmp_path / "peer", reply) as path:
        hostile(trial, path, seed)
        hostile(trial, path, seed, disk=True)
