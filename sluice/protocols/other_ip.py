"""Any protocol over IP (RFC 791, RFC 8200) for which the stack has no other layer.

A conversation is two addresses and the protocol number. Limits: no header is parsed. Needs a lower layer that offers
src, dst and protocol.
"""

from sluice.lang import ConnectionOriented


def between_hosts(parser: ConnectionOriented) -> ConnectionOriented:
    """The same parser with a conversation for every two addresses and protocol number."""
    parser.selector = [parser.below.src, parser.below.protocol], [parser.below.dst, parser.below.protocol]
    parser.timeout = 60
    return parser


def other_ip_parser() -> ConnectionOriented:
    return between_hosts(ConnectionOriented("ip"))
