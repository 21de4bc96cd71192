"""The default churn: it does all it can do, holds with every fix, and finds races that it is not told of."""

from __future__ import annotations

from collections import Counter

import pytest

from controlplane.races.power import every_fix, gates, look_for
from controlplane.scenarios.churns.scheduler_churn import DRAWN, FEATURES, SCENARIO
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign


@pytest.mark.slow
def test_with_every_fix_on_nothing_breaks():
    seen = look_for("", 60, strategy="random-walk")
    assert seen.schedule == 0, seen.reason


@pytest.mark.parametrize(
    ("first", "schedules"),
    [
        pytest.param(60, 90, marks=pytest.mark.slow),
        pytest.param(0, 600, marks=pytest.mark.nightly),
    ],
)
def test_with_every_fix_on_nothing_breaks_for_long(first, schedules):
    seen = look_for("", schedules, seed=first, strategy="random-walk")
    assert seen.schedule == 0, seen.reason


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["28886", "138324", "126962"])
def test_search_finds_what_it_was_not_told_of(gate):
    assert gate in gates()
    seen = look_for(gate, 300, strategy="random-walk")
    assert seen.verdict == "violated", seen.tried


@pytest.mark.slow
def test_it_does_all_that_it_can_do_and_leaves_objects_behind():
    campaign = Campaign(plan_of(SCENARIO, operations=40, fix=every_fix()))
    done, left = Counter(), 0
    for seed in range(12):
        run = campaign.under(seed)
        assert run.result.ok, run.result.reason
        done.update(run.notes[DRAWN])
        done.update(e.data["fault"] for e in run.world.log if e.event == "fault")
        done.update(e.data["verb"] for e in run.world.log if e.event == "apiserver.write")
        left += len(run.objects("/registry/pods/"))
    for expected in (
        *FEATURES,
        *("break", "cut", "heal", "crash", "restart", "lose", "intercept"),
        *(
            "create pods",
            "delete pods",
            "patch pods",
            "patch nodes",
            "delete nodes",
            "create nodes",
        ),
        *("create pods/binding", "patch pods/status"),
    ):
        assert done[expected], expected
    assert left
