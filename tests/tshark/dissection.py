"""What tshark shows of the packets of a capture: of each the tree, its numbers and bytes as they are in the packet.

`tshark -T json -x` gives beside each value the raw one: hexadecimal digits, already shifted where it is part of a byte.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.corpus import key_log

OPTIONS = (
    "ipv6.exthdr_under_root_protocol_tree:TRUE",
    "tcp.relative_sequence_numbers:FALSE",
    "pppoed.show_tags_and_lengths:TRUE",
)
"""Preferences: each extension header stands for itself, numbers are the packet's own, and so are tags."""

PORTS = ("udp.port==8472,vxlan",)
"""Ports that tshark knows only when told."""

PORTS_OF = {"FoxIO-LLC_ja4__gre-erspan-vxlan.pcap": ("udp.port==4789,vxlan_gpe",)}
"""The same for single captures. Here VXLAN-GPE comes from the port of VXLAN, and tshark goes by the lower one."""


def available() -> bool:
    """Whether there is a tshark."""
    return shutil.which("tshark") is not None


def known_fields() -> set[str]:
    """All fields that tshark has."""
    done = subprocess.run(["tshark", "-G", "fields"], capture_output=True, text=True, errors="replace", check=True)
    return {line.split("\t")[2] for line in done.stdout.splitlines() if line.startswith(("F\t", "P\t"))}


@dataclass
class Node:
    """An item of the tree that has others below it: a protocol, as a rule.

    fields: by name the raw values of what is below it at any depth, in order: hexadecimal digits, and whether they are
    part of a byte or of several. texts: the same as tshark words them.
    """

    name: str
    fields: dict[str, list[tuple[str, bool]]] = field(default_factory=lambda: {})
    texts: dict[str, list[str]] = field(default_factory=lambda: {})
    nodes: list[Node] = field(default_factory=lambda: [])

    def walk(self, closed: frozenset[str]) -> Iterator[Node]:
        """This node and those below, in order; not those below one that is named in `closed`."""
        yield self
        if self.name not in closed:
            for node in self.nodes:
                yield from node.walk(closed)

    def numbers(self, name: str) -> list[int]:
        """The raw values of a field as numbers in network order."""
        return [int(digits or "0", 16) for digits, _ in self.fields.get(name, [])]

    def bytes(self, name: str) -> list[bytes]:
        """The raw values of a field as bytes."""
        return [bytes.fromhex(digits) for digits, _ in self.fields.get(name, [])]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object, of which tshark repeats names."""


def _node(name: str, pairs: _Pairs) -> Node:
    node = Node(name)
    for key, value in pairs:
        if key.endswith("_raw") and type(value) is list:
            raw = value if isinstance(value[0], list) else [value]
            node.fields.setdefault(key[:-4], []).extend((one[0], bool(one[3])) for one in raw)
        elif isinstance(value, _Pairs):
            below = _node(key, value)
            node.nodes.append(below)
            for found, values in below.fields.items():
                node.fields.setdefault(found, []).extend(values)
            for found, texts in below.texts.items():
                node.texts.setdefault(found, []).extend(texts)
        elif isinstance(value, str):
            node.texts.setdefault(key, []).append(value)
    return node


def dissect(path: Path, frames: Iterable[int], protocols: Iterable[str]) -> dict[int, Node]:
    """The trees of some frames of a capture, by frame, as far as they are about some of tshark's protocols."""
    numbers = sorted(frames)
    wanted = ",".join(map(str, numbers))
    command = ["tshark", "-n", "-r", str(path), "-c", str(numbers[-1]), "-Y", f"frame.number in {{{wanted}}}"]
    command += ["-T", "json", "-x", "-J", " ".join(["frame", *protocols])]
    for option in OPTIONS:
        command += ["-o", option]
    for port in (*PORTS, *PORTS_OF.get(path.name, ())):
        command += ["-d", port]
    if (secrets := key_log(path)) is not None:
        command += ["-o", f"tls.keylog_file:{secrets}"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode and not done.stdout:
        raise OSError(f"tshark failed on {path.name}: {done.stderr.strip()[-500:]}")
    found: dict[int, Node] = {}
    for packet in json.loads(done.stdout, object_pairs_hook=_Pairs):
        node = _node("layers", dict(dict(packet)["_source"])["layers"])
        found[int(node.texts["frame.number"][0])] = node
    return found
