"""Storage under exploration: nothing is left over, and a group is one point in time if the driver cuts it so."""

from __future__ import annotations

import pytest

from controlplane.scenarios.exploring import Campaign
from controlplane.scenarios.loading import from_module
from controlplane.scenarios.plan import plan_of

SCENARIO = from_module("controlplane.scenarios.storage_churn")
SCHEDULES = 10


def explored(schedules=SCHEDULES, **options):
    return Campaign(plan_of(SCENARIO, **options)).explore(schedules)


@pytest.mark.parametrize("fault", ["none", "driver", "sidecar", "controller"])
@pytest.mark.parametrize("part", ["create", "group", "restore", "consistency"])
def test_in_the_end_nothing_is_left_over(part, fault):
    seen = explored(part=part, fault=fault)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.parametrize("cut", ["sequential", "series"])
def test_volumes_that_are_cut_one_after_the_other_are_no_point_in_time(cut):
    seen = explored(part="consistency", fault="none", cut=cut)
    assert seen.findings[0].result.reason.startswith("a group is one point in time")
