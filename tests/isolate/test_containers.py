"""A container's addresses, as /proc has them."""

from sluice.isolate.containers import local_addresses

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.89.1.0
        /24 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     +-- 10.89.1.0/24 2 0 2
        |-- 10.89.1.0
           /24 link UNICAST
        |-- 10.89.1.2
           /32 host LOCAL
        |-- 10.89.1.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
"""


def test_local_addresses_are_those_of_hosts() -> None:
    assert local_addresses(FIB_TRIE) == {"10.89.1.2", "127.0.0.1"}


def test_text_that_is_cut_short_has_what_is_whole() -> None:
    for length in range(len(FIB_TRIE)):
        assert local_addresses(FIB_TRIE[:length]) <= {"10.89.1.2", "127.0.0.1"}
