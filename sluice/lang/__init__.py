"""The language that users import to describe protocols and stacks. It imports nothing else of Sluice.

from sluice.lang import *
"""

from sluice.lang.action import Assemble, Assign, Block, Callback, swap_sides
from sluice.lang.alias import AddAlias
from sluice.lang.choice import Else, If
from sluice.lang.errors import DescriptionError, DescriptionWarning
from sluice.lang.expression import Expression, crc32c, internet_checksum, one_of
from sluice.lang.layer import AnyLayer
from sluice.lang.layout import AnyUntil, Bit, Bytes, UInt, Varint, layout
from sluice.lang.message import Length
from sluice.lang.native import Native
from sluice.lang.prototype import Chain, Connectionless, ConnectionOriented
from sluice.lang.psm import PSM, Pred, PSMState, make_psm_state
from sluice.lang.sequence import Sequence
from sluice.lang.sides import both_sides
from sluice.lang.stack import Stack

__all__ = [
    "PSM",
    "AddAlias",
    "AnyLayer",
    "AnyUntil",
    "Assemble",
    "Assign",
    "Bit",
    "Block",
    "Bytes",
    "Callback",
    "Chain",
    "ConnectionOriented",
    "Connectionless",
    "DescriptionError",
    "DescriptionWarning",
    "Else",
    "Expression",
    "If",
    "Length",
    "Native",
    "PSMState",
    "Pred",
    "Sequence",
    "Stack",
    "UInt",
    "Varint",
    "both_sides",
    "crc32c",
    "internet_checksum",
    "layout",
    "make_psm_state",
    "one_of",
    "swap_sides",
]
