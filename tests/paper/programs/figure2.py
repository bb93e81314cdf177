from sluice.lang import *
from sluice.protocols.arp import arp_parser
from sluice.protocols.ethernet import ethernet_parser

# Declare IP layer
ip = Connectionless()

# Define the header layout
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

# Build header parser
ip.header = ip_hdr
# Specify instance key
ip.selector = [ip.header.saddr, ip.header.daddr]

# Preprocess the instance using 'temp'
class ip_temp(layout):
    offset = Bit(16)
ip.temp = ip_temp
ip.prep = Assign(ip.temp.offset,
    ((ip.header.f1<<8)+ip.header.f2)<<3)

# Manage the packet sequence
ip.seq = Sequence(meta=ip.temp.offset,
    data=ip.payload[:ip.payload_len])
# Define the PSM transitions shown in Figure 3
DUMP = PSMState(start=True, accept=True)
FRAG = PSMState()
ip.psm = PSM(DUMP, FRAG)
ip.psm.last = (FRAG >> DUMP) + Pred(~ip.header.more_frag)
ip.psm.frag = (DUMP >> FRAG) + Pred(
    (ip.header.more_frag == 1) | (ip.temp.offset != 0)
)
ip.psm.dump = (DUMP >> DUMP) + Pred(
    ((ip.header.dont_frag == 1) & (ip.temp.offset == 0))
    | ((ip.header.more_frag == 0) & (ip.temp.offset == 0))
)
ip.psm.more = (FRAG >> FRAG) + Pred(ip.header.more_frag == 1)

# Buffering event
ip.event.asm = If(ip.psm.last | ip.psm.dump) >> Assemble()
# Callback each IP fragment using 'ipc'
class ipc(layout):
    sip = Bit(32)
    dip = Bit(32)
ip.event.ip_frag = If(~ip.psm.dump) >> \
    Assign(ipc.sip, ip.header.saddr) + \
    Assign(ipc.dip, ip.header.daddr) + \
    Callback(ipc)
ip.event_relation += ip.event.ip_frag, ip.event.asm

ethernet, arp = ethernet_parser(), arp_parser()
st = Stack()
st.eth, st.ip, st.arp = ethernet, ip, arp
st += (st.eth>>st.ip) + Pred(st.eth.header.type==0x0800)
st += (st.eth>>st.arp) + Pred(st.eth.header.type==0x0806)
