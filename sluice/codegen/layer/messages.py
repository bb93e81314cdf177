"""The C functions that cut streams and packets into messages. Incomplete messages are stored by
sluice/runtime/stream/messages.h.
"""

from __future__ import annotations

from sluice.codegen.c.writer import LayerWriter, messages_heads, packet_head
from sluice.ir.graph import CUT_BYTES, HELD


def messages_functions(w: LayerWriter) -> list[str]:
    """The functions that deliver messages to this layer."""
    return [
        *(_of_streams(w) if w.layer.of_streams else []),
        *(_of_packets(w) if w.layer.of_packets else []),
    ]


def _of_packets(w: LayerWriter) -> list[str]:
    word = w.word
    whole, lost = CUT_BYTES
    bounds = [("SL_LOSS_WORK", "box->base.work >= box->base.work_most", ["box->base.work++;"])]
    if w.layer.in_bundle():
        spent = "box->base.bundled >= box->base.bundle_most || !box->base.bundle_credit"
        bounds.append(("SL_LOSS_BUNDLE", spent, ["box->base.bundled++;"] if w.layer.bundled else []))
    earned: list[str] = []
    if any(layer.in_bundle() for layer in w.names.program.layers.values()):
        earned = [
            "    if (!box->base.work)   /* a packet earns by its length, for later ones, too */",
            "        sl_earn(&box->base, 1 + sdu.captured / SL_BUNDLE_BYTES);",
        ]
    return [
        "",
        "/* Cuts the messages out of a packet. */",
        packet_head(word),
        "{",
        f"    {w.count(whole, 'sdu.length')}",
        *earned,
        "    for (sl_bytes rest = sdu; rest.length;) {",
        *(
            f"        {line}"
            for cause, reached, counted in bounds
            for line in (
                f"if (SL_UNLIKELY({reached})) {{",
                f"    {w.count(lost, 'rest.length')}",
                f"    lost_{word}(box, (sl_bytes){{0}}, stream, sdu.length - rest.length, rest.length, {cause});",
                "    return;",
                "}",
                *counted,
            )
        ),
        f"        uint64_t want = frame_{word}(box, rest, 0);",
        "        if (SL_UNLIKELY(want - 1 >= rest.length)) {",
        f"            {w.count(lost, 'rest.length')}",
        f"            lost_{word}(box, (sl_bytes){{0}}, stream, sdu.length - rest.length, rest.length, sl_packet_loss(want));",
        "            return;",
        "        }",
        *(f"        {line}" for line in _delivered(w)),
        "        rest = sl_bytes_slice(rest, want, UINT64_MAX);",
        "    }",
        "}",
    ]


def _delivered(w: LayerWriter, of_stream: bool = False) -> list[str]:
    """Statements that deliver a message.

    Instances that it begins count, but for at most half of the bound of a packet: data that others left waiting for it may
    have begun most of them, and the messages after it are not lost for that. Where bytes of the layer may have to wait,
    those that do count for more of the bound on average.
    """
    deliver = f"layer_{w.word}(box, sl_bytes_slice(rest, 0, want), stream);"
    if not w.layer.in_bundle(of_stream):
        return [deliver]
    before, spent = "created = box->base.created", "SL_BUNDLE_BEGINS * begun"
    if w.layer.bundled:
        held = f"box->counters[{w.names.counters.index(w.layer.name, HELD)}]" if HELD in w.layer.outcomes() else "0"
        before += f", held = {held}"
        spent = f"{'1' if w.layer.half else 'SL_BUNDLE_HALVES'} + {spent} + SL_BUNDLE_HOLDS * ({held} - held)"
    else:
        spent += " + SL_BUNDLE_HALVES * (box->base.work % SL_BUNDLE_CHEAP == 0)"
    begun = "box->base.bundled += (uint32_t)sl_min(SL_BUNDLE_MORE * begun, box->base.bundle_most / 2);"
    return [
        f"const uint64_t {before};",
        deliver,
        "const uint64_t begun = box->base.created - created;",
        *([] if of_stream else [begun]),
        f"box->base.bundle_credit -= sl_min({spent}, box->base.bundle_credit);",
    ]


