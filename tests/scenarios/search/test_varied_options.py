"""Options that are left to the search: each piece has another value, and a finding has its own."""

from __future__ import annotations

import pytest

from actors import EventLog
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import config_map
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.option import ANY, Option
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.findings import finding_of, try_again
from controlplane.scenarios.search.parallel import VARIED_BATCH, Limits, _Pieces, explore
from controlplane.scenarios.search.shrinking import shorten

PART = Option("part", choices=("one", "two", "three"), varied=True)
SIZE = Option("size", choices=("small", "large"), varied=True)


async def _create(user) -> None:
    await user.create(config_map(user.options["part"]))


def _third(run) -> str | None:
    names = [each.name for each in run.objects("/registry/configmaps/")]
    return "the third was made" if "three" in names else None


SCENARIO = Scenario(
    "varied",
    workload=_create,
    invariants=(Invariant("the third is not made", _third),),
    options=(PART, SIZE),
    defaults={"nodes": 0},
)


def test_an_option_that_is_left_to_the_search_has_all_values_in_turn() -> None:
    plan = plan_of(SCENARIO)
    assert (plan["part"], PART.values) == (ANY, (ANY, "one", "two", "three"))
    assert len(plan.variants()) == 6
    pieces = _Pieces(plan, "random-walk", 0, 0, 1000, True, 0)
    settings = [pieces.piece(number).settings for number in range(12)]
    assert settings[:6] == settings[6:] == list(plan.variants())
    assert pieces.piece(6).seed == VARIED_BATCH


def test_a_value_that_is_asked_for_is_not_varied() -> None:
    plan = plan_of(SCENARIO, part="two")
    assert [dict(each) for each in plan.variants()] == [{"size": "small"}, {"size": "large"}]


def test_a_single_run_takes_the_first_value_and_its_recording_names_it() -> None:
    run = Execution(plan_of(SCENARIO), log=EventLog(keep=False))
    assert run.execute("bare").ok
    assert run.recording().header["options"]["part"] == "one"


@pytest.mark.slow
def test_a_finding_knows_its_values_is_made_short_and_tried_again_under_them() -> None:
    plan = plan_of(SCENARIO)
    tally = explore(plan, "random-walk", Limits(VARIED_BATCH * 6), jobs=1)
    (failing,) = tally.failing
    assert dict(failing.settings)["part"] == "three"
    short = shorten(failing.plan(plan), failing.choices, runs=4)
    assert short.recording().header["options"]["part"] == "three"
    finding = finding_of(short)
    assert finding.belongs_to(plan)
    assert try_again(plan, finding).breaks
    assert not finding.belongs_to(plan_of(SCENARIO, part="one"))
