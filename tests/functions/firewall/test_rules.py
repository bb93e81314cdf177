"""Files of rules: what is read, and errors with file and line for what is wrong or does not apply."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.functions.detect.errors import RuleError
from sluice.functions.firewall.model import Chain, Limit, Match, Ruleset, Verdict
from sluice.functions.firewall.rules import read_rules
from sluice.functions.firewall.table import table
from tests.support.capture import pcap
from tests.support.packets import eth, ip4, udp

BASE = "type filter hook forward priority 0; policy drop;"


def read(text: str, tmp_path: Path, name: str = "a.nft") -> Ruleset:
    (tmp_path / name).write_text(text)
    return read_rules(str(tmp_path / name))


def one_chain(text: str, tmp_path: Path) -> Chain:
    return read(f"table inet t {{ chain c {{ {BASE}\n{text}\n }} }}", tmp_path).tables[0].chains["c"]


def steps(rule: str, tmp_path: Path) -> tuple[object, ...]:
    return one_chain(rule, tmp_path).rules[0].steps


def test_the_form_that_nft_prints(tmp_path: Path) -> None:
    text = """#!/usr/sbin/nft -f
    flush ruleset
    define lan = { 10.0.0.0/8,
                   192.168.0.0/16 } # two networks
    define more = $lan
    table ip filter {
        comment "the first"
        chain forward {
            type filter hook forward priority filter; policy drop
            ip saddr @bad drop; ip saddr $more counter packets 5 bytes 300 accept
            tcp dport { 22, 80-90, https } ct state new \\
                limit rate 3/minute accept comment "few"
        }
        set bad {
            type ipv4_addr
            flags interval
            auto-merge
            elements = { 203.0.113.0/25, 203.0.113.128/25,
                         198.51.100.1 }
        }
    }
    """
    rules = read(text, tmp_path).tables[0].chains["forward"].rules
    assert [rule.place.line for rule in rules] == [10, 10, 11]
    assert rules[0].steps[1] == Match("saddr", ((0xC6336401, 0xC6336401), (0xCB007100, 0xCB0071FF)))
    assert Match("saddr", ((10 << 24, (11 << 24) - 1), (0xC0A80000, 0xC0A8FFFF))) in rules[1].steps
    assert Match("dport", ((22, 22), (80, 90), (443, 443))) in rules[2].steps
    assert Limit(3, 60, 5, False, False) in rules[2].steps


def test_verdict_maps(tmp_path: Path) -> None:
    rules = one_chain("ip saddr 10.0.0.1 tcp dport vmap { 22 : accept, 80-90 : drop }", tmp_path).rules
    verdicts = [rule.steps[-1] for rule in rules]
    assert [verdict.kind for verdict in verdicts if isinstance(verdict, Verdict)] == ["accept", "drop"]
    assert Match("saddr", ((0x0A000001, 0x0A000001),)) in rules[1].steps


def test_included_files(tmp_path: Path) -> None:
    (tmp_path / "b.nft").write_text("define port = 80\n")
    found = read(
        f'include "b.nft"\ninclude "*.none"\ntable inet t {{ chain c {{ {BASE} tcp dport $port accept }} }}', tmp_path
    )
    assert Match("dport", ((80, 80),)) in found.tables[0].chains["c"].rules[0].steps
    (tmp_path / "b.nft").write_text('include "a.nft"\n')
    with pytest.raises(RuleError, match="include each other"):
        read('include "b.nft"\n', tmp_path)


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ("ip saddr 10.0.0.300 drop", "'10.0.0.300': it is no IPv4 address"),
        ("ip saddr ::1 drop", "'::1': it is no IPv4 address"),
        ("tcp dport 65536 drop", "'65536': it is no number below 65536"),
        ("tcp dport 90-80 drop", "the range ends before it begins"),
        ("tcp dport { } drop", "it has no element"),
        ("tcp dport @none drop", "there is no such set in this table"),
        ("tcp dport $none drop", "it is not defined"),
        ("tcp window 5 drop", "'tcp window': this field is not compared"),
        ("ct state old drop", "'old': it is no number below 8, nor one of new, established"),
        ("ct mark 1 drop", "'ct mark': this field is not compared"),
        ("iifname eth0 drop", "'iifname': the box has no interfaces by name"),
        ("meta iifname eth0 drop", "'iifname': the box has no interfaces by name"),
        ("masquerade", "'masquerade': addresses are not translated: use the function nat"),
        ("dnat to 10.0.0.1", "'dnat': addresses are not translated"),
        ("queue num 1", "'queue': there is no queue"),
        ("ip saddr . tcp dport { 1.1.1.1 . 80 } accept", "concatenations"),
        ("ip saddr and 255.0.0.0 == 10.0.0.0 drop", "'and'"),
        ("accept drop", "'drop': nothing follows a verdict"),
        ("jump nowhere", "there is no such chain in this table"),
        ("jump c", "it is a chain with a hook"),
        ("limit rate 5 accept", "a rate is as 10/second"),
        ("limit rate 5/fortnight accept", "a rate is as 10/second"),
        ("counter name x accept", "there is no such counter"),
        ("log group 2", "'group': of log, prefix and level are read"),
        ("reject with icmp type nothing", "this cannot be sent"),
        ("counter tcp dport vmap { 1 : accept }", "only matches stand before it"),
        ("tcp dport map { 1 : 2 }", "'map'"),
        ('"text"', "a string does not follow"),
        ("ip saddr 10.0.0.1 ^ drop", "'^'"),
        ("drop }} ", "a table is expected here"),
    ],
)
def test_errors_of_rules(rule: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(RuleError) as raised:
        one_chain(f"\naccept\n{rule}", tmp_path)
    assert what in str(raised.value)
    assert raised.value.place.file.endswith("a.nft") and (raised.value.place.line in (4, 5))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("table inet t { chain c { type nat hook postrouting priority 0; } }", "only chains of type filter apply"),
        (
            "table inet t { chain c { type filter hook input priority 0; } }",
            "only these hooks apply: prerouting, forward",
        ),
        ("table arp t { }", "tables of this family do not apply"),
        ("table inet t { map m { } }", "'map': this object of a table is not read"),
        ("table inet t { set s { type ipv4_addr; flags dynamic; } }", "elements neither come nor go"),
        ("table inet t { set s { elements = { 1 } } }", "the type of the set stands before its elements"),
        ("table inet t { chain a { jump b; }; chain b { jump a; }; }", "the chains jump in a circle"),
        ("table inet t { chain a { accept; } }", "no chain has a hook"),
        ("add rule inet t c accept", "commands are not read"),
        ("table inet t { chain a { accept", "it does not end"),
        ("table inet t { set s { ", "a set"),
        ("define x = $x\ntable inet t { chain a { tcp dport $x accept; } }", "refers to itself"),
        (
            "define x = 22, 80\ntable inet t { chain a { tcp dport $x accept; } }",
            "'$x': its definition goes on after one value, with ','",
        ),
        ("table inet t {\n chain a { tcp dport ? } }", "2: '?'"),
        ("", "no chain has a hook"),
    ],
)
def test_errors_of_files(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(RuleError) as raised:
        read(text, tmp_path)
    assert what in str(raised.value)


def test_jumps_are_nested_sixteen_deep_at_most(tmp_path: Path) -> None:
    for last_first in (False, True):
        for deep in (16, 17):
            chains = [f"chain c{n} {{ jump c{n + 1}; }}\n" for n in range(1, deep)]
            chains = [f"chain a {{ {BASE} jump c1; }}\n", *chains, f"chain c{deep} {{ accept; }}\n"]
            text = "table inet t {\n" + "".join(chains[::-1] if last_first else chains) + "}\n"
            if deep == 16:
                assert table(read(text, tmp_path))
                continue
            with pytest.raises(RuleError, match="nested more than 16 deep"):
                read(text, tmp_path)


WORDS = (
    "table inet t { } chain c type filter hook forward priority 0 policy drop accept ; \n ip saddr 10.0.0.1 , { } @s "
    "$x tcp dport "
    "80-90 flags & | ( ) == != syn / vmap : jump limit rate 5/second over burst "
    '2 packets counter log prefix "a" reject with set '
    "elements = define include flush ruleset ct state new comment . < >= \\ # 0x1 -"
).split(" ")


@given(st.integers(0, 2**32))
@settings(max_examples=400)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    choose = random.Random(seed)
    text = f"table inet t {{\nchain c {{ {BASE}\n" + " ".join(choose.choice(WORDS) for _ in range(choose.randrange(25)))
    text += choose.choice(["", "}", "\n}\n}\n", "\n}}"])
    path = tmp_path_factory.getbasetemp() / "any.nft"
    path.write_text(text)
    try:
        assert table(read_rules(str(path)))
    except RuleError as error:
        assert str(path.parent) in str(error)


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.pcap").write_bytes(pcap([eth(ip4(udp(1, 53, b"x"), 17)), eth(ip4(udp(1, 54, b"x"), 17))]))
    (tmp_path / "a.nft").write_text(f"table inet t {{ chain c {{ {BASE} udp dport 53 accept; }} }}")
    (tmp_path / "small.py").write_text("from tests.functions.security import small_stack\n\nstack = small_stack()\n")
    words = [
        "run",
        str(tmp_path / "small.py"),
        "-r",
        str(tmp_path / "in.pcap"),
        "-w",
        str(tmp_path / "out.pcap"),
        "--json",
        "-f",
    ]
    assert main([*words, f"firewall:rules={tmp_path}/a.nft,out={tmp_path}/rows"]) == 0
    assert '"firewall_dropped": 1' in capfd.readouterr().out
    (tmp_path / "b.nft").write_text("table inet t { chain c { type nat hook input priority 0; } }")
    assert main([*words, f"firewall:rules={tmp_path}/b.nft"]) != 0
    assert f"{tmp_path}/b.nft:1: 'nat': only chains of type filter apply" in capfd.readouterr().err
    assert main([*words, "firewall"]) != 0
    assert "rules=FILE" in capfd.readouterr().err
