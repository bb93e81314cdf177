"""libsluice_mos: mOS's monitoring sockets over a compiled stack. docs/mos.md describes each call."""
