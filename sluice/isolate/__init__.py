"""Isolation: the CPU time that the kernel spends on packets, charged to the container that the packets are for.

BPF programs (`bpf/`) divide the time of every CPU among containers. `build` compiles them once per version, `libbpf`
and `accounting` load and read them. `cgroups` and `containers` find containers; `interrupts` measures what an interrupt
costs that no probe sees; `support` reports what the kernel cannot do. `session` puts them together, for programs as
for `sluice isolate`; `table` prints.

Enforcement: `ledger` is its arithmetic. `quota` writes limits, `gates` drop packets at `interfaces`, `enforced` decides
for one container, `enforcer` for all; `restore` restores limits when that is killed; `enforcement_table` prints. The
component imports the cache folder of `sluice.engine`, nothing else.
"""
