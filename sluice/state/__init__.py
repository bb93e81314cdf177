"""State outside the box: stores that hold the shared objects of functions (CHC: papers on chains with correct state).

`location.py` reads where a store is; `embedded.py` runs a private server; `peer.py` speaks to a server from Python;
`library.py` makes the server-side functions of `store/`; `client.py` compiles and opens the client in C of `runtime/`;
`session.py` joins them for one run; `rows.py` reads a store's content.

May import: engine, hooks.
"""
