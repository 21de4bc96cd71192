"""`python -m tests.chaos.fuzz`."""

import sys

from tests.chaos.fuzz.campaign import main

sys.exit(main())
