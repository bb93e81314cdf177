"""Rules of the function `firewall`, in nftables' syntax: reads and checks files, writes its table.

May import: sluice.functions.detect (errors, ranges, writer). The order of reading: tokens -> names -> model ->
values -> statements -> rules -> table.
"""
