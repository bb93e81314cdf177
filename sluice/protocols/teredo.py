"""Teredo: RFC 4380, IPv6 over UDP port 3544, optionally after an authentication and an origin indication.

`teredo_parser` tests the first four bits only: `kind` is 1 for an authentication, 0 for an origin, and has 6 for IPv6.
Limits: nothing is verified; the obfuscated port of an origin indication is not used.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class teredo_hdr(layout):
    kind = UInt(16)


class teredo_authentication(layout):
    indicator = UInt(16)
    id_length = Bit(8)
    value_length = Bit(8)
    client = Bit(id_length << 3)
    value = Bit(value_length << 3)
    nonce = Bit(64)
    confirmation = Bit(8)


class teredo_origin(layout):
    indicator = UInt(16)
    port = UInt(16)
    address = Bit(32)


def teredo_parser() -> Connectionless:
    teredo = Connectionless("teredo")
    teredo.header = teredo_hdr
    teredo.sdu = teredo.unit
    return teredo


def teredo_authentication_parser() -> Connectionless:
    authentication = Connectionless("teredo_authentication")
    authentication.header = teredo_authentication
    return authentication


def teredo_origin_parser() -> Connectionless:
    origin = Connectionless("teredo_origin")
    origin.header = teredo_origin
    return origin
