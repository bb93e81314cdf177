"""Ready services: programs in FLICK that `sluice serve NAME` finds, each with its grammar in its first line."""
