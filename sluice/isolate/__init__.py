"""Isolation: the CPU time that the kernel spends on packets, charged to the container that the packets are for.

BPF programs (`bpf/`) divide the time of every CPU among containers. `build` compiles them once per version, `libbpf`
and `accounting` load and read them. `cgroups` and `containers` find containers; `interrupts` measures what an interrupt
costs that no probe sees; `support` reports what the kernel cannot do. `session` puts them together, for programs as
for `sluice isolate`; `table` prints.

Enforcement: `ledger` is its arithmetic. `quota` writes limits, `gates` drop packets at `interfaces` of a container,
`nic` at those of the host, both on older kernels by `classic`; `polling` lets threads of the kernel poll. `enforced`
decides for one container, `enforcer` for all; `restore` restores limits when that is killed; `enforcement_table`
prints. `recorded` reports a recording, `unit` is the service of systemd. The component imports the cache folder and
capabilities of `sluice.engine` only.
"""
