"""Programs that several tests use, and messages for them."""

from __future__ import annotations

import struct
from pathlib import Path

from sluice.service.load import Service, load_file

ROOT = Path(__file__).resolve().parents[2]
ROUTER = ROOT / "examples" / "memcached_router" / "router.fk"

LISTING_3 = """\
type kv: record
  key : string
  value : string

proc hadoop: ([kv/-] mappers, -/kv reducer):
  if (all_ready(mappers)):
    let result = foldt on mappers
        ordering elem e1, e2 by elem.key as e_key:
      let v = combine(e1.val, e2.val)
      kv(e_key, v)
    result => reducer

fun combine(v1: string, v2: string) -> (string):
  int_to_string(string_to_int(v1) + string_to_int(v2))
"""
"""As printed, but for the body of `combine`, which the paper leaves out."""

PAIR = """\
type kv = unit {
  key_len   : uint8;
  value_len : uint8;
  key       : string &length = self.key_len;
  value     : string &length = self.value_len;
};
"""


def router() -> Service:
    """The Memcached router of the examples."""
    return load_file(str(ROUTER), ["memcached_binary"])


def command(
    key: bytes, value: bytes = b"", extras: bytes = b"", opcode: int = 0, magic: int = 0x80, opaque: int = 0
) -> bytes:
    """A message of Memcached's binary protocol."""
    total = len(extras) + len(key) + len(value)
    return (
        struct.pack(">BBHBBHIIQ", magic, opcode, len(key), len(extras), 0, 0, total, opaque, 0) + extras + key + value
    )


def pair(key: bytes, value: bytes) -> bytes:
    """A message of PAIR."""
    return bytes([len(key), len(value)]) + key + value
