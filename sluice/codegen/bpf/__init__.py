"""Programs of the kernel (eBPF): the choice of a packet's worker."""
