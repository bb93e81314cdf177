"""What the tests of chains share."""

from tests.chain.functions import put as put
