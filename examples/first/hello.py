"""A protocol of our own, its stack, and a function on its event: weather stations that report over UDP."""

from sluice.functions import on
from sluice.lang import Assign, Bit, Callback, Connectionless, If, Pred, Stack, UInt, layout
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.udp import udp_parser


class hello_hdr(layout):  # what a station sends
    version = Bit(4)
    kind = Bit(4)
    station = UInt(16)
    celsius = UInt(16)


class hello_memory(layout):  # what the box remembers of each station
    highest = UInt(16)


class record(layout):  # what the function below is told
    station = UInt(16)
    celsius = UInt(16)


def hello_parser():
    hello = Connectionless()
    hello.header = hello_hdr
    hello.require(hello.header.version == 1, "version")
    hello.selector = [hello.header.station]
    hello.perm = hello_memory
    hello.event.record = If(hello.header.celsius > hello.perm.highest) >> (
        Assign(hello.perm.highest, hello.header.celsius)
        + Assign(record.station, hello.header.station)
        + Assign(record.celsius, hello.header.celsius)
        + Callback(record)
    )
    return hello


stack = Stack("hello")
stack.eth = ethernet_parser()
stack.ip = ipv4_parser()
stack.udp = udp_parser()
stack.hello = hello_parser()
stack += (stack.eth >> stack.ip) + Pred(stack.eth.header.type == 0x0800)
stack += (stack.ip >> stack.udp) + Pred(stack.ip.header.protocol == 17)
stack += (stack.udp >> stack.hello) + Pred(stack.udp.header.dport == 4747)


@on("hello", "record")
def print_record(event):
    print(f"packet {event.packet}: station {event.station} has its highest so far, {event.celsius} degrees")
