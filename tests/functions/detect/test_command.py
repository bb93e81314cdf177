"""`sluice ids`: its example, its summary, and what it says about mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.functions.detect.boxes import needs_ids

pytestmark = needs_ids

ROOT = Path(__file__).resolve().parents[3]
CAPTURE = str(ROOT / "examples" / "logs" / "capture.pcap")
EXAMPLE = ROOT / "examples" / "detect"
RULES = str(EXAMPLE / "local.rules")
SMALL = ["-r", CAPTURE, "--stack", "tcp_ip"]


def run(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capfd.readouterr()
    status = main(arguments)
    out, err = capfd.readouterr()
    return status, out, err


def test_the_example_prints_what_is_expected(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(["ids", RULES, *SMALL, "--fast"], capfd)
    assert status == 0 and out == (EXAMPLE / "expected.log").read_text()
    assert "24 packets; 4 rules; 4 alerts of 4 rules" in err and "[1:2] page /more" in err
    assert out.splitlines()[0] in (EXAMPLE / "README.md").read_text()


def test_the_summary_as_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "a.rules"
    rules.write_text(
        'alert tcp any any -> any any (msg:"m"; content:"GET"; sid:5;)\nalert tcp any any -> any any (nope; sid:6;)\n'
    )
    alerts = tmp_path / "alerts.jsonl"
    status, out, err = run(["ids", str(rules), *SMALL, "--lenient", "--json", "-o", str(alerts)], capfd)
    found = json.loads(out)
    assert status == 0 and found["rules"] == 1 and found["packets"] == 24
    assert found["alerts"] == [{"gid": 1, "sid": 5, "msg": "m", "alerts": 1}]
    assert [(each["line"], each["item"]) for each in found["skipped"]] == [(2, "option 'nope'")]
    assert "a.rules:2: option 'nope': it is not supported" in err
    (row,) = map(json.loads, alerts.read_text().splitlines())
    assert row["alert"]["signature_id"] == 5


def test_the_same_rules_in_sluice_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "alerts"
    status, _, _ = run(
        ["run", "tcp_ip", "-r", CAPTURE, "-f", f"ids:rules={RULES},vars=SERVERS=192.0.2.80,fast,out={out}"], capfd
    )
    expected = [line for line in (EXAMPLE / "expected.log").read_text().splitlines() if "{UDP}" not in line]
    assert status == 0 and out.read_text().splitlines() == expected


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["ids", "none.rules", "-r", CAPTURE], 1, "none.rules: No such file or directory"),
        (["ids", RULES, "-r", "none.pcap"], 1, "none.pcap"),
        (["ids", RULES, "-r", CAPTURE, "--var", "X"], 2, "'X' sets no variable"),
        (["ids", RULES, "-r", CAPTURE, "-o", RULES], 1, "is the input as well"),
        (["run", "tcp_ip", "-r", CAPTURE, "-f", "ids"], 1, "ids: no rules: give rules=FILE"),
    ],
)
def test_mistakes(arguments: list[str], status: int, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    found, _, err = run(arguments, capfd)
    assert found == status and said in err


def test_a_mistake_in_a_rule_has_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "a.rules"
    rules.write_text('\nalert tcp any any -> any any (\\\n  contnt:"x"; sid:1;)\n')
    status, _, err = run(["ids", str(rules), *SMALL], capfd)
    assert status == 1 and "a.rules:3: option 'contnt': it is not supported\n    did you mean 'content'?" in err


def test_a_table_that_others_can_change_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"no table")
    path.chmod(0o666)
    status, _, err = run(["run", "tcp_ip", "-r", CAPTURE, "-f", f"ids:table={path}"], capfd)
    assert status and f"the table of rules is not read: {path} can be written by other users" in err
    status, _, err = run(["run", "tcp_ip", "-r", CAPTURE, "-f", f"ids:table={tmp_path}/none"], capfd)
    assert status and f"{tmp_path}/none: No such file" in err
