"""What `tcp.py` parses and stores: the header and options of TCP (RFC 9293, 7323, 2018), the sides of a connection.

Limits: options of other kinds are skipped by their length; the blocks of SACK are not divided.
"""

from sluice.lang import Bit, UInt, layout


class tcp_hdr(layout):
    sport = UInt(16)
    dport = UInt(16)
    seq_num = UInt(32, serial=True)
    ack_num = UInt(32, serial=True)
    hdr_len = Bit(4)
    reserved = Bit(4)
    cwr = Bit(1)
    ece = Bit(1)
    urg = Bit(1)
    ack = Bit(1)
    psh = Bit(1)
    rst = Bit(1)
    syn = Bit(1)
    fin = Bit(1)
    window_size = UInt(16)
    checksum = Bit(16)
    urgent_pointer = Bit(16)


class tcp_eol(layout):
    eol_type = Bit(8, const=0)


class tcp_nop(layout):
    nop_type = Bit(8, const=1)


class tcp_mss(layout):
    mss_type = Bit(8, const=2)
    mss_len = Bit(8, const=4)
    mss_value = Bit(16)


class tcp_ws(layout):
    ws_type = Bit(8, const=3)
    ws_len = Bit(8, const=3)
    ws_value = Bit(8)


class tcp_sack_permitted(layout):
    sack_permitted_type = Bit(8, const=4)
    sack_permitted_len = Bit(8, const=2)


class tcp_sack(layout):
    sack_type = Bit(8, const=5)
    sack_len = Bit(8)
    sack_value = Bit((sack_len - 2) << 3)


class tcp_ts(layout):
    ts_type = Bit(8, const=8)
    ts_len = Bit(8, const=10)
    ts_value = Bit(32)
    ts_echo_reply = Bit(32)


class tcp_other(layout):
    other_type = Bit(8)
    other_len = Bit(8)
    other_value = Bit((other_len - 2) << 3)


class tcp_side(layout):
    seen = Bit(1)
    syn = Bit(1)  # it sent one with its first packet
    open = Bit(1)  # it sent a SYN without ACK; more: simultaneous open
    answered = Bit(1)  # it sent a SYN/ACK
    acked = Bit(1)  # it sent an acknowledgement
    fin = Bit(1)
    first = UInt(32, serial=True)
    next = UInt(32, serial=True)  # after the farthest that it sent
    end = UInt(32, serial=True)  # after its FIN; before it: the other byte 0 (DOUBLE), the number of the SYN (STRAY)
    ack = UInt(32, serial=True)
    window = Bit(32)  # scaled
    scale = Bit(4, init=14)
    scales = Bit(1)  # a SYN of it had the option
    begun = Bit(1)  # it sent a packet that is no RST
    doubts = Bit(4)  # EARLY, EMPTY, DOUBLE and STRAY, as far as they hold
    payloads = Bit(3)  # packets with payload while nothing was acknowledged
    base = UInt(32, serial=True)  # the number of its byte 0


class tcp_both(layout):
    doubt = Bit(1, init=1)  # a side was not seen, has acknowledged nothing, or has doubts
    closing = Bit(1)  # a FIN or RST came, counted or not; with reuse="closed": an RST that counted
    syn = Bit(2)  # who sent one: 1 the active side, 2 the passive one
    fin = Bit(2)
    rst = Bit(2)


class tcp_temp(layout):
    number = UInt(32, serial=True)  # of the first byte
    units = Bit(32)  # of sequence space
    after = UInt(32, serial=True)
    low = UInt(32, serial=True)
    high = UInt(32, serial=True)
    start = Bit(1)  # `base` is the number of this side's byte 0
    base = UInt(32, serial=True)
    decides = Bit(1)  # `decided` is the number of the other side's byte 0
    decided = UInt(32, serial=True)
    hold = Bit(1)  # nothing is delivered, as byte 0 is not decided
    outside = Bit(1)  # the packet belongs to no stream of this connection
    open = Bit(1)  # a side has doubts
    near = Bit(32)
    old = Bit(32)
    opens = Bit(1)
    reused = Bit(1)
    reset = Bit(1)
