"""When a preemptor is placed whose victim, held in Permit, was stopped in memory (issue 140082)."""

from __future__ import annotations

import pytest

from controlplane.races import catalogue
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.scheduling import events
from controlplane.scenarios.search.exploring import Campaign

SECOND = 1_000_000_000
RACE = catalogue.find("139162")


def placed_at(fixes, seed):
    """In virtual seconds; None: not in thirteen minutes."""
    run = Campaign(plan_of(RACE.scenario, fix=fixes)).under(seed)
    assumed = [e.t_ns for e in events(run, "scheduler.assumed") if e.obj == "Pod/default/high"]
    return assumed[0] // SECOND if assumed else None


@pytest.mark.parametrize(
    ("fixes", "late"),
    [((), {None}), (("142294",), set()), (("139162",), {330})],
    ids=["unfixed", "142294", "139162"],
)
def test_it_may_stay_gated_until_a_flush(fixes, late):
    # Whether the victim's event comes too early is a matter of the schedule.
    times = {placed_at(fixes, seed) for seed in range(8)}
    assert {at for at in times if at is None or at > 60} == late
    assert times - late
