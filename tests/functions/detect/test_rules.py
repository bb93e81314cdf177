"""The reader of rules: what is read, and what each error says."""

from __future__ import annotations

from ctypes.util import find_library
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.functions.detect import buffers
from sluice.functions.detect.errors import DetectionError, RuleError
from sluice.functions.detect.model import Content
from sluice.functions.detect.options import KNOWN
from sluice.functions.detect.parts import HTTP, ICMP_PACKET, STREAM, UDP_PACKET, group
from sluice.functions.detect.ranges import Ranges, union, without
from sluice.functions.detect.rules import Reader, RuleSet, read_files
from sluice.functions.detect.table import table
from tests.support.budget import examples

pytestmark = pytest.mark.skipif(
    not find_library("pcre2-8"), reason="no PCRE2 (Debian: libpcre2-dev): scripts/setup.sh gets it"
)

HEAD = "alert tcp any any -> any any"


def read(text: str, lenient: bool = False, **variables: str) -> RuleSet:
    reader = Reader(variables, lenient)
    reader.read(text, "a.rules")
    return reader.found


def error(text: str) -> str:
    with pytest.raises(RuleError) as raised:
        read(text)
    return str(raised.value)


def test_comments_blank_lines_and_continued_rules() -> None:
    text = (
        f'# comment\n\n  # another\n{HEAD} (msg:"a"; \\\n  content:"x"; \\\n  sid:1;)\r\n{HEAD} (content:"#y"; sid:2;)'
    )
    first, second = read(text).rules
    assert (first.place.line, first.matches[0].place.line, second.place.line) == (4, 5, 7)


def test_quotes_and_escapes() -> None:
    (found,) = read(HEAD + r' (msg:"a \"b\" \; c"; content:"|22|;\\"; pcre:"/a\;b;c\"/"; sid:1;)').rules
    assert found.msg == 'a "b" ; c'
    content = found.matches[0]
    assert isinstance(content, Content) and content.text == b'";\\'


def test_variables_of_files_and_of_the_command_line() -> None:
    text = "ipvar A [10.0.0.0/8,!10.1.0.0/16]\nportvar P [1:3,!2]\nvar B $A\nalert tcp $B $P -> any any (sid:1;)\n"
    (found,) = read(text).rules
    assert found.src.v4 == ((0x0A000000, 0x0A00FFFF), (0x0A020000, 0x0AFFFFFF)) and found.src.v6 == ()
    assert found.sports == ((1, 1), (3, 3))
    (found,) = read(text, A="192.0.2.1").rules
    assert found.src.v4 == ((0xC0000201, 0xC0000201),)


