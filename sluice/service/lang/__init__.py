"""The FLICK language: text to checked program.

source.py errors.py     places in the user's file, and messages about mistakes
lexer.py                characters to tokens, with the off-side rule
tree.py                 the nodes that a program consists of
parser/                 tokens to tree
types.py check/         static types and names; text.py prints a tree
bounds.py               the memory of an instance of a process

A module imports only from those above it, and nothing of Sluice outside this folder but the grammar's parser, for units
in a program.
"""
