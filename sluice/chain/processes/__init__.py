"""Isolated chains: each function in a process of its own, with messages of events in shared memory.

`program` compiles the stack and the functions, `memory` is what processes share (runtime/isolated/memory.h), `host` is
the process of a function, `limits` what it may do, `controller` starts and restarts processes, `commands` is what
`sluice chainctl` asks of it.
"""
