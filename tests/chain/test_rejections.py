"""What a chain refuses: the line of the user's file, what is wrong, and what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.chain.check import check_chain
from sluice.chain.description import Arrangement, Chain, function
from sluice.chain.plan import read_chain
from sluice.engine.functions import FunctionError
from sluice.hooks.subscription import HookError
from sluice.lang.errors import DescriptionError
from tests.chain.functions import Put
from tests.support.small_stacks import small_stack

PUBLISH = "SLUICE_PUBLISH(%s, { uint32_t kind; })\nSLUICE_ON(tcp, data) { SLUICE_EMIT(event, %s, .kind = 1); }\n"
SUBSCRIBE = "SLUICE_ON(chain, %s) { }\n"
CHANGE = """SLUICE_INLINE
%s
SLUICE_ON(ipv4, packet) { SLUICE_REWRITE(event->box, event->unit.at + 8, "", 1); }
"""
REDIRECT = "SLUICE_INLINE\nSLUICE_ON(ipv4, packet) { SLUICE_REDIRECT(event->box, 1); }\n"
DROP = "SLUICE_INLINE\nSLUICE_ON(ipv4, packet) { SLUICE_DROP(event->box); }\n"
PYTHON = """from sluice.functions import on, publishes
@publishes
class %s:
    %s
