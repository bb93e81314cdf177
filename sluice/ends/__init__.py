"""The ends of TCP: connections that end in the box, by the kernel's TCP, in a network namespace after a chain.

`space` makes the namespace and the routes by which it takes connections to foreign addresses, and removes them; `proxy`
compiles and runs the proxy of byte streams in it (`proxy.c`). It imports `sluice.engine`, for the compiler and the cache
of programs. Connections that are joined without an end are those of the ready function `splice`.
"""
