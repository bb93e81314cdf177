"""Functions in C that are made to be measured: events that never happen, and bytes that not all are wanted."""

from __future__ import annotations

from pathlib import Path

EVENTS = 64
"""User-defined events, as many as there may be handlers on demand."""
FIRST = 4096
"""Bytes of each side that the function wants which stops after the first ones."""

HEAD = '#include "sluice.h"\n'


def _never(step: int) -> str:
    """Events that never happen: each filter asks for another length."""
    return "".join(
        f"SLUICE_EVENT(tcp, never{n}, packet) {{ return data->length == {100_001 + step * n}; }}\n"
        for n in range(EVENTS)
    )


NEVER = _never(7)
"""Numbers near each other, some of which the C compiler may join."""
APART = _never(7919)
"""Numbers that lie too far apart for that: each is a question of its own."""
HANDLERS = 'SLUICE_COUNTER(happened, "events")\n' + "".join(
    f"SLUICE_ON_DEMAND(tcp, never{n}) {{ SLUICE_COUNTER_OF(event->box, happened) += {n + 1}; }}\n"
    for n in range(EVENTS)
)
"""Each does something of its own, so that no compiler leaves the question out."""
REGISTER_ALL = "SLUICE_OPEN { for (uint32_t n = 0; n < 64; n++) sl_register(box, n, true); return 0; }\n"
EACH_PACKET = "SLUICE_ON(tcp, packet) { %s }\n"
TURNS = """SLUICE_COUNTER(outside, "packets")
SLUICE_ON_DEMAND(tcp, out_of_wnd) { SLUICE_COUNTER_OF(event->box, outside)++; }
SLUICE_ON(tcp, packet) {
    if (sl_packet_number(event) & 1)
        SLUICE_REGISTER_FLOW(event, tcp, out_of_wnd);
    else
        SLUICE_DEREGISTER_FLOW(event, tcp, out_of_wnd);
}
"""
READ = """struct totals { uint64_t bytes, sum; };
SLUICE_WORKER(struct totals)
SLUICE_ON(tcp, data) {
    struct totals *totals = SLUICE_WORKER_OF(event->box);
    uint64_t word;
    uint32_t i = 0;
    for (; i + 8 <= data->bytes.captured; i += 8) {
        memcpy(&word, data->bytes.at + i, 8);
        totals->sum += word;
    }
    for (; i < data->bytes.captured; i++)
        totals->sum += data->bytes.at[i];
    totals->bytes += data->bytes.captured;
    %s
}
SLUICE_CLOSE {
    const struct totals *totals = SLUICE_WORKER_OF(box);
    __asm__ volatile("" : : "r"(totals->sum));   /* so that it is needed */
    sl_report(box, "delivered_bytes", totals->bytes);
}
"""
CREATED = "SLUICE_CONTROL(tcp)\nSLUICE_ON(tcp, created) { %s }\n"

TEXTS = {
    "unheard": NEVER,
    "idle": NEVER + HANDLERS,
    "watching": NEVER + HANDLERS + REGISTER_ALL,
    "watching_apart": APART + HANDLERS + REGISTER_ALL,
    "counting": EACH_PACKET % "SLUICE_COUNTER_OF(event->box, packets)++;" + 'SLUICE_COUNTER(packets, "seen")\n',
    "turns": TURNS,
    "read": READ % "",
    "read_active": READ % "" + CREATED % "sl_buffer(event, 1, 0);",
    "read_first": READ % f"if (data->offset >= {FIRST}) sl_buffer(event, event->side, 0);" + "SLUICE_CONTROL(tcp)\n",
    "read_none": READ % "" + CREATED % "sl_buffer(event, SL_BOTH, 0);",
}
"""By name."""
TRACKING = ("unheard", "idle", "watching", "watching_apart", "counting", "turns")
"""Those that go with flow tracking: streams are not buffered."""


def wanted(name: str, folder: Path) -> list[str] | None:
    """What `sluice bench -f` takes for a function of these, whose file is written to a folder; None for any other."""
    if name == "tracked":
        return ["none"]
    if name not in TEXTS:
        return None
    path = folder / "functions" / f"{name}.c"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + TEXTS[name])
    return [*(["none"] if name in TRACKING else []), str(path)]
