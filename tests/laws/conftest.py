"""How many examples the laws are tried on: a few hundred, or SLUICE_LAW_EXAMPLES of them."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "laws",
    max_examples=int(os.environ.get("SLUICE_LAW_EXAMPLES", "300")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
