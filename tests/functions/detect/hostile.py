"""Run as a program, under sanitizers: `ids` with our own rules, and `dpi` if it is there, on hostile packets.

Prints how many packets were processed.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from sluice.engine.box import Box, CompiledStack, RunError, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.functions.detect.rules import Reader
from sluice.functions.detect.table import table
from sluice.stacks.find import find_stack
from tests.functions.detect import families
from tests.functions.detect.boxes import START, connection, missing
from tests.functions.detect.cases import PACKETS, PORTS, WEB, frames
from tests.support.budget import examples
from tests.support.connection import pair
from tests.support.conserve import check_all_ended, check_conservation

DECIDING = r"""
drop tcp any any -> any any (\
  content:"evil"; byte_extract:1,0,n,relative; content:"x"; distance:n; within:40; sid:90001;)
reject udp any any -> any any (\
  content:"a"; byte_jump:1,0,relative,multiplier 3,from_beginning,post_offset -2; sid:90002;)
pass tcp any any -> any any (\
  content:"SITE"; byte_test:4,>,3,-2,relative,string,hex; isdataat:!9000,relative; sid:90003;)
reject tcp any any -> any 25 (pcre:"/%{3}.*+$/"; sid:90004;)
alert ip any any -> any any (ipopts:any; fragoffset:>0; content:"e"; sid:90005;)
sdrop ip any any -> any any (fragbits:+M; byte_jump:2,0,from_end,little; sid:90006;)
"""
CASES = families.cases()
RULES = Path(__file__).with_name("own.rules").read_text() + "".join(case.rule for case in CASES) + DECIDING
SEEDS = range(examples(4, 2))


@cache
def names() -> tuple[str, ...]:
    """The functions that can be compiled here."""
    return ("ids",) if missing("dpi", "nDPI") else ("ids", "dpi")


@cache
def stack() -> CompiledStack:
    """They over tcp_ip."""
    return compile_stack(find_stack("tcp_ip"), tuple(find_functions(list(names())).c))


def damaged(packets: Iterable[bytes], chance: random.Random) -> list[bytes]:
    """Packets of which some are changed, cut, repeated, lost or out of order."""
    found: list[bytes] = []
    for packet in packets:
        match chance.randrange(8):
            case 0:
                changed = bytearray(packet)
                for _ in range(chance.randint(1, 4)):
                    changed[chance.randrange(len(changed))] = chance.randrange(256)
                found.append(bytes(changed))
            case 1:
                found.append(packet[: chance.randint(1, len(packet))])
            case 2:
                found += [packet, packet]
            case 3:
                found.insert(chance.randint(0, len(found)), packet)
            case 4 if chance.randrange(3) == 0:
                pass
            case _:
                found.append(packet)
    return found


def attacks() -> list[bytes]:
    """Streams that are made to cost much: patterns without what follows them, endless heads, many requests."""
    talks = [
        [(">", b"SITE " * 9000)],
        [(">", b"USER " + b"a" * 50000)],
        [(">", b"GET /" + b"../" * 20000 + b" HTTP/1.1\r\n\r\n")],
        [(">", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 60000)],
        [(">", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3000)],
        [(">", b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 20000)],
        [(">", b"filename=" * 8000), ("<", b"<b>Warning</b>:" * 4000)],
        [("<", b"HTTP/1.1 200 OK\r\n\r\n" * 2000)],
        [(">", b"CONNECT a:1 HTTP/1.1\r\n\r\n"), ("<", b"HTTP/1.1 200 OK\r\n\r\n"), (">", bytes(9000))],
        [(">", b"%" * 9000)],
    ]
    found: list[bytes] = []
    for number, talk in enumerate(talks):
        for cut in (1460, 37):
            found += connection(talk, cut, port=(80, 21, 25)[number % 3], client_port=20000 + 10 * number + cut % 7)
    client, server = pair(port=30000)  # bytes that wait for others before them, and a gap
    found += [client.send("S"), server.send("SA"), *(client.at(10 + 20 * n, b"GET / HTTP/1.1\r\n") for n in range(500))]
    return found


def run(packets: Iterable[bytes], folder: str, seed: int, more: str = "") -> int:
    """Process packets; returns how many."""
    options = [f"table={folder}/table,out={folder}/alerts,counts={folder}/counts{more}", f"out={folder}/rows"]
    settings = Settings(seed=seed, timeouts=False, max_instances=256)
    count = 0
    with Box(stack(), settings, [], options[: len(names())]) as box:
        for count, packet in enumerate(packets, 1):
            box.packet(packet, START + count * 1000, 1, len(packet))
        box.finish()
        check_conservation(stack().program, box.counters())
        check_all_ended(stack().program, box.counters())
    return count


def bad_tables(folder: str, chance: random.Random) -> None:
    """Tables that are cut or changed are refused or used, and nothing else happens."""
    whole = Path(folder, "table").read_bytes()
    for number in range(60):
        bad = bytearray(whole[: chance.randrange(len(whole))] if number % 2 else whole[:6000])
        for _ in range(number % 5):
            bad[chance.randrange(len(bad) or 1) if bad else 0 : 1] = b""
        Path(folder, "bad").write_bytes(bytes(bad))
        try:
            with Box(
                stack(),
                Settings(seed=1),
                [],
                [f"table={folder}/bad,out={folder}/alerts", f"out={folder}/rows"][: len(names())],
            ) as box:
                box.finish()
        except RunError:
            pass


def main() -> None:
    reader = Reader()
    reader.read(RULES, "own.rules")
    packets = [frame for cut in (1460, 100, 9) for sid in [*WEB, *PORTS, *PACKETS] for frame in frames(sid, cut)]
    packets += [frame for case in CASES for frame in case.frames]
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "table").write_bytes(table(reader.found.rules))
        count += run(packets, folder, 1, f",packets={folder}/matched,profile={folder}/profile")
        count += run(attacks(), folder, 1)
        count += run(attacks(), folder, 1, ",memory=60000,flows=3,block=2048,body=100,thresholds=1,pcre_limit=10")
        for seed in SEEDS:
            chance = random.Random(seed)
            count += run(
                damaged(packets, chance),
                folder,
                seed,
                f",block=2048,memory=300000,packets={folder}/matched" if seed % 2 else "",
            )
        bad_tables(folder, random.Random(1))
    print(count)


if __name__ == "__main__":
    main()
