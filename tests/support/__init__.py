"""Shared code for tests of whole stacks: packets, connections, running a stack, and reading its results."""
