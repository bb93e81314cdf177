"""A service of five functions: a firewall, detection of applications beside marking, signatures, and a log."""

from sluice.chain import Chain, function

firewall = function("firewall.c", port=23)
dpi = function("dpi.c")
mark = function("mark.c", dscp=46)
ids = function("ids.c")
log = function("log.py")

chain = Chain(firewall >> (dpi | mark) >> ids >> log, stack="tcp_ip", name="guard")
