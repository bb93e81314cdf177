"""The tests, folder by folder as in sluice/. Shared helpers are in tests/support."""
