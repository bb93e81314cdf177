from sluice.lang import *
from sluice.protocols.ethernet import ethernet_parser as eth_parser
from sluice.protocols.gtp import gtp_parser
from sluice.protocols.udp import plain_udp_parser as udp_parser
from tests.paper.programs.ip import ip_parser
from tests.paper.programs.tcp import tcp_parser

stack = Stack()
stack.eth = eth_parser()
stack.ip1 = ip_parser()
stack.udp = udp_parser()
stack.gtp = gtp_parser()
stack.ip2 = ip_parser()
stack.tcp = tcp_parser(stack.ip2)

stack += (stack.eth >> stack.ip1) + Pred(1)
stack += (stack.ip1 >> stack.udp) + Pred(
    (stack.ip1.psm.dump | stack.ip1.psm.last) & (stack.ip1.header.protocol == 17)
)
stack += (stack.udp >> stack.gtp) + Pred(1)
stack += (stack.gtp >> stack.ip2) + Pred(stack.gtp.header.MT == 255)
stack += (stack.ip2 >> stack.tcp) + Pred(
    (stack.ip2.psm.dump | stack.ip2.psm.last) & (stack.ip2.header.protocol == 6)
)
