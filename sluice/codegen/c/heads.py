"""The C function of each kind of graph (sluice/ir/graph_kinds.py): its head, its slots, and how it returns."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.codegen.burst.stages import UNIT, WAITING
from sluice.ir.graph_kinds import (
    DEFERRED,
    DISPATCH,
    DRAIN,
    END,
    FRAME,
    LOOKAHEAD,
    LOST,
    MAIN,
    PATH,
    STATELESS,
    TEMPLATE,
)

_BOX = "struct sl_stack_box *box"
_DIRECT = "struct sl_packet_data *direct"


@dataclass(frozen=True)
class Head:
    """The C function of a kind of graph.

    `result`: its type. `parameters`: their declarations; {instance} is the struct of the layer's instances. `slots`: the
    slots that it reads and writes; empty if they are a parameter or if it has none. `leave`: the statement of a Return
    with result {}. `storage`: the storage class, if it is the same for all layers. `finds`: it looks up its instance, and
    has variables for the instance and for the key.
    """

    result: str
    parameters: str
    slots: str
    leave: str
    storage: str = "static"
    finds: bool = False


HEADS = {
    MAIN: Head("void", f"{_BOX}, {UNIT}", "box->slots", "return;", finds=True),
    DRAIN: Head(
        "uint64_t",
        f"{_BOX}, {{instance}} *inst, {_DIRECT}, SL_UNUSED sl_bytes unit, SL_UNUSED uint64_t side, "
        "SL_UNUSED uint64_t cause, uint64_t all",
        "box->slots",
        "return {};",
        "__attribute__((noinline)) static",
    ),
    END: Head(
        "void",
        f"{_BOX}, {{instance}} *inst, SL_UNUSED {_DIRECT}, SL_UNUSED sl_bytes unit, uint64_t reason",
        "box->slots",
        "return;",
        "__attribute__((noinline)) static",
    ),
    FRAME: Head(
        "uint64_t", f"SL_UNUSED {_BOX}, sl_bytes unit, SL_UNUSED uint64_t searching", "box->slots", "return {};"
    ),
    LOST: Head(
        "uint64_t",
        f"{_BOX}, SL_UNUSED sl_bytes unit, SL_UNUSED struct sl_stream stream, SL_UNUSED uint64_t offset, "
        "SL_UNUSED uint64_t length, SL_UNUSED uint64_t cause",
        "box->slots",
        "return {};",
        "SL_COLD",
    ),
    STATELESS: Head("void", f"{WAITING}, {UNIT}, unsigned depth", "&waiting->slots", "return;"),
    # inlined, so that the C compiler knows here what it knows of the packet in the layer below
    TEMPLATE: Head("bool", f"{WAITING}, {UNIT}, unsigned depth", "&waiting->slots", "return false;", "SL_INLINED"),
    DEFERRED: Head("void", f"{_BOX}, {UNIT}", "", "return;", finds=True),
    LOOKAHEAD: Head(
        "void", f"SL_UNUSED {_BOX}, SL_UNUSED struct sl_slots *slots, {UNIT}, SL_UNUSED unsigned depth", "", "return;"
    ),
    DISPATCH: Head(
        "uint64_t",
        f"SL_UNUSED struct sl_slots *slots, SL_UNUSED uint64_t secret, {UNIT}, SL_UNUSED unsigned depth",
        "",
        "return {};",
        "SL_UNUSED static",
    ),
    PATH: Head(
        "void",
        f"SL_UNUSED struct sl_slots *slots, SL_UNUSED uint64_t secret, struct sl_path_keys *keys, {UNIT}, "
        "SL_UNUSED unsigned depth",
        "",
        "return;",
        "SL_UNUSED static",
    ),
}
"""By kind of graph."""
