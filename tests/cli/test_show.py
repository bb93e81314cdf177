"""sluice show: what it says of a stack, and its picture."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, Command

STACK = FIRST / "hello.py"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_parse_tree_has_every_layer_under_the_one_below_it(sluice: Command) -> None:
    out = sluice("show", STACK).out
    assert re.search(r"^  eth +link type 1$", out, re.MULTILINE)
    assert re.search(r"^    ip +header\.type == 0x0800$", out, re.MULTILINE)  # as spelled, not 2048
    assert re.search(r"^        hello +header\.dport == 4747$", out, re.MULTILINE)


def test_a_layer_shows_header_key_memory_and_events(sluice: Command) -> None:
    out = sluice("show", STACK, "--layer", "hello").out
    assert "parse tree" not in out and "layer udp" not in out
    assert "hello_hdr: version 4, kind 4, station 16, celsius 16" in out
    assert "key        [header.station]" in out
    assert "perm       highest 16" in out
    assert "record: If(header.celsius > perm.highest) >> (Assign(perm.highest, header.celsius) +" in out


def test_tcp_shows_its_machine_sequence_and_timeouts(sluice: Command) -> None:
    out = sluice("show", "tcp_ip", "--layer", "tcp").out
    assert "key        [below.src, header.sport] and [below.dst, header.dport]" in out
    assert "CLOSED (start)" in out and "TERMINATED (closed)" in out
    assert re.search(r"transition hs1: CLOSED -> SYN_SENT when .*, timeout \d+ s", out)
    assert re.search(r"sequence +payload at temp\.number; taking temp\.units; wrapping; begun again when", out)
    assert "any of the following while cursor < header.hdr_len << 2" in out


def test_a_layer_shows_how_many_instances_there_may_be(sluice: Command) -> None:
    out = sluice("show", "tcp_ip", "--layer", "ipv4").out
    assert re.search(r"^  instances +at most 65,536 at once$", out, re.MULTILINE)
    assert "at once" not in sluice("show", "tcp_ip", "--layer", "tcp").out
    (layer,) = json.loads(sluice("show", "tcp_ip", "--layer", "ipv4", "--json").out)["layers"]
    assert layer["max_instances"] == 65536


def test_a_layer_shows_what_it_needs_of_those_below(sluice: Command) -> None:
    out = sluice("show", "tcp_ip", "--layer", "tcp").out
    assert re.search(r"^  needs +src, dst   \(of a layer below\)$", out, re.MULTILINE)
    assert "  needs " not in sluice("show", STACK, "--layer", "eth").out


def test_json_tells_what_events_hand_over(sluice: Command) -> None:
    (layer,) = json.loads(sluice("show", STACK, "--layer", "hello", "--json").out)["layers"]
    assert layer["events"][0]["callbacks"] == {"record": {"station": 16, "celsius": 16}}


def test_json_is_the_same_as_data(sluice: Command) -> None:
    out = sluice("show", STACK, "--json").out
    assert out.count("\n") == 1  # as of all commands
    data = json.loads(out)
    assert [layer["name"] for layer in data["layers"]] == ["eth", "ip", "udp", "hello"]
    assert data["roots"] == [{"link_type": 1, "layer": "eth"}]
    assert data["steps"][1] == {"lower": "ip", "upper": "udp", "when": "header.protocol == 17"}
    machine = data["layers"][1]["machine"]
    assert machine["states"][0] == {"name": "DUMP", "start": True, "accept": True, "closed": False}


@pytest.mark.parametrize("stack", [str(STACK), "tcp_ip"])
def test_the_picture_is_one_file_in_which_nothing_overlaps(sluice: Command, tmp_path: Path, stack: str) -> None:
    path = tmp_path / "stack.svg"
    assert sluice("show", stack, "--svg", path).status == 0
    root = ElementTree.fromstring(path.read_text())
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for group in root.findall(f"{SVG}g"):  # a parse tree or a machine
        found = re.search(r"translate\(([\d.]+) ([\d.]+)\)", group.get("transform", ""))
        assert found is not None
        dx, dy = float(found[1]), float(found[2])
        rects = [rect for rect in group.iter(f"{SVG}rect")]
        boxes = [tuple(float(rect.get(name, "0")) for name in ("x", "y", "width", "height")) for rect in rects]
        assert boxes
        for index, (x, y, w, h) in enumerate(boxes):
            assert x + dx >= 0 and y + dy >= 0 and x + w + dx <= width and y + h + dy <= height
            for x2, y2, w2, h2 in boxes[index + 1 :]:  # boxes and labels alike
                assert x + w <= x2 + 0.1 or x2 + w2 <= x + 0.1 or y + h <= y2 + 0.1 or y2 + h2 <= y + 0.1
    names = {text.text for text in root.iter(f"{SVG}text")}
    assert {"eth", "udp", "FRAG"} <= names
    assert not re.search(r"(href|src|url)=\"?http|@import", path.read_text())


def test_every_step_and_transition_is_in_the_picture(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "stack.svg"
    sluice("show", "tcp_ip", "--svg", path)
    data = json.loads(sluice("show", "tcp_ip", "--json").out)
    tips = "\n".join(title.text or "" for title in ElementTree.fromstring(path.read_text()).iter(f"{SVG}title"))
    for step in data["steps"]:
        assert f"{step['lower']} to {step['upper']} when " in tips
    tcp = next(layer for layer in data["layers"] if layer["name"] == "tcp")
    for t in tcp["machine"]["transitions"]:
        assert f"{t['name']}: {t['from']} to {t['to']} when " in tips


def test_a_layer_that_is_not_there(mistake: Command) -> None:
    assert "did you mean 'hello'?" in mistake("show", STACK, "--layer", "helo").err


def test_a_picture_that_cannot_be_written(mistake: Command, tmp_path: Path) -> None:
    assert "there is no directory" in mistake("show", STACK, "--svg", tmp_path / "no" / "x.svg").err
    stack = tmp_path / "stack.py"
    stack.write_text(STACK.read_text())
    assert "would be overwritten" in mistake("show", stack, "--svg", stack).err
    assert stack.read_text() == STACK.read_text()


def test_text_trees_are_breadth_first_with_a_depth(sluice: Command) -> None:
    lines = sluice("show", "everything", "--depth", 2).out.splitlines()
    tree = lines[lines.index("parse tree") + 1 :]
    assert all(line.startswith("  ") for line in tree)
    assert max(len(line) - len(line.lstrip()) for line in tree) == 4
    assert any(line.startswith("  eth ") for line in tree) and any(line.startswith("    ipv4 (") for line in tree)
    # IPv4 is below Ethernet, not below the longest path that comes to it
    full = sluice("show", "everything").out.splitlines()
    own = next(line for line in full if line.strip().startswith("ipv4  "))
    assert own.startswith("    ipv4 ")
    assert len([line for line in full if line.strip().startswith("tcp  ")]) == 1


def test_the_picture_of_a_large_stack_fits_a_screen_roots_on_top(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "everything.svg"
    assert sluice("show", "everything", "--svg", path).status == 0
    root = ElementTree.fromstring(path.read_text())
    assert float(root.get("width", "0")) <= 3200 and float(root.get("height", "0")) <= 2400
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert "connections" in texts and "without state" in texts  # the legend
    data = json.loads(sluice("show", "everything", "--json").out)
    joined = ", ".join(texts)
    for layer in data["layers"]:
        assert re.search(rf"\b{layer['name']}\b", joined), layer["name"]
    tips = "\n".join(title.text or "" for title in root.iter(f"{SVG}title"))
    for step in data["steps"]:
        assert f"{step['lower']} to {step['upper']} when " in tips
    heights = {
        (box.get("class") or "").split()[-1]: float(box.get("y", "0"))
        for box in root.iter(f"{SVG}rect")
        if box.get("class") in ("box root", "box connections") and box.get("rx") == "7"
    }
    assert heights["root"] < heights["connections"]
