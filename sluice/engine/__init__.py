"""The Python side of a running box: compile cache, load, run, workers, callbacks, counters.

May import: codegen, passes, ir, lang. The C of `runtime` is found as files, not imported.
"""
