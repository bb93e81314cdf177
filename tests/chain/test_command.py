"""`sluice chain` and `sluice show` of a chain."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sluice.cli.main import main
from tests.chain.functions import Put
from tests.chain.running import talk
from tests.support.capture import pcap, pcap_packets

DROP = """
SLUICE_INLINE
SLUICE_PUBLISH(blocked, { uint64_t number; })
SLUICE_PARAMETER(each, number, 2, "of so many packets one is dropped")
SLUICE_ON(ipv4, packet) {
    if (sl_packet_number(event) % SLUICE_PARAMETER_OF(event->box, each))
        return;
    SLUICE_EMIT(event, blocked, .number = sl_packet_number(event));
    SLUICE_DROP(event->box);
}
"""
PRINT = """
from sluice.functions import on

@on("chain", "blocked")
def blocked(event):
    print("blocked", event.number)
"""
CHAIN = """
from sluice.chain import Chain, function
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser

stack = Stack("short")
stack.eth, stack.ipv4 = ethernet_parser(), ipv4_parser()
stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
drop, second = function("drop.c", each=4), function("drop.c", name="second", each=5)
chain = Chain(drop >> second >> function("print.py"), stack=stack, name="each")
"""


@pytest.fixture
def chain(put: Put) -> str:
    put("drop.c", DROP)
    put("print.py", PRINT)
    return put("chain.py", CHAIN)


@pytest.fixture
def capture(tmp_path: Path) -> str:
    path = tmp_path / "in.pcap"
    path.write_bytes(pcap(list(talk())))
    return str(path)


def test_a_chain_runs_over_a_capture(
    chain: str, capture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.pcap"
    assert main(["chain", chain, "-r", capture, "-w", str(out), "--json"]) == 0
    printed = capfd.readouterr()
    gone = [number for number in range(1, len(talk()) + 1) if number % 4 == 0 or number % 5 == 0]
    assert pcap_packets(out) == [packet for number, packet in enumerate(talk(), 1) if number not in gone]
    assert [line for line in printed.err.splitlines() if line.startswith("blocked")] == [f"blocked {n}" for n in gone]
    assert json.loads(printed.out)["reports"]["packets_dropped"] == len(gone)


def test_a_drop_that_comes_late_is_warned_of(
    chain: str, put: Put, capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A function that subscribes to a layer below the one where another decides sees the packets before."""
    put(
        "below.c",
        'SLUICE_COUNTER(seen, "packets")\nSLUICE_ON(eth, packet) { SLUICE_COUNTER_OF(event->box, seen)++; }\n',
    )
    text = CHAIN.replace('function("print.py")', 'function("print.py") >> function("below.c")')
    assert main(["chain", put("late.py", text), "-r", capture]) == 0
    told = "it subscribes to eth.packet, and 'drop' decides later, in layer ipv4\n"
    assert f"warning: 'below' sees packets that 'drop' drops: {told}" in capsys.readouterr().err


def test_what_nothing_takes_is_noted(chain: str, capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chain", chain, "-r", capture]) == 0
    printed = capsys.readouterr()
    assert "note: drop, second: decides on packets, and nothing takes what leaves the chain" in printed.err
    assert "blocked 4" in printed.out


def test_show_says_what_each_function_does(chain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", chain]) == 0
    text = capsys.readouterr().out
    assert text.startswith("chain each over stack short: drop >> second >> print\n")
    assert "\nsecond (drop.c)\n  parameters each=5\n  subscribes ipv4.packet\n" in text
    assert "\nprint (print.py)\n  receives   blocked of drop, second\n" in text
    assert main(["show", chain, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == [["drop", "second"], ["second", "print"]]
    assert main(["show", chain, "--svg", str(tmp_path / "chain.svg")]) == 0
    words = [text.strip() for text in ElementTree.parse(tmp_path / "chain.svg").getroot().itertext()]
    assert {"drop", "second", "print", "stack short", "packets leave", "blocked", "decides: drop"} <= set(words)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-i", "lo", "--forward", "lo"], "is the interface of -i as well; give the other one"),
        (["-i", "lo", "--forward", "eth9", "--snaplen", "96"], "packets that are cut off cannot be forwarded"),
        (["-r", "in.pcap", "--forward", "lo"], "is for one interface more, as in -i A --forward B"),
        ([], "where do packets come from?"),
    ],
)
def test_options_that_do_not_go_together(
    chain: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chain", chain, *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_file_without_a_chain(put: Put, capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("x = 1\n", "from sluice.chain import Chain\n"):
        assert main(["chain", put("none.py", text), "-r", capture]) == 1
        assert "none.py: no variable is a Chain: write chain = Chain(" in capsys.readouterr().err
    assert main(["chain", "tcp_ip", "-r", capture]) == 1
    assert "tcp_ip: give a Python file that describes a chain" in capsys.readouterr().err


def test_options_of_stacks_do_not_apply(chain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", chain, "--layer", "tcp"]) == 2
    assert "describes a chain; the option is for stacks" in capsys.readouterr().err
