"""Tests of state outside the box: with a real server on a Unix socket, and with peers that misbehave."""
