"""Real captures, and the tests that hold what the stacks see in them against an independent truth."""