def _of_streams(w: LayerWriter) -> list[str]:
    """The functions that cut a stream into messages for this layer, and that end the stream."""
    word = w.word
    head, close_head = messages_heads(word)
    lose = "sl_messages_lose(messages, &box->base.pool, "
    delivered = _delivered(w, of_stream=True)
    earned: list[str] = []
    skipped: list[str] = []
    search = ["rest = sl_bytes_slice(rest, 1, UINT64_MAX);"]
    if w.layer.in_bundle(of_stream=True):
        # only the bound on average: a packet that fills a hole may deliver what many others have brought
        earned = [
            "    sl_earn_packet(&box->base);",
            "    sl_earn(&box->base, sdu.captured / SL_BUNDLE_BYTES);",
            "    uint64_t skipped = 0;   /* bytes of messages beyond the bound */",
        ]
        if w.layer.resyncs:
            earned.append("    uint32_t searched = 0;   /* bytes at which no message begins */")
            search = [
                "if (SL_UNLIKELY(!box->base.bundle_credit)) {",
                "    skipped += rest.captured;",
                "    rest = (sl_bytes){0};",
                "} else {",
                "    rest = sl_bytes_slice(rest, 1, UINT64_MAX);",
                "    box->base.bundle_credit -= ++searched % SL_BUNDLE_SEARCHED == 0;",
                "}",
            ]
        skipped = [
            "if (SL_UNLIKELY(skipped)) {",
            f"    lost_{word}(box, (sl_bytes){{0}}, stream, messages->seen - rest.captured - skipped, skipped, SL_LOSS_BUNDLE);",
            "    skipped = 0;",
            "}",
        ]
        delivered = [
            "if (SL_UNLIKELY(!box->base.bundle_credit)) {   /* for the rest of what is delivered */",
            "    skipped += want;",
            "} else {",
            *("    " + line for line in delivered),
            "}",
        ]
    return [
        "",
        "/* Cuts the messages out of the stream of a side. The bytes of an incomplete message are held. */",
        head,
        "{",
        "    if (messages->state == SL_MESSAGES_OVER)",
        "        return;",
        f"    messages->taker = {w.index + 1};",
        "    sdu.length = sdu.captured;   /* bytes cut by the snap length are a gap, which the caller reports */",
        "    messages->seen = sl_max(offset, messages->seen) + sdu.captured;",
        "    if (messages->used && messages->used + sdu.captured < messages->want) {",
        "        if (!sl_messages_store(messages, &box->base.pool, sdu))",
        f"            {lose}SL_LOSS_LIMIT);",
        "        return;",
        "    }",
        "    bool kept = messages->used != 0;",
        "    sl_bytes rest = sl_messages_join(messages, &box->base.pool, &box->base.scratch, sdu);",
        "    if (kept && !rest.captured)",
        f"        {lose}SL_LOSS_LIMIT);",
        "    uint64_t want = 0;",
        *earned,
        "    while (rest.captured) {",
        "        if (messages->state == SL_MESSAGES_LOST) {",
        *("            " + line for line in skipped),
        "            uint64_t lost = messages->seen - rest.captured;",
        "            lost = lost > messages->begin ? lost - messages->begin : 0;",
        f"            lost_{word}(box, (sl_bytes){{0}}, stream, messages->begin, lost, messages->cause);",
        f"            messages->state = {'SL_MESSAGES_SEARCHING' if w.layer.resyncs else 'SL_MESSAGES_OVER'};",
        *([] if w.layer.resyncs else ["            return;"]),
        "        }",
        f"        want = frame_{word}(box, rest, messages->state == SL_MESSAGES_SEARCHING);",
        "        if (want == SL_MESSAGE_INCOMPLETE)",
        "            break;",
        "        if (want >= SL_MESSAGE_TOO_LONG) {",
        "            if (messages->state == SL_MESSAGES_SEARCHING) {",
        *("                " + line for line in search),
        "            } else {",
        "                messages->begin = messages->seen - rest.captured;",
        f"                {lose}want == SL_MESSAGE_TOO_LONG ? SL_LOSS_LIMIT : SL_LOSS_MALFORMED);",
        "            }",
        "            want = 0;",
        "            continue;",
        "        }",
        "        messages->state = SL_MESSAGES_FOUND;",
        "        if (want > rest.captured)",
        "            break;",
        *("        " + line for line in delivered),
        "        rest = sl_bytes_slice(rest, want, UINT64_MAX);",
        "        want = 0;",
        "    }",
        *("    " + line for line in skipped),
        "    messages->want = (uint32_t)want;",
        "    if (messages->state != SL_MESSAGES_LOST)",
        "        messages->begin = messages->seen - rest.captured;",
        "    if (rest.captured && !sl_messages_store(messages, &box->base.pool, rest))",
        f"        {lose}SL_LOSS_LIMIT);",
        "}",
        "",
        "/* The stream of a side ends. */",
        close_head,
        "{",
        f"    if (sl_messages_end(messages, &box->base.pool, {w.index}))",
        f"        lost_{word}(box, (sl_bytes){{0}}, stream, messages->begin, messages->seen - messages->begin,",
        "            messages->cause);",
        "}",
    ]
