"""Isolated chains: each function in a process of its own, with messages of events in shared memory.

`program` compiles the stack and the functions, `memory` is what processes share (runtime/isolated/memory.h), `host` is
the process of a function, `limits` what it may do. `functions` starts these processes, `changes` replaces them,
`crashes` starts them again, `controller` runs them with the stack's, `commands` is what `sluice chainctl` asks of it.
`partition` divides the traffic of a function among its instances, `instances` has which of them has what, and `sample`
measures the load.
"""
