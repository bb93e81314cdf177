"""The protection of QUIC packets: RFC 9001 and RFC 9369, opened by functions in C with OpenSSL's libcrypto.

Initial packets are opened with the keys that follow from the connection id, the others with the secrets of a key log
(option keylog, in the format of SSLKEYLOGFILE), or of those that a pcapng file carries along, where they have them:
AES-128-GCM, AES-256-GCM, ChaCha20-Poly1305, both header protection and payload, key updates. What is opened is
authentic; what is not is dropped, by its reason. So is a Retry packet whose integrity tag (5.8) answers no Initial
packet of its connection. The log may be written while traffic runs. Versions 1 and 2, drafts from 29 on; libcrypto is
loaded when a box opens, and where it is missing nothing is opened.

Limits: of the Initial packets of a connection with one timestamp, as those of one datagram, no more are tried once
three could not be opened. When keys are updated twice and no packet of the phase between was captured, no more of that
side is opened.
"""

from sluice.lang import ConnectionOriented, Expression, Native
from sluice.lang.native import NativeCall

REASONS = [
    "no connection",
    "no key",
    "not authentic",
    "too short",
    "cut by the snap length",
    "reserved bits",
    "unknown version",
    "no libcrypto",
    "wrong integrity tag",
    "too many that cannot be opened",
]
NO_KEY = REASONS.index("no key") + 1

protection = Native("quic_protection.c", option="keylog")
open_packet = protection.function("open_quic_packet", reasons=REASONS, limit=65536)
learn_random = protection.function("learn_quic_random", reasons=["no connection", "not 32 bytes"])


def opened(quic: ConnectionOriented, kind: Expression, number_at: Expression) -> NativeCall:
    """The frames of a packet of this kind, whose number begins at this byte; `quic.temp` keeps what else is known.

    A Retry packet has neither: that it is authentic is all there is to say of it.
    """
    temp = quic.temp
    return open_packet(
        quic.to_active,
        quic.header.version,
        kind,
        number_at,
        quic.unit,
        quic.header.dcid,
        into=[temp.packet_number, temp.zeros, temp.attempt],
    )
