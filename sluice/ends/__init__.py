"""The ends of TCP: connections that end in the box, by the kernel's TCP, in a network namespace after a chain.

`space` makes the namespace and the routes for connections to foreign addresses, and removes them; `run`
runs programs in it, of which one is ours: a proxy of byte streams (`proxy.c`), which `build` compiles. May import:
engine, for the compiler and the cache of programs. Connections that are joined without an end are those of the ready
function `splice`.
"""
