"""The C that compiled stacks use: packet, table, sequence, timer, pool, stats; io/: capture files, devices.

There is no Python here and nothing of Sluice may be imported; the C reaches only down to the system.
"""
