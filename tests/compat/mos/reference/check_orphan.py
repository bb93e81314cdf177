"""What orphan.c should print: which segments belong to the connections to one port, and which to none."""

from __future__ import annotations

import re
from pathlib import Path

from tests.compat.mos.reference.connections import follow
from tests.compat.mos.reference.totals import NO_TOTALS, last_totals

RAW = re.compile(r'raw "(.*)" packets=(\d+)')


def check_orphan(capture: Path, port: int, output: str) -> list[str]:
    """What is wrong in the output of orphan.c.

    Segments after the end of a connection are either of it or orphans, and a SYN that begins no connection to the
    port is an orphan or nothing. The filters of raw sockets do not see into VLAN tags.
    """
    totals = last_totals(output, "flows", "flow_packets", "orphans", "foreign", "wrong_side", "failed")
    if totals is None:
        return [NO_TOTALS]
    traffic = follow(capture)
    flows = {connection for connection in traffic.connections if connection.server[1] == port}
    in_flow = sum(len(connection.segments) for connection in flows)
    late = sum(len(connection.late) for connection in flows)
    orphans = [placed.segment for placed in traffic.placed if placed.connection not in flows]
    refused = sum(segment.pure_syn for segment in orphans)
    problems: list[str] = []
    if not any(connection.uncertain for connection in flows):
        problems += _outside(totals, "flows", len(flows), len(flows))
        problems += _outside(totals, "flow_packets", in_flow, in_flow + late)
        problems += _outside(totals, "orphans", len(orphans) - refused, len(orphans) + late)
    for name in ("foreign", "wrong_side", "failed"):
        problems += _outside(totals, name, 0, 0)
    total, segments = totals["orphans"] + totals["flow_packets"], len(traffic.placed)
    if total not in (segments, segments - refused):
        problems.append(f"orphans + flow_packets = {total}, but there are {segments} segments ({refused} such SYNs)")
    untagged = [placed.segment for placed in traffic.placed if not placed.segment.tagged]
    of_port = [segment for segment in untagged if port in (segment.source[1], segment.destination[1])]
    expected = {"tcp": len(untagged), f"tcp port {port}": len(of_port)}
    for matched in filter(None, map(RAW.match, output.splitlines())):
        if int(matched[2]) != expected.get(matched[1], int(matched[2])):
            problems.append(f'raw "{matched[1]}" packets={matched[2]}, expected {expected[matched[1]]}')
    return problems


def _outside(totals: dict[str, int], name: str, least: int, most: int) -> list[str]:
    if least <= totals[name] <= most:
        return []
    return [f"{name}={totals[name]}, expected {least} to {most}"]
