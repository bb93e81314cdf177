"""Two hosts and a box between them, in three network namespaces that two veth pairs join. Needs root, `ip`, `ethtool`."""

from __future__ import annotations

import shutil
import subprocess

from tests.live.veth import Veth, why_not

CLIENT, SERVER = "10.79.0.1", "10.79.0.2"


def why_no_wire() -> str:
    """What keeps a Wire from being made here; empty when it can be."""
    missing = [name for name in ("ethtool", "curl") if shutil.which(name) is None]
    return why_not() or (f"there is no {missing[0]} (Debian: {missing[0]})" if missing else "")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Wire(Veth):
    """NAMEa, the client with device c0; NAMEm, the box with b0 and b1; NAMEb, the server with s0."""

    def __init__(self, name: str) -> None:
        self.client, self.box, self.server = f"{name}a", f"{name}m", f"{name}b"
        self.close()  # of a run that was killed
        try:
            for space in (self.client, self.box, self.server):
                ip("netns", "add", space)
            for space, device, address, other in (
                (self.client, "c0", CLIENT, "b0"), (self.server, "s0", SERVER, "b1"),
            ):  # fmt: skip
                ip("link", "add", device, "netns", space, "type", "veth", "peer", "name", other, "netns", self.box)
                ip("-n", space, "addr", "add", f"{address}/24", "dev", device)
                for where, each in ((space, "lo"), (space, device), (self.box, other)):
                    ip("-n", where, "link", "set", each, "up")
                for where, each in ((space, device), (self.box, other)):
                    words = f"-K {each} tx off sg off tso off gso off gro off".split()
                    subprocess.run(["ip", "netns", "exec", where, "ethtool", *words], check=True, capture_output=True)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Wire:
        return self

    def close(self) -> None:
        for space in (self.client, self.box, self.server):
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
