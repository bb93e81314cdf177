"""PPTP control connection: RFC 2637, over TCP port 1723. All fifteen messages of section 2, with their fields.

Parses whole messages, however TCP segments divide them. Fields that several kinds of messages share have one name:
`header.call_id` is the sender's call id and `header.peer_call_id` the other side's, in whatever message; GRE carries
the call under these ids (gre.py). After data that is no message, the next message is found by the magic cookie. Event
`control` is emitted for each message: type, call ids, result and error; the instance is the connection's.

Limits: control messages (PPTP message type 1) only; of others, and of types that the RFC does not define, only the
header is parsed. Calls are not tracked: an Outgoing-Call-Reply (8) or Incoming-Call-Reply (10) with result 1 has their
ids.
"""

from sluice.lang import Assign, Bit, Callback, Connectionless, If, Length, UInt, layout, one_of

MAGIC_COOKIE = 0x1A2B3C4D
CONTROL = 1
LONGEST = 1024
"""Bytes; the longest message of the RFC has 220."""

START_REQUEST, START_REPLY, STOP_REQUEST, STOP_REPLY, ECHO_REQUEST, ECHO_REPLY = range(1, 7)
OUTGOING_REQUEST, OUTGOING_REPLY, INCOMING_REQUEST, INCOMING_REPLY, INCOMING_CONNECTED = range(7, 12)
CLEAR_REQUEST, DISCONNECT_NOTIFY, WAN_ERROR_NOTIFY, SET_LINK_INFO = range(12, 16)


class pptp_hdr(layout):
    length = UInt(16)
    message_type = UInt(16)
    magic_cookie = UInt(32, const=MAGIC_COOKIE)
    type = UInt(16)
    reserved = Bit(16)


class pptp_version(layout):
    version = UInt(16)


class pptp_echo(layout):
    identifier = UInt(32)


class pptp_call(layout):
    call_id = UInt(16)


class pptp_peer(layout):
    peer_call_id = UInt(16)


class pptp_result(layout):
    result = Bit(8)
    error = Bit(8)


class pptp_reason(layout):
    reason = Bit(8)
    reserved_reason = Bit(8)


class pptp_reserved(layout):
    reserved_rest = Bit(16)


class pptp_start(layout):
    framing_capabilities = UInt(32)
    bearer_capabilities = UInt(32)
    channels = UInt(16)
    firmware = UInt(16)
    host_name = Bit(512)
    vendor = Bit(512)


class pptp_outgoing_request(layout):
    serial_number = UInt(16)
    minimum_bps = UInt(32)
    maximum_bps = UInt(32)
    bearer_type = UInt(32)
    framing_type = UInt(32)
    window = UInt(16)
    delay = UInt(16)
    number_length = UInt(16)
    reserved_number = Bit(16)
    number = Bit(512)
    subaddress = Bit(512)


class pptp_outgoing_reply(layout):
    cause = UInt(16)
    speed = UInt(32)
    window = UInt(16)
    delay = UInt(16)
    channel = UInt(32)


class pptp_incoming_request(layout):
    serial_number = UInt(16)
    bearer_type = UInt(32)
    channel = UInt(32)
    dialed_length = UInt(16)
    dialing_length = UInt(16)
    dialed_number = Bit(512)
    dialing_number = Bit(512)
    subaddress = Bit(512)


class pptp_incoming_reply(layout):
    window = UInt(16)
    delay = UInt(16)
    reserved_reply = Bit(16)


class pptp_incoming_connected(layout):
    speed = UInt(32)
    window = UInt(16)
    delay = UInt(16)
    framing_type = UInt(32)


class pptp_disconnect(layout):
    cause = UInt(16)
    reserved_cause = Bit(16)
    statistics = Bit(1024)


class pptp_wan_error(layout):
    crc_errors = UInt(32)
    framing_errors = UInt(32)
    hardware_overruns = UInt(32)
    buffer_overruns = UInt(32)
    timeouts = UInt(32)
    alignment_errors = UInt(32)


class pptp_link_info(layout):
    send_accm = UInt(32)
    receive_accm = UInt(32)


class pptp_control(layout):
    type = UInt(16)
    call_id = UInt(16)
    peer_call_id = UInt(16)
    result = Bit(8)
    error = Bit(8)


PARTS = {
    pptp_version: (START_REQUEST, START_REPLY),
    pptp_echo: (ECHO_REQUEST, ECHO_REPLY),
    pptp_call: (
        OUTGOING_REQUEST,
        OUTGOING_REPLY,
        INCOMING_REQUEST,
        INCOMING_REPLY,
        CLEAR_REQUEST,
        DISCONNECT_NOTIFY,
    ),
    pptp_peer: (OUTGOING_REPLY, INCOMING_REPLY, INCOMING_CONNECTED, WAN_ERROR_NOTIFY, SET_LINK_INFO),
    pptp_result: (START_REPLY, STOP_REPLY, ECHO_REPLY, OUTGOING_REPLY, INCOMING_REPLY, DISCONNECT_NOTIFY),
    pptp_reason: (STOP_REQUEST,),
    pptp_reserved: (
        START_REQUEST,
        STOP_REQUEST,
        STOP_REPLY,
        ECHO_REPLY,
        INCOMING_CONNECTED,
        CLEAR_REQUEST,
        WAN_ERROR_NOTIFY,
        SET_LINK_INFO,
    ),
    pptp_start: (START_REQUEST, START_REPLY),
    pptp_outgoing_request: (OUTGOING_REQUEST,),
    pptp_outgoing_reply: (OUTGOING_REPLY,),
    pptp_incoming_request: (INCOMING_REQUEST,),
    pptp_incoming_reply: (INCOMING_REPLY,),
    pptp_incoming_connected: (INCOMING_CONNECTED,),
    pptp_disconnect: (DISCONNECT_NOTIFY,),
    pptp_wan_error: (WAN_ERROR_NOTIFY,),
    pptp_link_info: (SET_LINK_INFO,),
}
"""The parts after the header, in their order: each is in the messages of these types."""


def pptp_parser() -> Connectionless:
    pptp = Connectionless("pptp")
    pptp.header = pptp_hdr
    for part, types in PARTS.items():
        pptp.header += If((pptp_hdr.message_type == CONTROL) & one_of(pptp_hdr.type, *types)) >> part
    header = pptp.header
    resync = header.magic_cookie == MAGIC_COOKIE
    pptp.message = Length(header.length, limit=LONGEST, resync=resync, bundled=True)
    pptp.event.control = If(header.message_type == CONTROL) >> (
        Assign(pptp_control.type, header.type)
        + Assign(pptp_control.call_id, header.call_id)
        + Assign(pptp_control.peer_call_id, header.peer_call_id)
        + Assign(pptp_control.result, header.result)
        + Assign(pptp_control.error, header.error)
        + Callback(pptp_control)
    )
    return pptp
