"""What tests of whole stacks share: packets, connections, running a stack, and reading what it saw."""
