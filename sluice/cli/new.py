"""sluice new NAME: write a starting point for a protocol of your own.

Makes a folder with a protocol over UDP, its stack with a function in Python, a capture, a test and a README, all of
which run at once; change them from there.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import shlex
import struct
from pathlib import Path
from typing import Any

from sluice.cli.common.errors import CommandError
from sluice.cli.common.options import add_command
from sluice.cli.common.output_folder import OutputFolder
from sluice.cli.common.template import fill

PORT = 4000
_TAKEN = ("eth", "ip", "udp", "stack", "name", "depth", "layers", "branches", "where", "goodbye")
"""Names that the written stack, or every stack, already uses."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "new", __doc__, action)
    parser.add_argument("name", metavar="NAME", help="of the protocol: small letters, digits and underscores")
    parser.add_argument("-o", metavar="DIR", dest="folder", help="where to write (default: a folder called NAME)")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    name: str = options.name
    if keyword.iskeyword(name):
        raise CommandError(f"'{name}' cannot name a protocol: it is a word of Python; choose another name")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise CommandError(
            f"'{name}' cannot name a protocol: take small letters, digits and underscores, as in my_protocol"
        )
    if name in _TAKEN:
        raise CommandError(f"'{name}' is used for something else in a stack: choose another name")
    folder = Path(options.folder or name)
    values = {"NAME": name, "FOLDER": shlex.quote(str(folder)), "PORT": str(PORT)}
    files = {
        f"{name}_protocol.py": fill("new/protocol.py", **values).encode(),
        "stack.py": fill("new/stack.py", **values).encode(),
        f"test_{name}.py": fill("new/test.py", **values).encode(),
        "README.md": fill("new/README.md", **values).encode(),
        "capture.pcap": _capture(),
    }
    _write(folder, files)
    stack, capture = (shlex.quote(str(folder / name)) for name in ("stack.py", "capture.pcap"))
    run = f"sluice run {stack} -r {capture} -f {stack}"
    if options.json:
        print(json.dumps({"name": name, "folder": str(folder), "files": list(files), "run": run}))
    else:
        print(f"{folder}: {', '.join(files)}\nrun it with\n    {run}")
    return 0


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write all files into an empty or new folder."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(f"{folder}: is there already; give another name, or another folder with -o")
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror}") from error
    with OutputFolder(folder) as output:
        for name, data in files.items():
            output.write(name, data)


def _capture() -> bytes:
    """A capture with a session (two messages and its end), a message of another session, and a packet of version 2."""
    packets = [_packet(7, 1, b"hello"), _packet(9, 1, b"good morning"), _packet(7, 1, b"again"), _packet(7, 2, b"")]
    packets.append(_packet(9, 1, b"from the future", version=2))
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for number, packet in enumerate(packets):
        out += struct.pack("<IIII", 1_700_000_000 + number, 0, len(packet), len(packet)) + packet
    return out


def _packet(session: int, kind: int, data: bytes, version: int = 1) -> bytes:
    """An Ethernet frame with a packet of the new protocol over UDP."""
    message = struct.pack("!BHH", version << 4 | kind, session, len(data)) + data
    udp = struct.pack("!HHHH", 40000 + session, PORT, 8 + len(message), 0) + message
    ip = struct.pack("!BBHHHBBH4B4B", 0x45, 0, 20 + len(udp), session, 0, 64, 17, 0, 10, 0, 0, session, 10, 0, 0, 1)
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    ethernet = bytes.fromhex("020000000001 020000000002 0800")
    return ethernet + ip + udp
