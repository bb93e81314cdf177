"""State outside the box: stores that hold the shared objects of functions (CHC: papers on chains with correct state).

`location.py` reads where a store is; `embedded.py` runs a private server; `peer.py` connects to a server from Python;
`library.py` makes the server-side functions of `store/`; `client.py` compiles and opens the client in C of `runtime/`;
`session.py` joins them for one run, `chain_store.py` for a chain with several instances of functions, `logs.py` and
`recovery.py` recover the store of such a chain; `rows.py` reads a store's content; `equivalence.py` compares a chain
with the ideal one.

May import: chain, engine, hooks.
"""
