"""Which files are one capture, by their names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.report.capture_sets import capture_sets


def sets(*paths: str) -> list[tuple[str, ...]]:
    return [found.files for found in capture_sets(paths)]


@pytest.mark.parametrize(
    "files",
    [
        ("d/web.pcap", "d/web.pcap1", "d/web.pcap2", "d/web.pcap10"),
        ("d/web.pcap00", "d/web.pcap01"),
        ("web_00001_20240517100000.pcapng", "web_00002_20240517110000.pcapng"),
        ("web_00009_20240517100000.pcapng", "web_00001_20240517110000.pcapng"),
        ("web-2024-05-17T10:00:00.pcap.gz", "web-2024-05-17T11:00:00.pcap.gz"),
        ("20240517_1000_eth0.pcap", "20240517_1100_eth0.pcap"),
        ("out-00001.pcap", "out-00002.pcap"),
    ],
)
def test_files_of_one_rotated_capture(files: tuple[str, ...]) -> None:
    """In whatever order they are given, in the order in which they were written."""
    assert sets(*files) == [files]
    assert sets(*reversed(files)) == [files]


@pytest.mark.parametrize(
    "files",
    [
        ("client1.pcap", "client2.pcap"),
        ("a/web.pcap", "b/web.pcap"),
        ("web.pcap", "web.pcap.gz"),
        ("web.pcap", "web.pcapng"),
        ("v4_20240517.pcap", "v6_20240517.pcap"),
        ("monday-20240517_1000.pcap", "tuesday-20240518_1000.pcap"),
        ("1715940000123.pcap", "1715940000124.pcap"),
        ("notes", "notes1"),
    ],
)
def test_files_that_only_look_alike(files: tuple[str, ...]) -> None:
    assert sets(*files) == [(path,) for path in files]


def test_a_file_that_is_named_twice_is_read_once() -> None:
    assert sets("a.pcap", "b.pcap", "a.pcap") == [("a.pcap",), ("b.pcap",)]


@given(st.lists(st.text(min_size=1, max_size=30).filter(lambda text: "\0" not in text), max_size=12))
def test_each_file_is_in_one_set(paths: list[str]) -> None:
    assert sorted(path for files in sets(*paths) for path in files) == sorted(set(paths))
