"""The client of a store, in C: a separate shared library, which is linked with hiredis."""
