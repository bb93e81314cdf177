"""Tests of the security functions: ratelimit, synflood, fakereset, anonymise, assets."""
