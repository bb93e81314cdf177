"""What --store takes."""

from __future__ import annotations

import pytest

from sluice.state.location import Location, LocationError, read_location


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("local", Location("local")),
        ("embedded", Location("embedded")),
        ("embedded?wait=all&cache=no&timeout=100", Location("embedded", wait=True, cache=False, timeout=100)),
        ("valkey://10.0.0.1", Location("server", "10.0.0.1", 6379)),
        ("redis://[::1]:7000", Location("server", "::1", 7000)),
        ("valkey://me:a%40b@host:1", Location("server", "host", 1, "", "me", "a@b")),
        ("valkey+unix:///run/x.sock", Location("server", "", 0, "/run/x.sock")),
    ],
)
def test_stores(text: str, wanted: Location) -> None:
    assert read_location(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no store"),
        ("remote", "is no store: it is local, embedded, valkey://HOST:PORT or valkey\\+unix:///PATH"),
        ("valkey://", "is no store"),
        ("valkey://host:x", "valkey://host:x"),
        ("valkey://host:99999", "valkey://host:99999"),
        ("valkey://host/path", "is no store"),
        ("http://host", "is no store"),
        ("valkey+unix://host/path", "is no store"),
        ("embedded?wait=yes", "wait=yes"),
        ("embedded?timeout=0", "timeout=0"),
        ("embedded?timeout=x", "timeout=x"),
        ("embedded?speed=high", "speed=high"),
        ("local?cache=no", "no options follow 'local'"),
    ],
)
def test_what_is_no_store(text: str, message: str) -> None:
    with pytest.raises(LocationError, match=message):
        read_location(text)


def test_the_name_has_no_password() -> None:
    assert read_location("valkey://me:secret@host:1").name == "the store host:1"
