"""What the subscriptions of a detector cost: `.venv/bin/python bench/subscriptions.py`.

A chain of two functions, as in Microboxes: one says by its first bytes what a connection carries, one searches for a
text. Five subscriptions of the second one are compared:

all              the streams of both sides, of each connection
client           those of clients, of each connection
client, events   those of clients, and the first bytes of each server's, as the first function publishes them
dynamic          those of clients, of connections that the first function has found to carry HTTP, from there on
dynamic, kept    the same from the beginning: the chain keeps 64 KiB of each side

Prints the CPU time of a packet, in turns in one process, how many bytes were searched, and in how many connections the
text was found. It is in the first segment of each connection's client; one in ten carries HTTP.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from sluice.chain.description import Chain, function
from sluice.chain.plan import read_chain
from sluice.engine.box import Settings, compile_stack
from sluice.engine.measure import Candidate, measure
from sluice.stacks.find import find_stack
from tests.support.capture import pcap
from tests.support.connection import handshake, pair

CONNECTIONS, SEGMENTS, ROUNDS, KEEP = 1000, 20, 9, 65536
DPI = """#include "sluice.h"
SLUICE_PUBLISH(application, { bool http; })
SLUICE_PUBLISH(answer, { sl_bytes start; })
SLUICE_ON(tcp, data) {
    if (data->offset)
        return;
    if (event->side)
        SLUICE_EMIT(event, answer, .start = data->bytes);
    else
        SLUICE_EMIT(event, application, .http = data->bytes.captured >= 4 && memcmp(data->bytes.at, "GET ", 4) == 0);
}
"""
IDS = """#include "sluice.h"
#include <stddef.h>
void *memmem(const void *in, size_t length, const void *what, size_t size);   /* GNU's */
SLUICE_COUNTER(searched, "bytes")
SLUICE_COUNTER(found, "pieces of streams with the text")
static void search(struct sl_box *box, sl_bytes bytes)
{
    SLUICE_COUNTER_OF(box, searched) += bytes.captured;
    SLUICE_COUNTER_OF(box, found) += memmem(bytes.at, bytes.captured, "attack", 6) != NULL;
}
"""
CLIENT = "if (event->side == 0) search(event->box, data->bytes);"
DYNAMIC = f"""SLUICE_ON_DEMAND(tcp, data) {{ {CLIENT} }}
SLUICE_ON(chain, application) {{ if (data->http) SLUICE_REGISTER_FLOW(event, tcp, data); }}
"""
SUBSCRIPTIONS = {
    "all": "SLUICE_ON(tcp, data) { search(event->box, data->bytes); }\n",
    "client": f"SLUICE_ON(tcp, data) {{ {CLIENT} }}\n",
    "client, events": f"SLUICE_ON(tcp, data) {{ {CLIENT} }}\n"
    "SLUICE_ON(chain, answer) { search(event->box, data->start); }\n",
    "dynamic": DYNAMIC,
    "dynamic, kept": DYNAMIC,
}


def capture(path: Path) -> None:
    """Connections in turns: a request, and answers of 1,000 bytes; one in ten is of HTTP."""
    hosts = [pair(port=1024 + number) for number in range(CONNECTIONS)]
    packets = [packet for client, server in hosts for packet in handshake(client, server)]
    requests = (b"GET / HTTP/1.1\r\n\r\nattack".ljust(100), b"\x16 other attack".ljust(100))
    for segment in range(SEGMENTS):
        for number, (client, server) in enumerate(hosts):
            packets.append(client.data(requests[number % 10 > 0] if segment == 0 else b"more".ljust(100)))
            packets.append(server.data(b"x" * 1000))
    path.write_bytes(pcap(packets, [1000 + at / 1e6 for at in range(len(packets))]))  # so that none times out


def candidate(folder: Path, name: str, stack: str) -> Candidate:
    """The chain with that subscription."""
    (folder / "dpi.c").write_text(DPI)
    ids = folder / f"ids{list(SUBSCRIPTIONS).index(name)}.c"
    ids.write_text(IDS + SUBSCRIPTIONS[name])
    chain = Chain(
        function(str(folder / "dpi.c")) >> function(str(ids), "ids"),
        stack=stack,
        keep=KEEP if name.endswith("kept") else 0,
    )
    wanted = read_chain(chain).wanted()
    compiled = compile_stack(find_stack(stack), tuple(wanted.c))
    return Candidate(compiled, Settings(seed=1, max_instances=1 << 14), wanted.options)


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "trace.pcap"
        capture(path)
        asked = [candidate(folder, each, options.stack) for each in SUBSCRIPTIONS]
        found = measure(asked, str(path), options.rounds, warm=True)
    rows = {
        each: {
            "cpu_ns": median(one.cpu_ns) / one.packets,
            **{figure: one.reports[f"ids.{figure}"] for figure in ("searched", "found")},
        }
        for each, one in zip(SUBSCRIPTIONS, found, strict=True)
    }
    if options.json:
        print(json.dumps(rows))
        return 0
    print("subscription       CPU ns a packet   bytes searched   found")
    for each, row in rows.items():
        print(f"{each:16}   {row['cpu_ns']:15.1f}   {row['searched']:14,}   {row['found']:5}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
