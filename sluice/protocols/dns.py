"""DNS: RFC 1035 (and 2181, 3596, 6891), over UDP and, after a length, over TCP; ports 53 and 5353 (RFC 6762, mDNS).

`dns_parser` parses the header. Each question and each resource record is a layer above it, in the order of the message
(`dns_question_parser`, `dns_record_parser`). `dns_stream_parser` divides a TCP stream into messages. Event `message`
has each message with its bytes, `asked` each question, `answered` each record, with `section` 1 for answers, 2 for
authorities, 3 for additional records.

A name has its wire form: labels, each after its length, up to the label of length 0 or a pointer (two bytes, 0xc000 +
the offset in the message where the name continues). Pointers are not followed. `data` is the record's data, by its
type: 4 bytes of an A, 16 of an AAAA (RFC 3596), names and numbers, an OPT (RFC 6891) with its options.

Limits: a label of another kind (RFC 6891, 5) makes a name malformed, and so does a length over 255 bytes. The stack
bounds the questions and records that are parsed of a packet's messages (`--records`); a message with more is counted.
"""

from sluice.lang import (
    AnyUntil,
    Assign,
    Bit,
    Callback,
    Connectionless,
    Expression,
    Length,
    UInt,
    layout,
)

LONGEST_NAME = 255
LONGEST = 0xFFFF


class dns_hdr(layout):
    id = UInt(16)
    response = Bit(1)
    opcode = Bit(4)
    authoritative = Bit(1)
    truncated = Bit(1)
    recursion_desired = Bit(1)
    recursion_available = Bit(1)
    reserved = Bit(1)
    authentic = Bit(1)
    checking_disabled = Bit(1)
    rcode = Bit(4)
    questions = UInt(16)
    answers = UInt(16)
    authorities = UInt(16)
    additionals = UInt(16)


class dns_stream_hdr(layout):
    length = UInt(16)


class dns_label(layout):
    label = Bit(2, const=0)
    size = Bit(6)
    text = Bit(size << 3)


class dns_pointer(layout):
    pointer = Bit(2, const=3)
    offset = Bit(14)


class dns_question_rest(layout):
    type = UInt(16)
    class_ = UInt(16)


class dns_record_rest(layout):
    type = UInt(16)
    class_ = UInt(16)
    ttl = UInt(32)
    data_length = UInt(16)
    data = Bit(data_length << 3)


class dns_temp(layout):
    records = UInt(32)


class dns_question_temp(layout):
    questions = UInt(16)  # that follow


class dns_record_temp(layout):
    records = UInt(32)  # that follow
    section = Bit(2)


class dns_message(layout):
    id = UInt(16)
    response = Bit(1)
    opcode = Bit(4)
    rcode = Bit(4)
    bytes = Bit(999)


class dns_asked(layout):
    id = UInt(16)
    response = Bit(1)
    name = Bit(999)
    type = UInt(16)
    class_ = UInt(16)


class dns_answered(layout):
    id = UInt(16)
    section = Bit(2)
    name = Bit(999)
    type = UInt(16)
    class_ = UInt(16)
    ttl = UInt(32)
    data = Bit(999)


def dns_stream_parser() -> Connectionless:
    stream = Connectionless("dns_stream")
    stream.header = dns_stream_hdr
    stream.message = Length(stream.header.length + 2, limit=LONGEST + 2, bundled=True)
    return stream


def dns_parser() -> Connectionless:
    dns = Connectionless("dns")
    dns.header = dns_hdr
    dns.temp = dns_temp
    header = dns.header
    dns.prep = Assign(dns.temp.records, header.answers + header.authorities + header.additionals)
    dns.offer(
        id=header.id,
        response=header.response,
        questions=header.questions,
        records=dns.temp.records,
        authorities=header.authorities,
        additionals=header.additionals,
    )
    dns.event.message = (
        Assign(dns_message.id, header.id)
        + Assign(dns_message.response, header.response)
        + Assign(dns_message.opcode, header.opcode)
        + Assign(dns_message.rcode, header.rcode)
        + Assign(dns_message.bytes, dns.unit)
        + Callback(dns_message)
    )
    return dns


def name_ended(parser: Connectionless) -> Expression:
    """Whether the last part of a name was read: a pointer, or the root's label."""
    return parser.header_contain(dns_pointer) | (parser.header_contain(dns_label) & (dns_label.size == 0))


def name(parser: Connectionless) -> AnyUntil:
    """The name at the beginning of a header. It is not read further than the longest one."""
    return AnyUntil([dns_label, dns_pointer], ~name_ended(parser) & (parser.cursor <= LONGEST_NAME))


def require_name(parser: Connectionless, length: Expression) -> None:
    """A name of this length must be complete, and not too long."""
    parser.require(name_ended(parser) | (length > LONGEST_NAME), "name")
    parser.require(length <= LONGEST_NAME, "long name")


def dns_question_parser() -> Connectionless:
    question = Connectionless("dns_question")
    question.record = True
    question.header = name(question) + dns_question_rest
    length = question.cursor - 4
    require_name(question, length)
    question.temp = dns_question_temp
    question.prep = Assign(question.temp.questions, question.below.questions - 1)
    question.offer(questions=question.temp.questions)
    question.event.asked = (
        Assign(dns_asked.id, question.below.id)
        + Assign(dns_asked.response, question.below.response)
        + Assign(dns_asked.name, question.unit[:length])
        + Assign(dns_asked.type, question.header.type)
        + Assign(dns_asked.class_, question.header.class_)
        + Callback(dns_asked)
    )
    return question


def dns_record_parser() -> Connectionless:
    record = Connectionless("dns_record")
    record.record = True
    record.header = name(record) + dns_record_rest
    length = record.cursor - record.header.data_length - 10
    require_name(record, length)
    record.temp = dns_record_temp
    temp, below = record.temp, record.below
    record.prep = Assign(temp.records, below.records - 1)
    after_answers = temp.records < below.authorities + below.additionals
    record.prep += Assign(temp.section, 1 + after_answers + (temp.records < below.additionals))
    record.offer(records=temp.records)
    record.event.answered = (
        Assign(dns_answered.id, below.id)
        + Assign(dns_answered.section, temp.section)
        + Assign(dns_answered.name, record.unit[:length])
        + Assign(dns_answered.type, record.header.type)
        + Assign(dns_answered.class_, record.header.class_)
        + Assign(dns_answered.ttl, record.header.ttl)
        + Assign(dns_answered.data, record.header.data)
        + Callback(dns_answered)
    )
    return record
