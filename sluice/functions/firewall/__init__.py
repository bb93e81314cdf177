"""Rules of the function `firewall` in the syntax of nftables: reads and checks files, and writes its table.

May import: sluice.functions.detect (errors, ranges, writer).
The order of reading: tokens -> names -> model -> values -> statements -> rules -> table.
"""