def test_classes_of_a_file() -> None:
    (found,) = read(f"config classification: mine,My own class,2\n{HEAD} (classtype:mine; sid:1;)").rules
    assert (found.category, found.priority) == ("My own class", 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{HEAD} (content:"x"; sid:1;', "rule: its options do not end with ')'"),
        (f'{HEAD} (content:"x"; sid:1)', "option 'sid:1': it does not end with ';'"),
        (f'{HEAD} (content:"x; sid:1;)', "does not end with ';'"),
        (f"{HEAD} (content:x; sid:1;)", "option 'content': its value is not in quotes"),
        (f'{HEAD} (content:""; sid:1;)', "option 'content': it is empty"),
        (f'{HEAD} (content:"|0|"; sid:1;)', "option 'content': '|0|' is not bytes in hexadecimal"),
        (f'{HEAD} (content:"|00"; sid:1;)', "option 'content': a '|' opens bytes"),
        (HEAD + r' (content:"\x"; sid:1;)', r"'\x' is no escape"),
        (f'{HEAD} (content:"a",nocase; sid:1;)', "',nocase' follows the closing quote"),
        (f"{HEAD} (nocase; sid:1;)", "option 'nocase': there is no content before it"),
        (f'{HEAD} (content:"a"; nocase; nocase; sid:1;)', "option 'nocase': the content before it has one already"),
        (f'{HEAD} (content:"abc"; depth:2; sid:1;)', "option 'depth': the content has 3 bytes, which 2 cannot hold"),
        (
            f'{HEAD} (content:"a"; depth:x; sid:1;)',
            "option 'content': no byte_extract before it sets 'x' in the payload",
        ),
        (f'{HEAD} (content:"a"; offset:1; within:2; sid:1;)', "option 'within': the content has offset or depth"),
        (f'{HEAD} (content:"a"; http_uri; http_method; sid:1;)', "option 'http_method'"),
        (f'{HEAD} (content:!"a"; fast_pattern; sid:1;)', "option 'fast_pattern': the content is negated"),
        (f'{HEAD} (content:"a"; depth:5; fast_pattern:only; sid:1;)', "option 'fast_pattern': 'only' is for a content"),
        ("alert tcp $(NET:?say_it) any -> any any (sid:1;)", "source address: $NET is not set: say_it"),
        (f'{HEAD} (content:"a"; http_uri; content:"b"; http_stat_code; sid:1;)', "it searches requests and responses"),
        (f'{HEAD} (pcre:"x"; sid:1;)', "option 'pcre': its expression is not between slashes"),
        (f'{HEAD} (pcre:"/x/q"; sid:1;)', "option 'pcre': there is no flag 'q'"),
        (f'{HEAD} (pcre:"/x/UH"; sid:1;)', "option 'pcre': flag 'H' names a second buffer"),
        (f'{HEAD} (pcre:"/x/R"; sid:1;)', "option 'pcre': flag R: there is no match"),
        (f'{HEAD} (pcre:"/a(b/"; sid:1;)', "option 'pcre': missing closing parenthesis, at character 3 of"),
        (f'{HEAD} (content:"x";)', "option 'sid': the rule has none"),
        (f"{HEAD} (sid:0;)", "option 'sid': '0' is no number from 1"),
        (f"{HEAD} (sid:1; sid:2;)", "option 'sid': the rule has it already"),
        (f"{HEAD} (sid:1;)\n{HEAD} (sid:1;)", "a.rules:2: option 'sid': 1 is that of the rule at a.rules:1"),
        (f"{HEAD} (byte_test:1,>,2; sid:1;)", "option 'byte_test': '1,>,2' is incomplete"),
        (f"{HEAD} (byte_test:1,~,2,3; sid:1;)", "option 'byte_test': '~' is no operator"),
        (f"{HEAD} (byte_test:5,>,2,3; sid:1;)", "option 'byte_test': 5 bytes are no binary number"),
        (f"{HEAD} (byte_test:4,>,2,3,dce; sid:1;)", "option 'byte_test': 'dce' is not supported"),
        (f"{HEAD} (byte_jump:4; sid:1;)", "option 'byte_jump': '4' is incomplete"),
        (f"{HEAD} (byte_extract:4,0,9; sid:1;)", "option 'byte_extract': '9' is no name"),
        (f"{HEAD} (byte_test:4,>,n,0; sid:1;)", "option 'byte_test': no byte_extract before it sets 'n'"),
        (f"{HEAD} (isdataat:-1; sid:1;)", "option 'isdataat': '-1' is no number"),
        (f"{HEAD} (urilen:a; sid:1;)", "option 'urilen': 'a' is no length"),
        (f"{HEAD} (ssl_version:tls9; sid:1;)", "option 'ssl_version': 'tls9' is no version"),
        (f"{HEAD} (fragbits:X; sid:1;)", "option 'fragbits': 'X' names no bit"),
        (f"{HEAD} (ipopts:none; sid:1;)", "option 'ipopts': 'none' is no option of IPv4"),
        (f"{HEAD} (icmp_id:1; sid:1;)", "option 'icmp_id': the rule's protocol is not icmp"),
        (f'{HEAD} (tls.sni; content:"a"; dns.query; content:"a"; sid:1;)', "its options are about TLS and DNS"),
        ('alert dns any any -> any any (content:"a"; sid:1;)', "it has no option about DNS"),
        (f'{HEAD} (contnt:"x"; sid:1;)', "did you mean 'content'?"),
        (f"{HEAD} (flow:to_servr; sid:1;)", "did you mean 'to_server'?"),
        (f"{HEAD} (flow:to_server,to_client; sid:1;)", "contradicts itself"),
        (f"{HEAD} (flowbits:sett,a; sid:1;)", "option 'flowbits': 'sett' is unknown"),
        (f"{HEAD} (classtype:none; sid:1;)", "option 'classtype': there is no class 'none'"),
        (f"{HEAD} (dsize:x; sid:1;)", "option 'dsize': 'x' is no number"),
        (f"{HEAD} (dsize:>65535; sid:1;)", "it would never match"),
        (f"{HEAD} (itype:8; sid:1;)", "option 'itype': the rule's protocol is not icmp"),
        (f"{HEAD} (window:>5; sid:1;)", "option 'window': '>5' is no number"),
        (f"{HEAD} (id:65536; sid:1;)", "it would never match"),
        (f"{HEAD} (flags:Z; sid:1;)", "option 'flags': there is no flag 'Z'"),
        ("alert udp any any -> any any (flags:S; sid:1;)", "option 'flags': the rule's protocol is not tcp"),
        (f"{HEAD} (threshold:type limit; sid:1;)", "option 'threshold': 'type limit' is incomplete"),
        ("activate tcp any any -> any any (sid:1;)", "action 'activate': it is not supported"),
        ("alrt tcp any any -> any any (sid:1;)", "'alrt': it begins no rule"),
        ("alert smb any any -> any any (sid:1;)", "protocol 'smb': it is not supported"),
        ("alert tcp any any <- any any (sid:1;)", "direction '<-': it is unknown"),
        ("alert tcp any -> any any (sid:1;)", "header: it has 6 parts, not 7"),
        ("alert tcp 10.0.0.300 any -> any any (sid:1;)", "source address: '10.0.0.300' is no address"),
        ("alert tcp $NONE any -> any any (sid:1;)", "source address: there is no variable $NONE"),
        (
            "alert tcp [10.0.0.1,!10.0.0.1] any -> any any (sid:1;)",
            "source address: '[10.0.0.1,!10.0.0.1]' has no address",
        ),
        ("alert tcp [10.0.0.1 any -> any any (sid:1;)", "header: it has 3 parts"),
        ("alert tcp any 70000 -> any any (sid:1;)", "source port: '70000' is no range of ports"),
        ("alert tcp any any -> any 9:1 (sid:1;)", "destination port: '9:1' is no range"),
        ("alert icmp any 1 -> any any (sid:1;)", "ports: icmp has none"),
        ("ipvar A [$A]\nalert tcp $A any -> any any (sid:1;)", "source address: it is nested more than 32 deep"),
        ("var A", "'var': it lacks a name or a value"),
    ],
)
def test_errors_say_where_what_and_which_option(text: str, said: str) -> None:
    found = error(text)
    assert said in found
    assert found.startswith("a.rules:")


