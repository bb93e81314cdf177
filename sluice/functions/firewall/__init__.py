"""Rules of the function `firewall`, in nftables' syntax: reads files, checks them, and writes the table that the function evaluates.

May import: sluice.functions.detect (errors, ranges). The order of reading: tokens -> names -> model -> values -> rules -> table.
"""
