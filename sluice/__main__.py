"""`python -m sluice` is the command `sluice`."""

import sys

from sluice.cli.start import main

sys.exit(main())