def test_lenient_lists_what_it_skips() -> None:
    found = read(f'{HEAD} (content:"x"; sid:1;)\n{HEAD} (byte_jump:1; sid:2;)\nnonsense\n{HEAD} (sid:3;)', lenient=True)
    assert [rule.sid for rule in found.rules] == [1, 3]
    assert [(error.place.line, error.item) for error in found.skipped] == [(2, "option 'byte_jump'"), (3, "'nonsense'")]


def test_folders_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "b.rules").write_text(f"{HEAD} (sid:2;)")
    (tmp_path / "a.rules").write_text(f"{HEAD} (sid:1;)")
    (tmp_path / "c.txt").write_text("nonsense")
    assert [rule.sid for rule in read_files([tmp_path]).rules] == [1, 2]
    with pytest.raises(DetectionError, match="No such file"):
        read_files([tmp_path / "none"])


def test_the_fast_pattern_is_the_longest_that_must_occur() -> None:
    (found,) = read(f'{HEAD} (content:"ab"; content:"abcd"; content:!"abcdef"; sid:1;)').rules
    (part,) = group([found]).parts
    assert part.fast is not None and part.fast.text == b"abcd"


def test_a_rule_on_ip_with_options_on_http_is_about_tcp_alone() -> None:
    ip = HEAD.replace("tcp", "ip")
    groups = group(read(f'{ip} (content:"evil"; http_uri; sid:1;)\n{ip} (content:"evil"; sid:2;)').rules)
    assert [(part.rule, part.group) for part in groups.parts] == [
        (0, HTTP + buffers.URI), (1, STREAM), (1, UDP_PACKET), (1, ICMP_PACKET),
    ]  # fmt: skip


