"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# The same examples every time: a test that fails on one run in ten is no test. To look for new ones:
# pytest --hypothesis-profile=random
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("fixed")
