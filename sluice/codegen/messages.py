"""The C function that cuts a stream into messages; sluice/runtime/messages.h keeps what is not whole."""

from __future__ import annotations

from sluice.codegen.writer import LayerWriter


def messages_function(w: LayerWriter) -> list[str]:
    """Cuts what a stream brings into messages for this layer."""
    word = w.word
    deep = w.names.counters.add("box", "too deep")
    lose = "sl_messages_lose(messages, &box->base.pool, "
    return [
        "",
        "/* What the stream of one side brings, message by message; what is not whole is kept. */",
        f"static void messages_{word}(struct sl_stack_box *box, struct sl_messages *messages, sl_bytes sdu)",
        "{",
        "    if (messages->state == SL_MESSAGES_OVER)",
        "        return;",
        "    if (messages->used && messages->used + sdu.captured < messages->want) {",
        "        if (!sl_messages_keep(messages, &box->base.pool, sdu))",
        f"            {lose}SL_LOSS_LIMIT);",
        "        return;",
        "    }",
        "    bool kept = messages->used != 0;",
        "    sl_bytes rest = sl_messages_join(messages, &box->base.pool, &box->base.scratch, sdu);",
        "    if (kept && !rest.captured)",
        f"        {lose}SL_LOSS_LIMIT);",
        "    uint64_t want = 0;",
        "    while (rest.captured) {",
        "        if (messages->state == SL_MESSAGES_LOST) {",
        f"            lost_{word}(box, (sl_bytes){{0}}, messages->cause);",
        f"            messages->state = {'SL_MESSAGES_SEARCHING' if w.layer.resyncs else 'SL_MESSAGES_OVER'};",
        *([] if w.layer.resyncs else ["            return;"]),
        "        }",
        f"        want = frame_{word}(box, rest, messages->state == SL_MESSAGES_SEARCHING);",
        "        if (want == SL_MESSAGE_INCOMPLETE)",
        "            break;",
        "        if (want >= SL_MESSAGE_TOO_LONG) {",
        "            if (messages->state == SL_MESSAGES_SEARCHING)",
        "                rest = sl_bytes_slice(rest, 1, UINT64_MAX);",
        "            else",
        f"                {lose}want == SL_MESSAGE_TOO_LONG ? SL_LOSS_LIMIT : SL_LOSS_MALFORMED);",
        "            want = 0;",
        "            continue;",
        "        }",
        "        messages->state = SL_MESSAGES_FOUND;",
        "        if (want > rest.captured)",
        "            break;",
        f"        if (SL_LIKELY(box->base.depth < {w.names.program.depth}))",
        f"            layer_{word}(box, sl_bytes_slice(rest, 0, want));",
        "        else",
        "            " + deep,
        "        rest = sl_bytes_slice(rest, want, UINT64_MAX);",
        "        want = 0;",
        "    }",
        "    messages->want = (uint32_t)want;",
        "    if (rest.captured && !sl_messages_keep(messages, &box->base.pool, rest))",
        f"        {lose}SL_LOSS_LIMIT);",
        "}",
    ]
