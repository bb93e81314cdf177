"""byte_test, byte_jump, byte_extract and isdataat, each against its documented meaning, on a stream and on a packet."""

from __future__ import annotations

import pytest

from tests.functions.detect.boxes import connection, datagram, needs_ids, packets, rule

pytestmark = needs_ids

NUMBER = b"len=\x00\x00\x01\x02rest"


@pytest.mark.parametrize(
    ("options", "said", "matches"),
    [
        # count, operator, value, offset from the beginning
        ("byte_test:4,=,258,4;", NUMBER, True),
        ("byte_test:4,=,0x102,4;", NUMBER, True),
        ("byte_test:4,>,257,4;", NUMBER, True),
        ("byte_test:4,>,258,4;", NUMBER, False),
        ("byte_test:4,<,259,4;", NUMBER, True),
        ("byte_test:4,<=,258,4;", NUMBER, True),
        ("byte_test:4,>=,259,4;", NUMBER, False),
        ("byte_test:4,!=,258,4;", NUMBER, False),
        ("byte_test:4,!>,258,4;", NUMBER, True),
        ("byte_test:1,&,2,7;", NUMBER, True),
        ("byte_test:1,&,4,7;", NUMBER, False),
        ("byte_test:1,!&,4,7;", NUMBER, True),
        ("byte_test:1,^,2,7;", NUMBER, False),
        ("byte_test:1,^,3,7;", NUMBER, True),
        ("byte_test:4,=,0x02010000,4,little;", NUMBER, True),
        ("byte_test:2,=,0x0102,6,big;", NUMBER, True),
        ('content:"len="; byte_test:4,=,258,0,relative;', NUMBER, True),
        ('content:"rest"; byte_test:4,=,258,-8,relative;', NUMBER, True),
        ("byte_test:1,=,1,7,bitmask 0x02;", NUMBER, True),
        ("byte_test:2,=,0x10,6,bitmask 0x0ff0;", NUMBER, True),
        # beyond the bytes there is nothing to compare
        ("byte_test:4,!=,1,10;", NUMBER, False),
        ('content:"len="; byte_test:4,>,0,-9,relative;', NUMBER, False),
        # a number as text
        ('content:"Length: "; byte_test:5,>,100,0,relative,string,dec;', b"Length: 120\r\n", True),
        ('content:"Length: "; byte_test:5,>,120,0,relative,string,dec;', b"Length: 120\r\n", False),
        ('content:"Length: "; byte_test:4,=,0x1f,0,relative,string,hex;', b"Length: 0x1f", True),
        ('content:"mode "; byte_test:3,=,493,0,relative,string,oct;', b"mode 755", True),
        ('content:"Length: "; byte_test:3,=,0,0,relative,string,dec;', b"Length: abc", False),
        # where a content is tried again, the number is read after each of its places
        ('content:"n"; byte_test:1,=,3,0,relative;', b"n\1n\2n\3", True),
        ('content:"n"; byte_test:1,=,4,0,relative;', b"n\1n\2n\3", False),
        # byte_jump: the number of bytes to the next match, from the end of the number
        ('byte_jump:1,0; content:"x"; within:1;', b"\x03abcx", True),
        ('byte_jump:1,0; content:"x"; within:1;', b"\x02abcx", False),
        ('content:"a"; byte_jump:1,0,relative; content:"x"; within:1;', b"a\x02..x", True),
        ('byte_jump:1,0,multiplier 2; content:"x"; within:1;', b"\x02....x", True),
        ('byte_jump:1,0,align; content:"x"; within:1;', b"\x02....x", True),
        ('byte_jump:1,1,from_beginning; content:"x"; within:1;', b".\x03.x", True),
        ('byte_jump:1,0,from_end,post_offset -3; content:"x"; within:1;', b"\0..x..", True),
        ('byte_jump:1,0,post_offset 1; content:"x"; within:1;', b"\x01..x", True),
        ('byte_jump:2,0,string,dec; content:"x"; within:1;', b"03...x", True),
        ('byte_jump:2,0,little; content:"x"; within:1;', b"\x01\0.x", True),
        ('byte_jump:1,0; content:"x";', b"\xffabcx", False),
        ("byte_jump:1,0; isdataat:0,relative;", b"\x03abcx", True),
        ("byte_jump:1,0; isdataat:0,relative;", b"\x04abcx", False),
        # byte_extract: a variable in place of a number
        ('byte_extract:1,0,at; content:"x"; offset:at; depth:1;', b"\x04...x..", True),
        ('byte_extract:1,0,at; content:"x"; offset:at; depth:1;', b"\x03...x..", False),
        ('byte_extract:1,0,size; content:"x"; depth:size;', b"\x04..x", True),
        ('byte_extract:1,0,size; content:"x"; depth:size;', b"\x03..x", False),
        ('content:"<"; byte_extract:1,0,n,relative; content:"x"; distance:n; within:1;', b"<\x02..x", True),
        ('content:"<"; byte_extract:1,0,n,relative; content:"x"; distance:n; within:1;', b"<\x01..x", False),
        ('content:"<"; byte_extract:1,0,n,relative; content:"x"; within:n;', b"<\x03..x", True),
        ("byte_extract:1,0,n; byte_test:1,>,n,1;", b"\x05\x06", True),
        ("byte_extract:1,0,n; byte_test:1,>,n,1;", b"\x05\x05", False),
        ("byte_extract:1,0,at; byte_test:1,=,7,at;", b"\x02.\x07", True),
        ("byte_extract:1,0,n,multiplier 4; isdataat:n;", b"\x01....", True),
        ("byte_extract:1,0,n,multiplier 4; isdataat:n;", b"\x01...", False),
        ("byte_extract:1,0,n,align 4; byte_test:1,=,9,n;", b"\x03...\x09", True),
        ("byte_extract:2,0,n,string,hex; byte_test:1,=,9,n;", b"04..\x09", True),
        ("byte_extract:1,0,n,bitmask 0xf0; byte_test:1,=,9,n;", b"\x3f..\x09", True),
        # isdataat: is there a byte at the place?
        ("isdataat:3;", b"abcd", True),
        ("isdataat:4;", b"abcd", False),
        ("isdataat:!4;", b"abcd", True),
        ("isdataat:!3;", b"abcd", False),
        ('content:"ab"; isdataat:1,relative;', b"abcd", True),
        ('content:"ab"; isdataat:2,relative;', b"abcd", False),
        ('content:"ab"; isdataat:!2,relative;', b"abcd", True),
        ('content:"ab"; isdataat:!1,relative,rawbytes;', b"abcd", False),
    ],
)
def test_bytes(options: str, said: bytes, matches: bool) -> None:
    stream = rule(options, "tcp any any -> any 80", 1)
    packet = rule(options, "udp any any -> any any", 2)
    frames = [*connection([(">", said)]), datagram(said)]
    assert sorted(packets(frames, stream + packet).sids) == ([1, 2] if matches else [])
    assert bool(packets(connection([(">", said)], 1), stream).rows) == matches


def test_a_number_in_a_buffer_of_http() -> None:
    request = b"GET /item?n=77&x HTTP/1.1\r\nHost: a\r\n\r\n"
    options = 'content:"n="; http_uri; byte_test:2,>,76,0,relative,string,dec;'
    assert packets(connection([(">", request)]), rule(options)).sids == [1]
    assert packets(connection([(">", request)]), rule(options.replace("76", "77"))).sids == []


def test_what_follows_in_the_stream_decides() -> None:
    """Data beyond the bytes so far is no answer: it may come with the next segment, or block."""
    rules = rule('content:"USER"; isdataat:!6000,relative;') + rule('content:"USER"; isdataat:3000,relative;', sid=2)
    said = b"USER" + b"a" * 5000
    for cut in (1460, 100):
        assert packets(connection([(">", said)], cut), rules).sids == [2, 1]
