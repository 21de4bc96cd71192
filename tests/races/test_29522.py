"""Each guard of an operator is enough."""

from __future__ import annotations

import pytest

from controlplane.races import catalogue
from controlplane.races.r29522 import GUARDS
from controlplane.scenarios.search.exploring import Campaign

RACE = catalogue.find("29522")


@pytest.mark.slow
@pytest.mark.parametrize("guard", GUARDS)
def test_an_operator_that_reads_its_past_deletes_the_living_unless_guarded(guard):
    found = Campaign(RACE.unfixed(guard=guard)).explore(RACE.schedules)
    assert bool(found.findings) is (guard == "nothing")
