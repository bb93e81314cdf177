"""Traffic of real implementations, made while the tests run."""
