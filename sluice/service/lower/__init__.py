"""A checked program to C.

values.py       the C types of values
streams.py      which rules can forward a message before it is there as a whole
forwarding.py   which messages of a body that receives and sends in turn can
named.py        which fields of a record are read
writer.py       a rule's text: its variables, its blocks, where it waits
expressions.py  expressions
channels.py     receive, send, pipelines
program.py      rules, frames, the tables that the platform reads

Functions are inlined: they are not recursive, and those that wait do so within the rule that calls them. A module imports
only from those above it.
"""
