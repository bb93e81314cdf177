"""The manifest of events: what it says is what compiled code writes, and it can be read again from its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.codegen.events.manifest import VERSION, manifest, read
from sluice.codegen.stack import generate
from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.events import Decoder, PythonFunction, Seen
from sluice.hooks.function import Functions
from sluice.ir.hook import Hook
from sluice.lower.build import build
from sluice.stacks.find import find_stack

CAPTURE = Path(__file__).resolve().parents[1] / "compat" / "mos" / "flows.pcap"
HOOKS = frozenset([Hook("tcp", "data"), Hook("tcp", "state"), Hook("tcp", "end"), Hook("udp", "packet")])


def test_the_json_is_the_manifest() -> None:
    for name in ("tcp_ip", "everything"):
        program = build(find_stack(name), HOOKS)
        records = [(("tcp", "data"), "data"), (("tcp", "end"), "end")]
        made = manifest(program, records, [(("udp", "packet"), "packet")], None)
        assert read(made.text()) == made


def test_it_describes_each_event_of_each_layer() -> None:
    program = build(find_stack("tcp_ip"), HOOKS)
    made = manifest(program)
    assert [layer.name for layer in made.layers] == list(program.layers)
    tcp = made.layer("tcp_over_ipv4")
    assert tcp.layer == "tcp" and tcp.oriented
    assert [(part.name, part.other, part.bits) for part in tcp.parts] == [("src", "dst", 32), ("sport", "dport", 16)]
    assert {value.name: value.bits for value in tcp.events["data"]} == {"offset": 64, "bytes": 0}
    states = {value.name: value.names for value in tcp.events["state"]}["after"]
    assert states is not None and states[:2] == ("CLOSED", "SYN_SENT")


@pytest.mark.parametrize(
    "text", ['{"version": 0}', '{"version": 1}', "[]", '{"version": 1, "stack": "s", "layers": [{}]}']
)
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"this is no manifest|version 0; version 1 can be read"):
        read(text)


LAYER = '{"name": "a", "layer": "a", "parts": %s, "half": 1, "oriented": false, "events": %s}'
PART = '[{"name": "x", "other": "", "bits": %s, "word": %s, "shift": 0}]'


@pytest.mark.parametrize(
    "layer",
    [
        LAYER % ("[]", "[]"),
        LAYER % ("[]", '{"e": [{"name": "v", "bits": -1, "names": null}]}'),
        LAYER % (PART % ("65", "0"), "{}"),
        LAYER % (PART % ("32", "1"), "{}"),
        LAYER % (PART % ('"32"', "0"), "{}"),
        "[" * 100000,
    ],
)
def test_a_layout_that_no_record_has_is_refused(layer: str) -> None:
    """Where it were read, decoding would read bytes of another record."""
    text = f'{{"version": 1, "stack": "s", "layers": [{layer}], "records": [], "columns": [], "published": null}}'
    with pytest.raises(ValueError, match="this is no manifest"):
        read(text)


def test_python_decodes_by_the_json_alone() -> None:
    """A decoder that was made from the text gives what the box's own gives."""
    found: list[list[tuple[object, ...]]] = []
    stack = compile_stack(find_stack("tcp_ip"), (), HOOKS)
    made = stack.generated
    records = tuple(zip(made.events, made.roots, strict=True))
    text = manifest(stack.program, records, (), stack.functions.published.layer()).text()
    for decoder in (stack.decoder, Decoder(read(text))):
        seen: list[tuple[object, ...]] = []

        def saw(event: Seen, seen: list[tuple[object, ...]] = seen) -> None:
            seen.append(
                (event.layer, event.name, event.instance, event.side, event.time, event.packet, event.values, event.key)
            )

        stack.__dict__["decoder"] = decoder
        handlers = [(hook.layer, hook.event, saw) for hook in sorted(HOOKS, key=str)]
        with Box(stack, Settings(seed=1), [PythonFunction("f", handlers, [])]) as box:
            box.run(CAPTURE)
            box.finish()
        found.append(seen)
    assert found[0] == found[1] and len(found[0]) > 30


def test_the_layout_of_records_is_asserted_in_c() -> None:
    functions = Functions((), HOOKS)
    source = generate(build(find_stack("tcp_ip"), functions.hooks()), functions).source
    assert "_Static_assert(offsetof(struct sl_record_head, time) == 24" in source
    assert "_Static_assert(sizeof(struct sl_record_head) == 64" in source


def test_build_writes_it(tmp_path: Path) -> None:
    assert main(["build", "tcp_ip", "-o", str(tmp_path / "made"), "--json"]) == 0
    text = (tmp_path / "made" / "tcp_ip.json").read_text()
    assert read(text).stack == "tcp_ip" and json.loads(text)["version"] == VERSION
