"""How many examples the laws are tried on: fifty (a few hundred in the full matrix), or SLUICE_LAW_EXAMPLES."""

import os

from hypothesis import HealthCheck, settings

from tests.support.budget import examples

EXAMPLES = int(os.environ.get("SLUICE_LAW_EXAMPLES") or examples(300, 50))
# the second for each of the sets of passes that a stack is compiled with
for name, count in (("laws", EXAMPLES), ("laws with fewer passes", max(1, EXAMPLES // 10))):
    settings.register_profile(
        name,
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
