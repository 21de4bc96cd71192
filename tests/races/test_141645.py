"""The second window: an update after a failed binding goes round the backoff."""

from __future__ import annotations

import pytest

from controlplane.races import catalogue
from controlplane.scenarios.search.exploring import Campaign

RACE = catalogue.find("141645")


@pytest.mark.slow
def test_an_update_goes_round_the_backoff_without_the_fix_only():
    found = Campaign(RACE.unfixed(part="backoff")).explore(RACE.schedules)
    assert "already present" in found.findings[0].result.reason
    fixed = Campaign(RACE.repaired(part="backoff")).explore(RACE.schedules)
    assert list(fixed.verdicts) == ["quiescent"]
