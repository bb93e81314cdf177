"""Message grammars: the form of messages on the wire.

tree.py parser.py   the text of a grammar
plan.py             a grammar that is checked: steps over the bytes, and how lengths depend on fields
codec.py            the semantics of grammars, in Python: parse, and serialise
lower.py            the C that parses, for the fields that a program names
serialise.py        the C that serialises
annotated.py        the unit of a record whose fields have annotations
ready.py            the grammars that come with Sluice

A module imports only from those above it, and places and errors of lang.
"""
