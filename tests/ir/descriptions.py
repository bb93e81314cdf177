"""Small complete stacks, whose IR and C are kept as golden text: each shows a part of what the builder does.

They lean on no protocol of ours, so that the golden text changes when the builder does and not else.
"""

from sluice.lang import (
    PSM,
    AnyUntil,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    If,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
    make_psm_state,
)


class eth_hdr(layout):
    dmac = Bit(48)
    smac = Bit(48)
    type = UInt(16)


def eth_parser() -> Connectionless:
    eth = Connectionless("eth", link_types=(1,))
    eth.header = eth_hdr
    return eth


# --- Ethernet and ARP: headers, fields of variable length, a step to the layer above ------------------------


class arp_hdr(layout):
    hardware = UInt(16)
    protocol = UInt(16)
    hardware_length = Bit(8)
    protocol_length = Bit(8)
    operation = UInt(16)
    sender = Bit((hardware_length + protocol_length) << 3)
    target = Bit((hardware_length + protocol_length) << 3)


class arp_seen(layout):
    operation = UInt(16)
    sender = Bit(2048)  # longer than a number: bytes


def arp_stack() -> Stack:
    stack = Stack("arp")
    stack.eth = eth_parser()
    arp = Connectionless("arp")
    arp.header = arp_hdr
    arp.event.seen = If(arp.header.operation <= 2) >> (
        Assign(arp_seen.operation, arp.header.operation)
        + Assign(arp_seen.sender, arp.header.sender)
        + Callback(arp_seen)
    )
    stack.arp = arp
    stack += (stack.eth >> stack.arp) + Pred(stack.eth.header.type == 0x0806)
    return stack


# --- Figure 2: a selector, a zero-based sequence, a machine with virtual order ------------------------------


class ip_hdr(layout):
    version = Bit(4)
    ihl = Bit(4)
    tos = Bit(8)
    tot_len = UInt(16)
    id = Bit(16)
    blank = Bit(1)
    dont_frag = Bit(1)
    more_frag = Bit(1)
    f1 = Bit(5)
    f2 = Bit(8)
    ttl = Bit(8)
    protocol = Bit(8)
    check = Bit(16)
    saddr = Bit(32)
    daddr = Bit(32)


class ip_temp(layout):
    offset = Bit(16)
    length = Bit(16)


def ip_stack() -> Stack:
    stack = Stack("ip")
    stack.eth = eth_parser()
    ip = Connectionless("ip")
    ip.header = ip_hdr
    ip.selector = [ip.header.saddr, ip.header.daddr]
    ip.temp = ip_temp
    ip.prep = Assign(ip.temp.offset, ((ip.header.f1 << 8) + ip.header.f2) << 3)
    ip.prep += Assign(ip.temp.length, ip.header.tot_len - (ip.header.ihl << 2))
    ip.seq = Sequence(meta=ip.temp.offset, data=ip.payload[: ip.temp.length])
    DUMP = PSMState(start=True, accept=True)
    FRAG = PSMState()
    ip.psm = PSM(DUMP, FRAG)
    whole = (ip.temp.offset == 0) & ((ip.header.dont_frag == 1) | (ip.header.more_frag == 0))
    ip.psm.dump = (DUMP >> DUMP) + Pred(whole)
    ip.psm.frag = (DUMP >> FRAG) + Pred((ip.header.more_frag == 1) | (ip.temp.offset != 0))
    ip.psm.more = (FRAG >> FRAG) + Pred(ip.header.more_frag == 1)
    ip.psm.last = (FRAG >> DUMP) + Pred(ip.v.header.more_frag == 0)
    ip.event.asm = If(ip.psm.dump | ip.psm.last) >> Assemble()
    stack.ip = ip
    stack += (stack.eth >> stack.ip) + Pred(stack.eth.header.type == 0x0800)
    return stack


# --- a connection: two sides, options, a window, a timeout, closing states ----------------------------------


class conn_hdr(layout):
    sport = UInt(16)
    dport = UInt(16)
    seq = UInt(32, serial=True)
    words = Bit(8)
    blank = Bit(5)
    open = Bit(1)
    ack = Bit(1)
    close = Bit(1)


class conn_end(layout):
    end_kind = Bit(8, const=0)


class conn_window(layout):
    window_kind = Bit(8, const=1)
    window_size = UInt(32)


class conn_perm(layout):
    size = Bit(32, init=65536)


def conn_stack() -> Stack:
    stack = Stack("conn")
    stack.eth = eth_parser()
    conn = ConnectionOriented("conn")
    conn.header = conn_hdr
    conn.header += If(conn.header.words > 3) >> AnyUntil(
        [conn_end, conn_window], conn.payload_len != 0, end=conn.header.words << 2
    )
    conn.selector = ([conn.header.sport], [conn.header.dport])
    conn.perm = conn_perm
    conn.prep = If(conn.header_contain(conn_window)) >> Assign(conn.perm.size, conn.header.window_size)
    conn.seq = Sequence(
        meta=conn.header.seq,
        zero_based=False,
        data=conn.payload,
        data_len=conn.payload_len + conn.header.open + conn.header.close,
        window=(conn.header.seq - conn.perm.size, conn.header.seq + conn.perm.size),
        limit=1 << 20,
    )
    NEW = PSMState(start=True)
    OPENING, OPEN, CLOSING = make_psm_state(3)
    OVER = PSMState(accept=True)
    conn.psm = PSM(NEW, OPENING, OPEN, CLOSING, OVER)
    conn.psm.stray = (NEW >> OVER) + Pred(conn.header.open == 0)
    conn.psm.open = (NEW >> OPENING) + Pred(conn.header.open == 1)
    conn.psm.answer = (OPENING >> OPEN) + Pred((conn.to_active == 1) & (conn.header.ack == 1))
    conn.psm.close = (OPEN >> CLOSING) + Pred(conn.v.header.close == 1)
    conn.psm.over = (CLOSING >> OVER) + Pred(conn.v.header.close == 1)
    conn.timeout = 60
    conn.event.asm = If(conn.psm.stray == 0) >> Assemble()
    stack.conn = conn
    stack += (stack.eth >> stack.conn) + Pred(stack.eth.header.type == 0x88B5)
    return stack


STACKS = {"arp": arp_stack, "ip": ip_stack, "conn": conn_stack}
