"""`python -m sluice` is the command `sluice`."""

import sys

from sluice.cli.main import main

sys.exit(main())
