"""The client of a store, in C: a shared library of its own, which is linked with hiredis."""
