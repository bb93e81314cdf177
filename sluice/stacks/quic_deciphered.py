"""QUIC in traces whose packets are already decrypted: as stack quic, without keys.

For captures that a program within the secured network made (the paper's section 8), or that were decrypted later:
header and payload are plain text, and no authentication tag follows.
"""

from sluice.lang import Stack
from sluice.stacks import quic


def quic_deciphered() -> Stack:
    s = Stack("quic_deciphered")
    quic.up_to_udp(s)
    quic.over_udp(s, s.udp, deciphered=True)
    return s
