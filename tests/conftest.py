"""Makes pytest put the repository's root on the path, from where tests import `tests.support`; every run of a box
in the suite is held to the conservation law.
"""

from tests.support.conserve import check_every_box

check_every_box()
