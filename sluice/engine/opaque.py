"""Finds in the C compiler's messages where a function on events names a member of struct sl_box, which is opaque.

The members have an attribute (SL_OPAQUE in runtime/core/box.h) of which the compiler warns in the text of a function:
the type of an expression decides, not its words.
"""

from __future__ import annotations

import re
from pathlib import Path

ACCESSORS = {
    "now": "sl_now(box)",
    "time": "sl_packet_time(event)",
    "number": "sl_packet_number(event)",
    "frame": "sl_packet_frame(event)",
    "path": "sl_path_layer(event, depth)",
    "depth": "sl_path_depth(event)",
    "layers": "sl_layer_at(box, index)",
    "layer_count": "sl_layer_count(box)",
    "units": "sl_layer_unit(box, depth)",
    "max_instances": "sl_max_instances(box)",
    "seed": "sl_seed(box)",
    "refused_count": "sl_refused_link_types(box)",
    "registered": "SLUICE_REGISTER(box, layer, event)",
    "failure": "sl_fail(box, what, why)",
    "reports": "sl_report(box, name, value)",
    "workers": "SLUICE_WORKER_OF(box)",
    "common": "SLUICE_COMMON_OF(box)",
    "group": "SLUICE_WORKERS(box)",
    "worker": "sl_worker_number(box)",
    "parameters": "SLUICE_PARAMETER_OF(box, name)",
    "function_counters": "SLUICE_COUNTER_OF(box, name)",
}
"""Members of struct sl_box, and the accessor of each. The others are none of a function's concern."""

_WARNING = re.compile(
    r"^(?P<where>[^\n]+?:\d+):\d+: \w+\W+(?P<member>\w+)\W[^\n]*: struct sl_box is opaque", re.MULTILINE
)
"""A message of gcc or clang in any language: FILE:LINE:COLUMN: warning: 'MEMBER' is deprecated: TEXT."""

_USE = re.compile(r"^(?P<where>[^\n]+?:\d+):\d+: ", re.MULTILINE)
"""A note that follows: gcc begins with the macro of the runtime in which an argument stands, and notes its use."""


def member_of_box(messages: str, runtime: Path) -> str | None:
    """Why a function is refused, by its first place that names a member of struct sl_box; None if there is none.
    runtime: the folder of the runtime's own headers.
    """
    found = _WARNING.search(messages)
    if not found:
        return None
    places = [found["where"], *(use["where"] for use in _USE.finditer(messages, found.end()))]
    where = next((place for place in places if not place.startswith(f"{runtime}/")), places[0])
    accessor = ACCESSORS.get(found["member"])
    advice = f"call {accessor}" if accessor else "functions do not use this member"
    return f"{where}: {found['member']}: struct sl_box is opaque: {advice}"
