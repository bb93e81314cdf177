"""Makes pytest put the repository's root on the path, from where tests import `tests.support`."""
