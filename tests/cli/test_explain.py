"""sluice explain: the program after each pass, and the C."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from sluice.passes.pipeline import PASSES
from tests.cli.conftest import FIRST, Command

STACK = FIRST / "hello.py"


def test_every_pass_is_told_with_what_it_changed(sluice: Command) -> None:
    out = sluice("explain", STACK).out
    heads = [line for line in out.splitlines() if line.startswith("===")]
    assert heads == ["=== built ===", *(f"=== after {item.name} ===" for item in PASSES)]
    assert "header.celsius:u16 = Load(mark.0, 24, 16, 'big')" in out
    assert "; hello.py:14" in out


def test_passes_none_leaves_the_program_as_built(sluice: Command) -> None:
    out = sluice("explain", STACK, "--passes", "none").out
    assert "=== built ===" in out and "=== after" not in out


def test_after_a_pass_and_before_all(sluice: Command) -> None:
    built = sluice("explain", STACK, "--after", "built", "--layer", "hello").out
    last = sluice("explain", STACK, "--after", PASSES[-1].name, "--layer", "hello").out
    assert built.startswith("layer hello (layer 'hello'") and last.startswith("layer hello")
    assert "Load(mark.0, 4, 4, 'big')" in built and "Load(mark.0, 4, 4, 'big')" not in last  # `kind` is never read


def test_one_pass_as_a_difference(sluice: Command) -> None:
    out = sluice("explain", STACK, "--pass", "constants", "--layer", "hello").out
    assert "-  header.kind:u4 = Load(mark.0, 4, 4, 'big')" in out
    assert "+  Call('record', local.side, [header.station, header.celsius])" in out
    same = sluice("explain", STACK, "--pass", "constants", "--passes", "constants", "--layer", "hello").out
    assert "-  header.kind" in same


def test_c_of_the_whole_and_of_a_layer(sluice: Command) -> None:
    whole = sluice("explain", STACK, "--c").out
    layer = sluice("explain", STACK, "--c", "--layer", "hello").out
    assert "struct sl_box *hello_open(const struct sl_options *options)" in whole
    assert layer in whole
    assert (
        "static void layer_hello(" in layer and "static void layer_udp(struct box *box, sl_bytes unit)\n{" not in layer
    )
    assert "/* hello.py:29 */" in layer


def test_c_contains_the_functions_that_are_asked_for(sluice: Command) -> None:
    assert "record_hello_record" not in sluice("explain", STACK, "--c").out
    assert "record_hello_record" in sluice("explain", STACK, "--c", "-f", STACK).out


def test_json(sluice: Command) -> None:
    stages = json.loads(sluice("explain", STACK, "--json").out)["stages"]
    assert [stage["after"] for stage in stages] == ["built", *(item.name for item in PASSES)]
    assert stages[0]["ir"].startswith("program hello (1 -> eth)")
    assert "hello_process" in json.loads(sluice("explain", STACK, "--c", "--json").out)["text"]


def test_the_picture_has_every_block(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "hello.svg"
    assert sluice("explain", STACK, "--layer", "hello", "--svg", path).status == 0
    texts = {text.text for text in ElementTree.fromstring(path.read_text()).iter("{http://www.w3.org/2000/svg}text")}
    text = sluice("explain", STACK, "--layer", "hello", "--after", PASSES[-1].name).out
    main = text[text.index("\ngraph hello (") :].split("\n\n")[0]
    blocks = [line.rstrip(":") for line in main.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert len(blocks) > 5 and set(blocks) <= texts


def test_mistakes(mistake: Command, misuse: Command, tmp_path: Path) -> None:
    assert "unknown pass 'constant': do you mean 'constants'?" in misuse("explain", STACK, "--pass", "constant").err
    assert "was not run" in mistake("explain", STACK, "--passes", "none", "--after", "constants").err
    assert "no layer 'hallo'" in mistake("explain", STACK, "--layer", "hallo").err
    assert "add --layer" in misuse("explain", STACK, "--svg", tmp_path / "x.svg").err


def test_the_picture_of_a_large_graph_fits_and_says_what_is_left_out(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "tcp.svg"
    done = sluice("explain", "tcp_ip", "--layer", "tcp", "--passes", "none", "--svg", path)
    assert done.status == 0 and "shows tcp_over_ipv4.main; --graph draws " in done.err
    root = ElementTree.fromstring(path.read_text())
    assert max(float(root.get(side, "0")) for side in ("width", "height")) <= 4000
    found = re.search(r"left out: (\d+) of (\d+) blocks, those farthest from the entry", done.err)
    assert found is not None and 0 < int(found[1]) < int(found[2]) and found[0] in path.read_text()


def test_another_graph_of_the_layer(sluice: Command, mistake: Command, tmp_path: Path) -> None:
    path = tmp_path / "end.svg"
    assert sluice("explain", STACK, "--layer", "hello", "--graph", "end", "--svg", path).err == ""
    assert "hello.end" in path.read_text()
    assert "did you mean 'main'?" in mistake("explain", STACK, "--layer", "hello", "--graph", "mian", "--svg", path).err


def test_analyses(sluice: Command) -> None:
    """What they decide is in the C: the bytes to prefetch, and where the bytes of the packet are initialised."""
    found = json.loads(sluice("explain", "tcp_ip", "--analyses", "--json").out)
    source = sluice("explain", "tcp_ip", "--c").out
    assert found["fast path"] == "eth, ipv4" and found["where it ends"] == "tcp_over_ipv4"
    assert f"sl_lookahead_burst(&base->lookahead, frames, count, {found['header bytes prefetched']});" in source
    assert found["pending state"] == "initialised off the fast path"
    assert "SL_COLD void otherwise_eth(" in source and "begin_waiting(box, waiting);" in source
    begins = found["bytes of the packet in tcp_over_ipv4.main"].removeprefix("from ").split(", ")
    main = sluice("explain", "tcp_ip", "--c", "--layer", "tcp_over_ipv4").out
    assert main.count("direct[0] = direct[1] =") == len(begins)
    without = sluice("explain", "tcp_ip", "--analyses", "--passes", "none").out.splitlines()
    assert without[0] == "fast path: none" and "header bytes prefetched: 192" in without
    of_layer = sluice("explain", "tcp_ip", "--analyses", "--layer", "frag").out
    assert of_layer.startswith("layer frag: a graph reads the path; ") and "fast path" not in of_layer
