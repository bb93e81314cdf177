"""The node of the kernel's TUN device is made where it is missing and may be made, and nothing else is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.support.network import make_node

DEVICES = " 58 rfkill\n200 tun\n227 mcelog\n"

root = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes need root")


def may_make(folder: Path) -> bool:
    """Root of a container may not be allowed to."""
    try:
        os.mknod(folder / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        return False
    return True


@root
def test_it_is_made(tmp_path: Path) -> None:
    if not may_make(tmp_path):
        pytest.skip("no device nodes can be made here")
    node = tmp_path / "net" / "tun"
    assert make_node(node, DEVICES)
    found = node.stat()
    assert stat.S_ISCHR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600
    assert (os.major(found.st_rdev), os.minor(found.st_rdev)) == (10, 200)
    assert make_node(node, "")  # it is there


@pytest.mark.parametrize("devices", ["", "130 watchdog\n", "200 tunnel\n", "tun\n"])
def test_without_the_device_it_is_not(tmp_path: Path, devices: str) -> None:
    node = tmp_path / "net" / "tun"
    assert not make_node(node, devices) and not node.exists()


def test_where_it_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "net").write_text("a file")
    assert not make_node(tmp_path / "net" / "tun", DEVICES)