@on("tcp", "data")
def saw(event): ...
"""
HERE = Path(__file__).name


def refused(arrangement: Arrangement) -> str:
    """What is said of a chain, without folders; lines of this file as LINE."""
    stack = small_stack()
    with pytest.raises((DescriptionError, HookError, FunctionError)) as error:
        check_chain(read_chain(Chain(arrangement, stack=stack)), stack)
    text = re.sub(r"[\w./-]*/([\w.]+\.(?:c|py))", r"\1", str(error.value))
    return re.sub(rf"{HERE}:\d+", f"{HERE}:LINE", text)


def test_a_function_twice_is_a_cycle(put: Put) -> None:
    one, two = function(put("one.c", SUBSCRIBE % "x")), function(put("two.c", DROP))
    assert refused_at_once(lambda: Chain(two >> one >> two, stack="tcp_ip")) == (
        "a chain has no cycles, and 'two' stands in it more than once: two >> one >> two\n"
        '    for a second instance, write function("two.c", name="two2").'
    )
    assert refused_at_once(lambda: Chain(one >> function(one.source), stack="tcp_ip")).startswith(
        f"two functions of the chain are called 'one', the other one at {HERE}:"
    )


def refused_at_once(make: object) -> str:
    """What is said when a chain is described, after the line."""
    with pytest.raises(DescriptionError) as error:
        make()  # type: ignore[operator]
    assert error.value.where.file == __file__
    return re.sub(r"[\w./-]*/([\w.]+\.c)", r"\1", f"{error.value.what}\n    {error.value.advice}")


def test_what_is_no_part_of_a_chain(put: Put) -> None:
    one = function(put("one.c", DROP))
    assert refused_at_once(lambda: one >> "two.c") == (
        ">> joins functions of a chain, not 'two.c'\n    write >> function(\"...\")."
    )
    assert "a chain is made of functions, not of 'x'" in refused_at_once(lambda: Chain("x", stack="tcp_ip"))  # type: ignore[arg-type]
    assert refused_at_once(lambda: function("a.c", name="for")).startswith("'for' cannot be the name of a function")


def test_events_in_a_cycle(put: Put) -> None:
    one = function(put("one.c", PUBLISH % ("first", "first") + SUBSCRIBE % "second"))
    two = function(put("two.c", PUBLISH % ("second", "second") + SUBSCRIBE % "first"))
    assert refused(one >> two) == (
        f"{HERE}:LINE: a cycle: 'one' subscribes to 'second' (one.c:4) of 'two', which subscribes to 'first' of 'one'\n"
        "    let events go in one direction: move one of the two handlers to a third function after both."
    )


def test_a_subscriber_before_its_publisher(put: Put) -> None:
    dpi = function(put("dpi.c", PUBLISH % ("detected", "detected")))
    ids = function(put("ids.c", SUBSCRIBE % "detected"))
    assert refused(ids >> dpi) == (
        f"{HERE}:LINE: 'ids' subscribes to 'detected' (ids.c:2), which 'dpi' publishes (dpi.c:2) later in the chain\n"
        "    write dpi >> ids: what a function publishes reaches those after it."
    )
    assert refused(ids | dpi) == (
        f"{HERE}:LINE: 'ids' subscribes to 'detected' (ids.c:2), which 'dpi' publishes (dpi.c:2) in parallel to it\n"
        "    write dpi >> ids: in parallel, neither waits for the other."
    )


def test_a_subscriber_of_its_own(put: Put) -> None:
    own = function(put("own.c", PUBLISH % ("a", "a") + SUBSCRIBE % "a"))
    assert "'own' subscribes to 'a' (own.c:4), which it publishes (own.c:2)" in refused(own)


def test_no_publisher(put: Put) -> None:
    dpi = function(put("dpi.c", PUBLISH % ("detected", "detected")))
    assert refused(dpi >> function(put("ids.c", SUBSCRIBE % "detectd"))) == (
        "ids.c:2: no function publishes 'detectd'\n    did you mean 'detected'?"
    )
    python = put("ids.py", 'from sluice.functions import on\n@on("chain", "other")\ndef saw(event): ...\n')
    assert refused(dpi >> function(python)).startswith("ids.py:2: no function publishes 'other'\n")
    assert "publish it by SLUICE_PUBLISH(x, { ... }) or @publishes." in refused(function(put("s.c", SUBSCRIBE % "x")))


def test_what_is_expected_is_not_published(put: Put) -> None:
    expects = function(put("s.c", "SLUICE_EXPECT(a, { uint64_t x; })\n" + SUBSCRIBE % "a"))
    told = refused(function(put("p.py", PYTHON % ("a", "x: int"))) >> expects)
    assert told.startswith("s.c:3: 'a' is published in Python, at p.py:2, after the functions in C")
    other = function(put("t.c", SUBSCRIBE % "a"))
    assert refused(expects >> other).startswith("t.c:2: no function publishes 'a'\n")
    python = put("q.py", 'from sluice.functions import on\n@on("chain", "a")\ndef saw(event): ...\n')
    assert refused(expects >> function(python)).startswith("q.py:2: no function publishes 'a'\n")


def test_a_publisher_in_python_is_too_late_for_c(put: Put) -> None:
    text = PYTHON % ("a", "x: int")
    assert refused(function(put("p.py", text)) >> function(put("s.c", SUBSCRIBE % "a"))) == (
        "s.c:2: 'a' is published in Python, at p.py:2, after the functions in C are done with the packet\n"
        "    write the publisher in C, or the subscriber in Python."
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SLUICE_PUBLISH(detected, { uint64_t kind; })", "is { uint64_t kind }, but { uint32_t kind } at dpi.c:2"),
        ("SLUICE_PUBLISH(detected, { uint32_t kind, more; })", "but { uint32_t kind } at dpi.c:2"),
        ("SLUICE_PUBLISH(a, { char *text; })", "'char * text' of 'a' is no field that can be published"),
        ("SLUICE_PUBLISH(a, { float x; })", "types are bool, uint8_t, uint16_t, uint32_t, uint64_t, sl_bytes."),
        ("SLUICE_PUBLISH(a, uint32_t)", "'a' needs a struct: SLUICE_PUBLISH(a, { uint32_t kind; })"),
        ("SLUICE_PUBLISH(data, { bool x; })", "'data' is a built-in event: give yours another name"),
        ("SLUICE_PUBLISH(a, { bool x, x; })", "'a' has two fields 'x': rename one"),
        ("SLUICE_PUBLISH_AS(nothing, a, { bool x; })", "no function publishes 'nothing', the base of 'a'"),
        ("SLUICE_PUBLISH_AS(b, a, { bool x; })\nSLUICE_PUBLISH_AS(a, b, { bool y; })", "is its own base"),
        ("SLUICE_PUBLISH_AS(detected, a, { bool kind; })", "'a' and its base have a field 'kind': rename one"),
        ("SLUICE_ON(tcp, end) { SLUICE_EMIT(event, a, .x = 1); }", "this function emits 'a', but does not publish it"),
    ],
)  # fmt: skip
def test_declarations_that_cannot_be(put: Put, text: str, told: str) -> None:
    dpi = function(put("dpi.c", PUBLISH % ("detected", "detected")))
    found = refused(dpi >> function(put("wrong.c", f"{text}\nSLUICE_ON(tcp, created) {{ }}\n")))
    assert told in found
    assert re.match(r"wrong\.c:[23]: ", found), found


def test_python_and_c_declare_the_same(put: Put) -> None:
    dpi = function(put("dpi.c", PUBLISH % ("detected", "detected")))
    text = PYTHON % ("detected", "kind: int")
    assert refused(dpi >> function(put("p.py", text))).startswith(
        "p.py:2: 'detected' is { uint64_t kind }, but { uint32_t kind } at dpi.c:2\n"
    )
    text = text.replace("kind: int", "kind: list")
    assert refused(function(put("q.py", text))).startswith("q.py:2: field 'kind' of 'detected' is of type list")


def test_parallel_changes_of_one_field(put: Put) -> None:
    ttl, same = (function(put(f"{name}.c", CHANGE % "SLUICE_WRITES(ipv4, ttl)")) for name in ("ttl", "same"))
    assert refused(ttl | same) == (
        f"{HERE}:LINE: 'ttl' and 'same' run in parallel, and both change field 'ttl' of layer 'ipv4'\n"
        "    write ttl >> same, so that the second changes what the first made."
    )


def test_parallel_changes_that_are_not_declared(put: Put) -> None:
    ttl, other = function(put("ttl.c", CHANGE % "SLUICE_WRITES(ipv4, ttl)")), function(put("any.c", CHANGE % ""))
    assert refused(ttl | other) == (
        f"{HERE}:LINE: 'ttl' and 'any' run in parallel, both change packets, and 'any' (any.c) does not say which "
        "fields it changes\n    declare SLUICE_WRITES(layer, field) in it, or write ttl >> any, so that the second "
        "changes what the first made."
    )


def test_parallel_redirections(put: Put) -> None:
    one, two = function(put("one.c", REDIRECT)), function(put("two.c", REDIRECT))
    assert "'one' and 'two' run in parallel, and both choose the port where a packet leaves" in refused(one | two)


def test_a_field_that_there_is_not(put: Put) -> None:
    assert refused(function(put("a.c", CHANGE % "SLUICE_WRITES(ipv4, tll)"))) == (
        "a.c:3: the header of layer 'ipv4' has no field 'tll'\n    did you mean 'ttl'?"
    )
    assert "the stack has no layer 'ipv5'" in refused(function(put("b.c", CHANGE % "SLUICE_WRITES(ipv5, ttl)")))


def test_many_at_once_after_a_drop(put: Put) -> None:
    text = 'from sluice.functions import on_batch\n@on_batch("tcp", "packet")\ndef saw(events): ...\n'
    assert refused(function(put("drop.c", DROP)) >> function(put("many.py", text))) == (
        f"{HERE}:LINE: 'many' takes many 'packet' at once (many.py:2), so those of packets that 'drop' drops cannot be "
        "withheld from it\n    write @on in place of @on_batch, or put the function first."
    )


def test_parameters_and_files_that_there_are_not(put: Put) -> None:
    text = 'SLUICE_PARAMETER(port, number, 80, "to which")\n' + DROP
    one = put("one.c", text)
    assert refused(function(one, prt=1)).startswith(
        f"{HERE}:LINE: one.c: there is no parameter 'prt': did you mean 'port'?"
    )
    assert f"{HERE}:LINE: one.c: parameter 'port' is a number from 0 on, not 'x'" in refused(function(one, port="x"))
    assert "nothing.c: no such file" in refused(function("nothing.c"))
    assert "there is no function 'flow_lg': did you mean 'flow_log'?" in refused(function("flow_lg"))


def test_too_many(put: Put) -> None:
    one = put("one.c", SUBSCRIBE % "x")
    many: Arrangement = function(one, "f0")
    for number in range(1, 65):
        many = many >> function(one, f"f{number}")
    assert "65 functions: a chain has at most 64" in refused(many)
