"""Checks the classes of variables as a program runs: the tool instruments the program, `run_time.c` compares memory.

`check.py` builds and runs it; `bits.py` builds programs that check the bytes of updated variables instead. This folder
may import `toolchain`, `run`, `errors` and `state` of `sluice.analyze`.
"""
