"""What tshark calls the fields of DNS; questions and records are branches of its tree of a message."""

from tests.tshark.dissection import Node
from tests.tshark.table import COUNT, Computed, Explained, Shown, Table, Value, Where

MESSAGE = ("dns", "mdns")
QUESTION, RECORD = "dns.qry.name", "dns.resp.name"
PARTS = ("Queries", "Answers", "Authoritative nameservers", "Additional records")
ANSWERED = "tshark shows it of responses only"
NAMED_DATA = {1: "dns.a", 2: "dns.ns", 5: "dns.cname", 12: "dns.ptr.domain_name", 28: "dns.aaaa"}
OPT = 41


def entries(message: Node, field: str) -> list[Node]:
    """The questions or the records of a message, which have this field, in its order."""
    return [entry for part in message.nodes if part.name in PARTS for entry in part.nodes if field in entry.fields]


def is_response(message: Node) -> bool:
    """Whether it is one."""
    return message.numbers("dns.flags.response")[0] == 1


def labels(entry: Node) -> list[bytes]:
    """The labels of the name, each after its length, as they stand in the message; a pointer last, if there is one."""
    rest = entry.bytes(QUESTION if QUESTION in entry.fields else RECORD)[0]
    found: list[bytes] = []
    while rest:
        size = 2 if rest[0] >= 0xC0 else 1 + rest[0]
        found.append(rest[:size])
        rest = rest[size:]
    return found


def last_label(entry: Node) -> bytes | None:
    """The last one that is no pointer."""
    return next((label for label in reversed(labels(entry)) if label[0] < 0xC0), None)


def kind(entry: Node) -> Value:
    """The two bits before the length of a label."""
    return None if last_label(entry) is None else 0


def size(entry: Node) -> Value:
    """The length of the last label."""
    label = last_label(entry)
    return None if label is None else label[0]


def text(entry: Node) -> Value:
    """The last label; of one without bytes nothing is said."""
    label = last_label(entry)
    return label[1:] or None if label is not None else None


def pointer(entry: Node) -> bytes | None:
    """The pointer at the name's end."""
    label = labels(entry)[-1]
    return label if label[0] >= 0xC0 else None


def marked(entry: Node) -> Value:
    """The two bits of a pointer."""
    return 3 if pointer(entry) else None


def offset(entry: Node) -> Value:
    """Where a pointer leads."""
    found = pointer(entry)
    return int.from_bytes(found, "big") & 0x3FFF if found else None


def question_class(entry: Node) -> Value:
    """The class, with mDNS's bit for a unicast response, which tshark shows apart."""
    return (entry.numbers("dns.qry.qu") or [0])[0] << 15 | entry.numbers("dns.qry.class")[0]


def record_class(entry: Node) -> Value:
    """The class, with mDNS's bit to flush caches, which tshark shows apart; of OPT the size of datagrams."""
    if "dns.rr.udp_payload_size" in entry.fields:
        return (entry.numbers("dns.resp.cache_flush") or [0])[0] << 15 | entry.numbers("dns.rr.udp_payload_size")[0]
    return (entry.numbers("dns.resp.cache_flush") or [0])[0] << 15 | entry.numbers("dns.resp.class")[0]


def record_ttl(entry: Node) -> Value:
    """The time to live; OPT has other things there."""
    if entry.numbers("dns.resp.type")[0] != OPT:
        return entry.numbers("dns.resp.ttl")[0]
    code, version, flags = (entry.bytes(f"dns.resp.{name}")[0] for name in ("ext_rcode", "edns0_version", "z"))
    return int.from_bytes(code + version + flags, "big")


def data(entry: Node) -> Value:
    """The data, where one field of tshark's is all of it."""
    return entry.bytes(NAMED_DATA[entry.numbers("dns.resp.type")[0]])[0]


def has_data(entry: Node) -> bool:
    """Whether that is so."""
    return NAMED_DATA.get(entry.numbers("dns.resp.type")[0]) in entry.fields


def has_name(entry: Node) -> bool:
    """Whether tshark shows the name as one field."""
    return QUESTION in entry.fields or RECORD in entry.fields


PARTS_OF_NAME = {"label": kind, "size": size, "text": text, "pointer": marked, "offset": offset}
NAME: dict[str, Shown] = {
    name: Where(Computed(value), has_name, "tshark shows its parts: service, protocol and name of an SRV")
    for name, value in PARTS_OF_NAME.items()
}
MALFORMED = [Explained("ntop_nDPI__fuzz-2006-06-26-2594.pcap", "tshark gives up on a message that it finds malformed")]

TABLES = [
    Table(
        "dns_stream",
        "dns",
        {"length": "dns.length"},
        lambda message: [message] if "dns.length" in message.fields else [],
    ),
    Table(
        "dns",
        MESSAGE,
        {
            "id": "dns.id",
            "response": "dns.flags.response",
            "opcode": "dns.flags.opcode",
            "authoritative": Where("dns.flags.authoritative", is_response, ANSWERED),
            "truncated": "dns.flags.truncated",
            "recursion_desired": "dns.flags.recdesired",
            "recursion_available": Where("dns.flags.recavail", is_response, ANSWERED),
            "reserved": "dns.flags.z",
            "authentic": Where("dns.flags.authenticated", is_response, ANSWERED),
            "checking_disabled": "dns.flags.checkdisable",
            "rcode": Where("dns.flags.rcode", is_response, ANSWERED),
            "questions": "dns.count.queries",
            "answers": "dns.count.answers",
            "authorities": "dns.count.auth_rr",
            "additionals": "dns.count.add_rr",
        },
        explained=dict.fromkeys(("questions", "answers", "authorities"), MALFORMED),
    ),
    Table(
        "dns_question",
        MESSAGE,
        NAME | {"type": "dns.qry.type", "class_": Computed(question_class)},
        lambda message: entries(message, "dns.qry.type"),
    ),
    Table(
        "dns_record",
        MESSAGE,
        NAME
        | {
            "type": "dns.resp.type",
            "class_": Computed(record_class),
            "ttl": Computed(record_ttl),
            "data_length": "dns.resp.len",
            "data": Where(Computed(data), has_data, "tshark shows its parts, by the type"),
        },
        lambda message: entries(message, "dns.resp.type"),
        {COUNT: MALFORMED},
    ),
]
