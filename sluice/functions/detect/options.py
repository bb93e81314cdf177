"""The options of a rule: each is read by a function of its name, and unknown options are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sluice.functions.detect import buffers
from sluice.functions.detect.byte_options import byte_extract, byte_jump, byte_test, check_variables, isdataat
from sluice.functions.detect.errors import RuleError
from sluice.functions.detect.header_options import HEADER_OPTIONS
from sluice.functions.detect.libraries import check_pcre
from sluice.functions.detect.lines import Option
from sluice.functions.detect.message_options import ssl_version, urilen
from sluice.functions.detect.model import (
    ESTABLISHED,
    FLOW_BITS,
    FLOWBIT_ACTIONS,
    NO_FRAG,
    NO_STREAM,
    NOT_ESTABLISHED,
    ONLY_FRAG,
    ONLY_STREAM,
    STREAMS,
    TO_CLIENT,
    TO_SERVER,
    UDP,
    Compare,
    Content,
    Flowbit,
    Pcre,
    Rule,
    Threshold,
)
from sluice.functions.detect.modifiers import MODIFIERS, check_fast, modify
from sluice.functions.detect.texts import quoted, read_content, read_pcre
from sluice.lang.errors import did_you_mean

Classes = Mapping[str, tuple[str, int]]


def _error(option: Option, what: str, advice: str = "") -> RuleError:
    return RuleError(option.place, f"option '{option.name}'", what, advice)


def _msg(rule: Rule, option: Option) -> None:
    negated, text = quoted(option)
    if negated:
        raise _error(option, "a message is not negated")
    rule.msg = re.sub(r'\\(["\\;:|])', r"\1", text)


def _number(option: Option, most: int = (1 << 32) - 1, least: int = 0) -> int:
    value = option.value or ""
    if not re.fullmatch(r"[0-9]{1,10}", value) or not least <= int(value) <= most:
        raise _error(
            option, f"'{value[:40]}' is no number from {least} to {most}", f"write {option.name}:{max(least, 1)};"
        )
    return int(value)


def _sid(rule: Rule, option: Option) -> None:
    rule.sid = _number(option, least=1)


def _rev(rule: Rule, option: Option) -> None:
    rule.rev = _number(option)


def _gid(rule: Rule, option: Option) -> None:
    rule.gid = _number(option)


def _priority(rule: Rule, option: Option) -> None:
    rule.priority = _number(option, 255, 1)


def _reference(rule: Rule, option: Option) -> None:
    kind, comma, where = (option.value or "").partition(",")
    if not comma or not kind.strip() or not where.strip():
        raise _error(option, f"'{(option.value or '')[:60]}' is no reference", "write reference:url,example.com/page;")
    rule.references.append((kind.strip(), where.strip()))


def _metadata(rule: Rule, option: Option) -> None:
    rule.metadata += [part.strip() for part in (option.value or "").split(",") if part.strip()]


def _content(rule: Rule, option: Option, sticky: int) -> None:
    rule.matches.append(read_content(option, sticky))


def _uricontent(rule: Rule, option: Option) -> None:
    content = read_content(option, buffers.URI)
    rule.matches.append(content)


def _pcre(rule: Rule, option: Option, sticky: int) -> None:
    pcre = read_pcre(option, sticky)
    check_pcre(pcre)
    rule.matches.append(pcre)


def _flow(rule: Rule, option: Option) -> None:
    for word in (option.value or "").split(","):
        word = word.strip().lower()
        if word not in FLOW_BITS:
            raise _error(option, f"'{word[:40]}' is unknown", did_you_mean(word, FLOW_BITS))
        rule.flow |= FLOW_BITS[word]
    pairs = ((TO_SERVER, TO_CLIENT), (ESTABLISHED, NOT_ESTABLISHED), (ONLY_STREAM, NO_STREAM), (NO_FRAG, ONLY_FRAG))
    for one, other in (*pairs, (ONLY_STREAM, NO_FRAG), (ONLY_STREAM, ONLY_FRAG)):
        if rule.flow & one and rule.flow & other:
            raise _error(option, f"'{option.value}' contradicts itself", "it would never match.")
    if rule.flow & (NO_FRAG | ONLY_FRAG):
        rebuilt = int(bool(rule.flow & ONLY_FRAG))
        rule.compares.append(Compare("rebuilt", rebuilt, rebuilt))


def _flowbits(rule: Rule, option: Option) -> None:
    action, _, rest = (option.value or "").partition(",")
    action = action.strip().lower()
    if action == "noalert" and not rest:
        rule.silent = True
        return
    known = (*FLOWBIT_ACTIONS, "setx", "reset")
    if action not in known:
        raise _error(option, f"'{action[:40]}' is unknown", f"it is one of {', '.join(known)}, noalert.")
    if action == "reset":
        names, bits_of = "all", rest.strip()
    else:
        names, _, bits_of = (part.strip() for part in rest.partition(","))
    if not names or ("|" in names and "&" in names) or "," in bits_of or (action == "setx" and not bits_of):
        raise _error(option, f"'{(option.value or '')[:60]}' is unknown", "write flowbits:set,NAME; or set,NAME,GROUP.")
    some = "|" in names
    parts = tuple(part.strip() for part in re.split(r"[|&]", names))
    if not all(re.fullmatch(r"[\w.\-]+", part) for part in (*parts, *([bits_of] if bits_of else ()))):
        raise _error(option, f"'{rest[:60]}' is no name of a bit", "names have letters, digits, '_', '-' and '.'.")
    if some and action not in ("isset", "isnotset"):
        raise _error(option, f"'{action}' takes no alternatives", "join several bits by '&'.")
    if names in ("any", "all") and action in ("set", "setx"):
        raise _error(option, f"'{action}' takes names of bits, not '{names}'")
    rule.flowbits.append(Flowbit(action, parts, some, bits_of))


def _sameip(rule: Rule, option: Option) -> None:
    if option.value:
        raise _error(option, f"it takes no value, not '{option.value[:40]}'", "write sameip;")
    rule.sameip = True


_TIMES = re.compile(r"\s*(type|track|count|seconds)\s+(\w+)\s*")


def _threshold(rule: Rule, option: Option) -> None:
    found: dict[str, str] = {}
    for part in (option.value or "").split(","):
        match = _TIMES.fullmatch(part)
        if match is None or match[1] in found:
            raise _error(
                option, f"'{part.strip()[:40]}' is unknown", "write type limit, track by_src, count 1, seconds 60."
            )
        found[match[1]] = match[2]
    if option.name == "detection_filter":
        found.setdefault("type", "detection_filter")
        kinds: tuple[str, ...] = ("detection_filter",)
    else:
        kinds = ("limit", "threshold", "both")
    if found.keys() != {"type", "track", "count", "seconds"} or found["type"] not in kinds:
        raise _error(
            option,
            f"'{option.value}' is incomplete or unknown",
            f"it has type {', '.join(kinds)}; track; count; seconds.",
        )
    if found["track"] not in ("by_src", "by_dst"):
        raise _error(option, f"track '{found['track']}' is unknown", "it is by_src or by_dst.")
    numbers = [int(found[name]) if re.fullmatch(r"[0-9]{1,9}", found[name]) else 0 for name in ("count", "seconds")]
    if not all(numbers):
        raise _error(option, "count and seconds are numbers from 1 on")
    if rule.threshold is not None:
        raise _error(option, "the rule has a threshold already", "remove one of the two.")
    rule.threshold = Threshold(found["type"], found["track"], numbers[0], numbers[1])


_MATCHES: dict[str, Callable[[Rule, Option, int], None]] = {
    "content": _content,
    "pcre": _pcre,
    "byte_test": byte_test,
    "byte_jump": byte_jump,
    "byte_extract": byte_extract,
    "isdataat": isdataat,
}
_PLAIN: dict[str, Callable[[Rule, Option], None]] = {
    "msg": _msg,
    "sid": _sid,
    "rev": _rev,
    "gid": _gid,
    "priority": _priority,
    "reference": _reference,
    "metadata": _metadata,
    "uricontent": _uricontent,
    "flow": _flow,
    "flowbits": _flowbits,
    "sameip": _sameip,
    "urilen": urilen,
    "ssl_version": ssl_version,
    "threshold": _threshold,
    "detection_filter": _threshold,
    **HEADER_OPTIONS,
}
_REPEATED = frozenset({"reference", "metadata", "uricontent", "flowbits", "urilen", "ip_proto"})

KNOWN = frozenset({*_MATCHES, *_PLAIN, *MODIFIERS, *buffers.STICKY, "classtype"})


def read_options(rule: Rule, options: tuple[Option, ...], classes: Classes) -> None:
    """Read all options of a rule into it. Raises RuleError."""
    sticky = buffers.PAYLOAD
    priority = False
    seen: set[str] = set()
    for option in options:
        name = option.name
        if name not in KNOWN:
            raise _error(option, "it is not supported", did_you_mean(name, KNOWN))
        if name in _PLAIN and name not in _REPEATED:
            if name in seen:
                raise _error(option, "the rule has it already", "remove one of the two.")
            seen.add(name)
        if name in _MATCHES:
            _MATCHES[name](rule, option, sticky)
        elif name in MODIFIERS:
            modify(option, rule.matches)
        elif name in buffers.STICKY:
            sticky = buffers.STICKY[name]
        elif name == "classtype":
            value = (option.value or "").strip()
            if value not in classes:
                raise _error(option, f"there is no class '{value[:40]}'", did_you_mean(value, classes))
            rule.classtype = value
            rule.category = classes[value][0]
            rule.priority = rule.priority if priority else classes[value][1]
        else:
            _PLAIN[name](rule, option)
            priority |= name == "priority"
    rule.matches.sort(key=lambda match: isinstance(match, Content) and match.unordered)  # last, so that none follows it
    _check(rule)


def _check(rule: Rule) -> None:
    """The combined meaning of options. Raises RuleError."""
    if not rule.sid:
        raise RuleError(
            rule.place, "option 'sid'", "the rule has none", "give each rule a number of its own: sid:1000001;"
        )
    check_fast(rule.matches)
    check_variables(rule)
    used = {match.buffer for match in rule.matches}
    if used & buffers.REQUEST_ONLY and used & buffers.RESPONSE_ONLY:
        names = ", ".join(buffers.NAMES[each] for each in sorted(used))
        raise RuleError(
            rule.place,
            "rule",
            f"it searches requests and responses ({names})",
            "write a rule for each, joined by flowbits.",
        )
    _check_messages(rule, used)
    previous: set[int] = set()
    for match in rule.matches:
        if isinstance(match, Pcre) and match.relative and match.buffer not in previous:
            raise RuleError(match.place, "option 'pcre'", "flag R: there is no match in its buffer before it")
        previous.add(match.buffer)


def _check_messages(rule: Rule, used: set[int]) -> None:
    """Options about messages need the protocol that carries them. Raises RuleError."""
    http = rule.http or used & buffers.HTTP
    kinds = [name for name, has in (("HTTP", http), ("TLS", used & buffers.TLS), ("DNS", used & buffers.DNS)) if has]
    if rule.application and kinds != [rule.application]:
        raise RuleError(
            rule.place,
            "rule",
            f"its protocol is {rule.application}, and it has no option about {rule.application} or one about another",
            "write alert tcp, or add tls.sni, ssl_version or dns.query.",
        )
    if not kinds:
        return
    if len(kinds) > 1:
        raise RuleError(
            rule.place,
            "rule",
            f"its options are about {' and '.join(kinds)}",
            "no message is both: write a rule for each.",
        )
    if not rule.protocols & (STREAMS | UDP if kinds == ["DNS"] else STREAMS):
        raise RuleError(
            rule.place,
            "rule",
            f"{kinds[0]} is over TCP, and its protocol is another",
            f"write alert tcp or alert {kinds[0].lower()}.",
        )
    if rule.of_packets:
        raise RuleError(
            rule.place,
            "rule",
            f"its options are about single packets, and others about {kinds[0]} messages",
            "write a rule for each.",
        )
