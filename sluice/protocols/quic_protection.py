"""The protection of QUIC packets: RFC 9001 and RFC 9369, decrypted by functions in C with OpenSSL's libcrypto.

Initial packets are decrypted with keys derived from the connection id, the others with secrets of a key log (option
keylog, in the format of SSLKEYLOGFILE) or of the pcapng file, if they contain them: AES-128-GCM, AES-256-GCM,
AES-128-CCM, ChaCha20-Poly1305, both header protection and payload, key updates. Decrypted packets are authentic; a
packet that fails is dropped, with the reason. So is a Retry packet whose integrity tag (5.8) does not match an Initial
packet of its connection. The log may grow during the run. Versions 1 and 2, drafts from 29 on; libcrypto is loaded when
a box opens; without it nothing is decrypted.

Limits: of the Initial packets of a connection with one timestamp, such as those of one datagram, three failures end the
attempts. Keys are derived for a number of 64 packets on average (`--derivations`). The secrets of a log take at most
half of `--memory`. If keys are updated twice and no packet of the phase between was captured, the rest of that side is
not decrypted.
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
    "too many derivations of keys",
]
NO_KEY = REASONS.index("no key") + 1

protection = Native("quic_protection.c", option="keylog")
open_packet = protection.function("open_quic_packet", reasons=REASONS, limit=65536)
learn_random = protection.function("learn_quic_random", reasons=["no connection", "not 32 bytes"])


def opened(quic: ConnectionOriented, kind: Expression, number_at: Expression) -> NativeCall:
    """The frames of a packet of this kind, whose number begins at this byte; `quic.temp` has its other properties.

    A Retry packet has neither frames nor a number: it is only authenticated.
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
