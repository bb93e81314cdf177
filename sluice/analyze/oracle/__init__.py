"""Checks the classes of variables as a program runs: the tool instruments the program, `run_time.c` compares memory.

`check.py` builds and runs it. This folder may import `toolchain`, `run` and `errors` of `sluice.analyze`.
"""
