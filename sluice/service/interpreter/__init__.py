"""The semantics of programs: an interpreter for all of the language, with unbounded buffers and without time.

values.py    values, and their operations
world.py     the channels of an instance: bytes that came, bytes that were sent
channels.py  operations of a rule on channels
evaluate.py  expressions, as coroutines that stop where they wait
machine.py   an instance: its rules, in turn, until nothing more can happen
"""
