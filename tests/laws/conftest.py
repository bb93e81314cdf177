"""How many examples the laws are tried on: a few hundred, or SLUICE_LAW_EXAMPLES of them."""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("SLUICE_LAW_EXAMPLES", "300"))
# the second for each of the sets of passes that a stack is compiled with
for name, examples in (("laws", EXAMPLES), ("laws with fewer passes", max(1, EXAMPLES // 10))):
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
