"""Isolated chains: each function in a separate process, with messages of events in shared memory.

`program` compiles the stack and the functions, `memory` is the shared memory (runtime/isolated/memory.h), `host` is
the process of a function, `limits` its permissions, `controller` starts and restarts processes, `commands` is what
`sluice chainctl` asks of it. `partition` divides the traffic of a
function among its instances, `instances` has which of them has what, and `sample` measures the load.
"""
