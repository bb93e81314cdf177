"""`sluice chain` with several instances: the plan, the run beside the ideal chain, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.state.boxes import needs_store
from tests.state.traffic import mixed, write
from tests.support.unoptimised import unoptimised

CHAIN = """
from sluice.chain import Chain, function
from tests.state.instances import stack

trojan = function("trojan", out="{rows}")
chain = Chain(function("nat", inside="10.1.0.0/16") >> trojan, stack=stack(), name="instances")
"""
ENGINE = ("--engine", "command:env")

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def capture(tmp_path: Path) -> str:
    return str(write(tmp_path / "in.pcap", mixed(5, 60)))


@pytest.fixture
def chain(tmp_path: Path) -> str:
    path = tmp_path / "chain.py"
    path.write_text(CHAIN.format(rows=tmp_path / "rows"))
    return str(path)


@needs_store
def test_a_chain_is_compared_with_the_ideal_one(chain: str, capture: str, tmp_path: Path, capsys: Captured) -> None:
    options = ["--isolate", "--store", "embedded", "--instances", "nat=2,trojan=2", "--check-equivalence", "--json"]
    assert main(["chain", chain, "-r", capture, "-w", f"{capture}.out", "--state", f"{capture}.state", *options]) == 0
    done = capsys.readouterr()
    summary = json.loads(done.out)
    assert summary["reports"]["equivalence_differences"] == 0, done.err
    assert summary["reports"]["equivalence_objects"] > 10
    assert "equivalent to the ideal chain" in done.err
    assert [path.name for path in tmp_path.glob("rows*")] == ["rows"]
    assert '"object": "mapping"' in Path(f"{capture}.state").read_text()


@needs_store
@pytest.mark.slow_matrix
def test_rows_of_several_functions_come_to_standard_output(
    capture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The processes of functions have the descriptor by which they are kept apart from what functions print."""
    path = tmp_path / "chain.py"
    rows = 'function("portscan", wait=0.2, false_alarm=20, benign=70, scanner=30) >> function("trojan")'
    path.write_text(CHAIN.partition("trojan =")[0] + f'chain = Chain({rows}, stack=stack(), name="rows")\n')
    with unoptimised():
        assert main(["chain", str(path), "-r", capture, "--isolate", "--store", "embedded"]) == 0
    found = capfd.readouterr()
    assert "Bad file descriptor" not in found.err and "left out" not in found.err
    assert "attempts: 0" not in found.out


def test_the_plan_says_how_traffic_is_divided(chain: str, capture: str, capsys: Captured) -> None:
    options = ["--isolate", "--store", "embedded", "--instances", "nat=2,trojan=3", "--plan"]
    assert main(["chain", chain, "-r", capture, "-w", f"{capture}.out", *options, "--json"]) == 0
    nat, trojan = json.loads(capsys.readouterr().out)["functions"]
    assert (nat["scope"], nat["instances"], nat["cached"]) == ("flow", 2, ["mapping"])
    assert trojan["scopes"] == ["src", "flow"] and trojan["scope"] == "src" and trojan["shared"] == []
    chosen = ["--partition", "trojan=flow"]
    assert main(["chain", chain, "-r", capture, "-w", f"{capture}.out", *options, *chosen]) == 0
    out = capsys.readouterr().out
    assert "trojan: 3 instances, divided by flow" in out and "arrivals" in out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--instances", "nat=2"], "give --isolate"),
        (["--isolate", "--instances", "nat=2"], "need a store"),
        (["--isolate", "--store", "embedded", "--instances", "none=2"], "has no function 'none'"),
        (["--isolate", "--store", "embedded", "--instances", "nat=2", "--partition", "nat=src"], "cannot be divided"),
        (["--isolate", "--store", "embedded", "--check-equivalence", "--instances", "nat=2"], "by -w"),
        (["--isolate", "--instances", "nat=many"], "no number of instances"),
        (["--isolate", "--store", "valkey://127.0.0.1:1", *ENGINE, "--tunnel", "0.0.0.0"], "means all addresses"),
    ],
)
def test_what_makes_no_sense_is_refused(
    chain: str, capture: str, options: list[str], why: str, capsys: Captured
) -> None:
    status = 0
    try:
        status = main(["chain", chain, "-r", capture, *options])
    except SystemExit as error:
        status = int(error.code or 0)
    assert status != 0
    assert why in " ".join(capsys.readouterr().err.split())
