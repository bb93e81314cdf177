"""What --store takes."""

from __future__ import annotations

import argparse

import pytest

from sluice.cli.common.errors import UsageError
from sluice.cli.common.options import add_store, check_store
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
        (
            "valkey://me:b@10.0.0.1,10.0.0.2:7000?safety=memory",
            Location(
                *("server", "10.0.0.1", 6379, "", "me", "b"),
                nodes=(("10.0.0.1", 6379), ("10.0.0.2", 7000)),
                safety="memory",
            ),
        ),
        ("embedded?safety=memory", Location("embedded", safety="memory")),
        ("valkey+unix:///run/x.sock", Location("server", "", 0, "/run/x.sock")),
    ],
)
def test_stores(text: str, wanted: Location) -> None:
    assert read_location(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no store"),
        ("remote", "is no store: it is local, embedded, valkey://HOST:PORT"),
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
        ("embedded?safety=much", "safety=much"),
        ("embedded?safety=replica", "has no replicas"),
        ("valkey://a,,b", "is no store"),
        ("local?cache=no", "no options follow 'local'"),
    ],
)
def test_what_is_no_store(text: str, message: str) -> None:
    with pytest.raises(LocationError, match=message):
        read_location(text)


def test_the_safety_may_be_an_option_of_its_own() -> None:
    parser = argparse.ArgumentParser()
    add_store(parser)
    words = ["--store", "valkey://a,b?timeout=2500", "--store-safety", "disk"]
    for given in (words, [*words[2:], *words[:2]]):
        assert parser.parse_args(given).store == read_location("valkey://a,b?timeout=2500&safety=disk")
    with pytest.raises(UsageError, match="give --store, too"):
        check_store(parser.parse_args(["--store-safety", "memory"]))
    for wrong, why in (("embedded", "no replicas"), ("valkey://a?safety=memory", "safety=memory")):
        with pytest.raises(LocationError, match=why):
            read_location(wrong, "replica")


def test_the_name_has_no_password() -> None:
    assert read_location("valkey://me:secret@host:1").name == "the store host:1"


@pytest.mark.parametrize(
    ("text", "replicas"),
    [("valkey://a", 0), ("valkey://a?safety=replica", 1), ("valkey://a,b", 1), ("valkey://a,b?safety=memory", 0)],
)
def test_updates_in_a_cluster_are_replicated_before_they_count(text: str, replicas: int) -> None:
    assert read_location(text).replicas == replicas