def test_a_variable_that_a_file_sets_again_has_its_new_value() -> None:
    lines = "var A 80\nvar B [$A,81]\nalert tcp any $B -> any any (sid:1;)\nvar A 90\n"
    first, second = read(lines + "alert tcp any $B -> any any (sid:2;)\n").rules
    assert (first.sports, second.sports) == (((80, 81),), ((81, 81), (90, 90)))


@given(*[st.sets(st.integers(0, 40))] * 2)
def test_ranges_without_others(numbers: set[int], removed: set[int]) -> None:
    def ranges(of: set[int]) -> Ranges:
        return union((number, number) for number in of)

    assert without(ranges(numbers), ranges(removed)) == ranges(numbers - removed)


def test_hostile_files_end_soon() -> None:
    wide = ",".join(str(port) for port in range(1, 20000, 3))
    deep = "[" * 5000
    texts = [
        f"alert tcp {deep} any -> any any (sid:1;)",
        "\\\n" * 50000,
        "(" * 70000,
        f'{HEAD} (content:"{"a" * 70000}"; sid:1;)',
        f"{HEAD} (" + 'content:"a"; ' * 4000 + "sid:1;)",
        f'{HEAD} (pcre:"/{"(" * 3000}/"; sid:1;)',
        "\0" * 1000,
        "".join(f"var A{n} [{','.join([f'$A{n + 1}'] * 8)}]\n" for n in range(30))
        + "var A30 80\nalert tcp any $A0 -> any any (sid:1;)",
        f"var A [{wide}]\nvar B [{wide.replace(',', ',!')}]\nalert tcp any [$A,!$B] -> any any (sid:1;)",
        "".join(f"var A{n} [$A{n + 1},$A{n + 1}]\n" for n in range(40)) + "alert tcp $A0 any -> any any (sid:1;)",
    ]
    for text in texts:
        table(read(text, lenient=True).rules, lambda _: b"")


_WORDS = st.sampled_from(sorted(KNOWN)) | st.text(max_size=8)
_VALUES = (
    st.text(max_size=12)
    | st.text(max_size=12).map(lambda text: f'"{text}"')
    | st.sampled_from(
        ["set,a", "to_server", "1", "-1", '"/a(b/Ui"', '"|00 ff|"', "type limit, track by_src, count 1, seconds 1"]
    )
)
_OPTIONS = st.lists(st.tuples(_WORDS, _VALUES | st.none()), max_size=6).map(
    lambda items: " ".join(f"{name}:{value};" if value is not None else f"{name};" for name, value in items)
)
_PLACES = st.sampled_from(["any", "$HOME_NET", "[10.0.0.0/8,!10.0.0.1]", "!any", "80", "1:", "["]) | st.text(
    max_size=10
)


@settings(max_examples=examples(300, 60), deadline=None)
@given(st.lists(st.tuples(_PLACES, _PLACES, _OPTIONS), max_size=3), st.text(max_size=60))
def test_any_text_is_read_or_refused(rules: list[tuple[str, str, str]], rest: str) -> None:
    """Nothing but RuleError comes out, and with lenient not even that; what is read makes a table."""
    text = (
        rest
        + "\n"
        + "\n".join(f"alert tcp {a} {b} -> any any ({options} sid:{n + 1};)" for n, (a, b, options) in enumerate(rules))
    )
    table(read(text, lenient=True).rules, lambda _: b"")
