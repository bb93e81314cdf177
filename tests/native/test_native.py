"""Functions in C that a description calls: what they get, give, keep and refuse; both ways of running agree."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.main import main
from sluice.codegen.stack import generate
from sluice.engine.box import Box, RunError, Settings, compile_stack
from sluice.engine.compiler import CompilerError
from sluice.hooks.function import Functions
from sluice.ir.instruction import CallNative, EndNative
from sluice.lang import Bit, Connectionless, DescriptionError, Native, Stack, layout
from sluice.lower.build import build
from sluice.stacks.find import find_stack
from tests.differential.both import Packet, Secrets, assert_same, compiled, run_compiled
from tests.native.scrambled import scrambled
from tests.support.capture import pcap
from tests.support.conserve import check_all_ended, check_conservation

SETTINGS = Settings(memory=1 << 20, max_instances=64, seed=1)


def run(
    packets: list[bytes | tuple[bytes, int]],
    settings: Settings = SETTINGS,
    stored: bool = True,
    times: list[int] | None = None,
    interpreted: bool = True,
) -> tuple[list[tuple[Any, ...]], dict[str, dict[str, int]]]:
    """What event `told` told, and the counters; the interpreter agrees, with all passes and with none."""
    frames: list[Packet] = []
    for number, packet in enumerate(packets):
        data, length = packet if isinstance(packet, tuple) else (packet, len(packet))
        frames.append(Packet(data, times[number] if times else number, length=length))
    for passes in ("none", "all"):
        made = compiled(scrambled(stored), passes=passes)
        if interpreted:
            assert_same(made, frames, settings)
    events, counters = run_compiled(made, frames, settings)
    check_conservation(made.program, counters)
    check_all_ended(made.program, counters)
    return [event[4] for event in events if event[1] == "told"], counters


def test_what_it_gives_goes_up_and_what_it_keeps_is_the_instances_own() -> None:
    found, counters = run([b"\1\0ab", b"\2\0cd", b"\1\0ef", b"\1\7as it is"])
    assert found == [(1, 0, b"ab"), (1, 0, b"cd"), (2, 0, b"ef"), (0, 0, b"as it is")]
    assert counters["session"]["passed"] == 4


def test_a_layer_above_tells_what_it_has_learnt() -> None:
    """The key arrives in the clear for session 1 alone; its next packet is read with it."""
    key = bytes(byte ^ 5 for byte in b"hello")
    found, counters = run([b"\1\0k\5", b"\1\0" + key, b"\2\0" + key])
    assert [sdu for *_, sdu in found] == [b"k\5", b"hello", key]
    assert counters["key"].get("refused:no session", 0) == 0


def test_what_it_refuses_goes_no_further_and_is_counted() -> None:
    found, counters = run([b"\1\1ab", (b"\1\0ab", 9), b"\1\0ok", b"\1\x09ab"])
    assert found == [(0, 1, b""), (0, 2, b""), (3, 0, b"ok"), (0, 3, b"")]
    own = counters["session"]
    assert (own["dropped:asked to"], own["dropped:cut short"], own["dropped:no memory"], own["passed"]) == (1, 1, 1, 1)
    assert counters["key"]["packets"] == 1


def test_it_gives_no_more_than_its_limit() -> None:
    found, _ = run([b"\1\0" + bytes(40)])
    assert found == [(1, 0, bytes(16))]


def test_an_instance_that_is_not_stored_keeps_nothing() -> None:
    found, counters = run([b"\xc8\0k\5", b"\xc8\0ab", b"\xc8\0ab"])
    assert found == [(0, 0, b"k\5"), (0, 0, b"ab"), (0, 0, b"ab")]
    assert counters["key"]["refused:no session"] == 1


def test_a_parser_without_instances_may_call_too() -> None:
    found, counters = run([b"\1\0k\5", b"\1\0ab"], stored=False)
    assert found == [(0, 0, b"k\5"), (0, 0, b"ab")]
    assert counters["key"]["refused:no session"] == 1


def test_what_it_keeps_ends_with_the_instance() -> None:
    """By a timeout, by eviction and at the end of input; the sanitizers see what would be forgotten."""
    second = 10**9
    key = bytes(byte ^ 5 for byte in b"hello")
    packets: list[bytes | tuple[bytes, int]] = [b"\1\0k\5", b"\1\0" + key, b"\1\0" + key]
    found, _ = run(packets, times=[0, second, 30 * second])
    assert [sdu for *_, sdu in found] == [b"k\5", b"hello", key]
    crowded = Settings(memory=1 << 20, max_instances=2, seed=1)
    run([bytes([n % 7, 0, 65]) for n in range(100)], crowded)


def test_its_memory_is_the_boxs() -> None:
    """Where the budget has no room for a context, one that was not used for longest gives up, or the packet is dropped;
    both are counted. When instances end there is room again.
    """
    settings = Settings(memory=1 << 16, max_instances=2048, seed=1)
    packets: list[bytes | tuple[bytes, int]] = [
        bytes([n % 200, 0, 65, n // 200]) if n < 200 else bytes([n % 200, 0, 66]) for n in range(400)
    ]
    _, counters = run(packets, settings)
    assert counters["session"].get("dropped:no memory", 0) == 0
    # 200 sessions of 64 bytes each fit; in a budget of half as much they do not
    made = compiled(scrambled())
    with Box(made, Settings(memory=64 * 100, max_instances=2048, seed=1)) as box:
        for packet in packets:
            box.packet(packet if isinstance(packet, bytes) else packet[0])
        box.finish()
        counters = box.counters()
    given_up, dropped = counters["box"]["contexts given up"], counters["session"]["dropped:no memory"]
    assert given_up > 0 and given_up + dropped == 200
    assert counters["session"]["passed"] == 400 - dropped


def test_the_text_of_its_option() -> None:
    found, _ = run(
        [b"\1\0" + bytes([3, 3])], Settings(memory=1 << 20, max_instances=64, seed=1, natives={"extra": "abc"})
    )
    assert [sdu for *_, sdu in found] == [bytes(2)]


def test_secrets_that_come_between_packets() -> None:
    """Of a kind that it knows; of others, and of none, nothing changes."""
    sent = Packet(b"\1\0" + bytes([3, 3]), 0)
    frames = [sent, Secrets(b"abc", 8), Secrets(b"", 7), sent, Secrets(b"abc", 7), sent]
    made = compiled(scrambled())
    assert_same(made, frames, SETTINGS)
    events, _ = run_compiled(made, frames, SETTINGS)
    assert [event[4][2] for event in events if event[1] == "told"] == [bytes([3, 3]), bytes([3, 3]), bytes(2)]


def test_it_may_refuse_to_run(capfd: pytest.CaptureFixture[str]) -> None:
    made = compiled(scrambled())
    with pytest.raises(RunError):
        Box(made, Settings(natives={"extra": "refuse"}))
    assert "scramble: refused" in capfd.readouterr().err


def test_a_box_that_is_closed_before_its_end_gives_everything_back() -> None:
    made = compiled(scrambled())
    with Box(made, SETTINGS) as box:
        box.packet(b"\1\0ab")


def test_a_stack_without_it_has_nothing_of_it() -> None:
    program = build(find_stack("tcp_ip"))
    found = [i for layer in program.layers.values() for graph in layer.graphs() for i in graph.instructions()]
    assert not any(isinstance(i, (CallNative, EndNative)) for i in found)
    assert "native" not in generate(program, Functions()).source


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    source = tmp_path / "lonely.c"
    source.write_text((Path(__file__).parent / "scramble.c").read_text().replace("scramble", "lonely"))
    (tmp_path / "describe.py").write_text(
        "from sluice.lang import *\n"
        "lonely = Native('lonely.c', libraries=['there_is_no_such_library'])\n"
        "unlonely = lonely.function('unlonely', limit=9)\n"
        "class h(layout):\n    a = UInt(8)\n"
        "p = Connectionless('p')\np.header = h\np.sdu = unlonely(p.header.a, p.payload, into=[])\n"
        "stack = Stack('lonely')\nstack.p = p\n"
    )
    with pytest.raises(CompilerError, match=r"lonely\.c needs -lthere_is_no_such_library"):
        compile_stack(find_stack(str(tmp_path / "describe.py")))


def test_build_takes_the_module_along(tmp_path: Path) -> None:
    """The built program links it, takes its option, and does the same."""
    description = tmp_path / "stack.py"
    description.write_text("from tests.native.scrambled import scrambled\nstack = scrambled()\n")
    folder, capture = tmp_path / "out", tmp_path / "in.pcap"
    capture.write_bytes(pcap([b"\1\0" + bytes([3, 3]), b"\1\1"], [1, 1]))
    assert main(["build", str(description), "-o", str(folder)]) == 0
    subprocess.run(["make", "-s", "-C", str(folder), "scrambled-run"], check=True, timeout=300)
    command = [str(folder / "scrambled-run"), "--json", "--extra", "abc", str(capture)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert '"dropped:asked to": 1' in done.stdout
    refused = subprocess.run(
        [command[0], "--extra", "refuse", str(capture)], capture_output=True, text=True, timeout=300
    )
    assert refused.returncode == 1 and "scramble: refused" in refused.stderr


class small(layout):
    kind = Bit(8)


def test_inputs_are_of_one_kind_wherever_it_is_called() -> None:
    from tests.native.scrambled import unscramble

    p: Any = Connectionless("p")
    p.header = small
    p.sdu = unscramble(p.header.kind, p.payload)
    p.prep = unscramble(p.payload, p.header.kind)
    stack = Stack("s")
    stack.p = p
    with pytest.raises(DescriptionError, match="called with other inputs or fields than before"):
        build(stack)


def test_a_module_is_found_beside_the_description() -> None:
    assert Native("scramble.c").path.parent == Path(__file__).parent


def test_a_source_file_that_is_not_there_is_told_at_the_line_that_names_it() -> None:
    p: Any = Connectionless("p")
    p.header = small
    p.sdu = Native("no_such.c").function("f", limit=9)(p.payload)
    stack = Stack("s")
    stack.p = p
    with pytest.raises(DescriptionError, match=r"test_native\.py:\d+: .*no_such\.c: no such file"):
        build(stack)


def test_the_module_of_the_manual(tmp_path: Path) -> None:
    """It is compiled as it stands there, and runs (the manual leaves `learn` out)."""
    text = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    chapter = text[text.index("## Functions in C") : text.index("## Stacks")]
    description, source = (part.split("```")[0] for part in chapter.replace("```python", "```c").split("```c\n")[1:])
    learn = "unsigned learn(struct sl_native_call *call) { return call->context ? 0 : 1; }\n"
    (tmp_path / "seal.c").write_text(source + learn)
    (tmp_path / "stack.py").write_text(
        f"from sluice.lang import *\n{description}\nstack = Stack('s')\nstack.sealed = sealed()\n"
    )
    made = compile_stack(find_stack(str(tmp_path / "stack.py")))
    assert not made.compiled.messages
    with Box(made, SETTINGS) as box:
        box.packet(b"\0\1\0\0\0\0payload")
        box.finish()
        assert box.counters()["sealed"]["ended"] == 1


@pytest.mark.parametrize("name", ["extra", "other"])
def test_the_command_line_gives_the_option(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    description, capture = tmp_path / "stack.py", tmp_path / "in.pcap"
    description.write_text("from tests.native.scrambled import scrambled\nstack = scrambled()\n")
    capture.write_bytes(pcap([]))
    status = main(["run", str(description), "-r", str(capture), "--native", f"{name}=refuse"])
    said = capfd.readouterr().err
    assert status == 1
    assert ("its modules take extra" in said, "scramble: refused" in said) == (name == "other", name == "extra")
