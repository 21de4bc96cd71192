"""The queues between reflector and store, of three generations: with the fixes none keeps or loses anything."""

from __future__ import annotations

import pytest

from controlplane.races import catalogue
from controlplane.scenarios.churns.forgetful_server import QUEUES
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

SCENARIO = catalogue.find("115620").scenario
SAYS = {"115620": "still has", "83911": "lacks", "86015": "no handler was notified"}


@pytest.mark.slow
@pytest.mark.parametrize("queue", QUEUES)
def test_with_the_fixes_no_queue_keeps_or_loses_anything(queue):
    assert not Campaign(plan_of(SCENARIO, queue=queue)).explore(600).findings


@pytest.mark.parametrize("number", SAYS)
def test_each_bug_shows_in_its_own_way(number):
    race = catalogue.find(number)
    found = Campaign(race.unfixed()).explore(race.schedules).findings
    assert SAYS[number] in found[0].result.reason
