"""The small form of each seed race: all its schedules, one run for each causal trace.

How many there are is told in `docs/explanation/small-forms.md`; that changes whenever a point or an access does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors import EventLog
from actors.footprint import Footprint
from actors.sharing import CHECK_FOOTPRINTS, Budget
from actors.strategies.dpor import Dpor
from actors.strategies.random_walk import RandomWalk
from controlplane.races import catalogue
from controlplane.scenarios.engine.execution import Execution

if TYPE_CHECKING:
    from actors import RunResult, Strategy
    from controlplane.scenarios.engine.plan import Plan


def plan_of(number: str, *, fixed: bool) -> Plan:
    race = catalogue.find(number)
    return race.repaired(small=True) if fixed else race.unfixed(small=True)


def run(plan: Plan, strategy: Strategy) -> RunResult:
    log = None if plan.scenario.reads_log else EventLog(keep=False)
    return Execution(plan, strategy, log=log).execute("bare")


def exhausted(plan: Plan) -> tuple[dict[str, int], set[str]]:
    """How many runs ended how, and the causal classes of them."""
    strategy = Dpor()
    verdicts: dict[str, int] = {}
    classes: set[str] = set()
    while not strategy.exhausted:
        result = run(plan, strategy)
        if not strategy.repeated:
            assert result.causal_class not in classes
            classes.add(result.causal_class)
            verdicts[result.verdict] = verdicts.get(result.verdict, 0) + 1
    return verdicts, classes


SMALL = ("49992", "93044")
LARGE = ("138324", "141255")


def check(number: str) -> None:
    """With the fix each schedule, to the last, ends well."""
    assert set(exhausted(plan_of(number, fixed=True))[0]) == {"quiescent"}


@pytest.mark.slow
@pytest.mark.parametrize("number", SMALL)
def test_all_schedules_of_a_small_form_are_run_and_the_fix_holds_in_each(number: str) -> None:
    assert exhausted(plan_of(number, fixed=False))[0]["violated"]
    check(number)


@pytest.mark.nightly
@pytest.mark.parametrize("number", LARGE)
def test_all_schedules_of_a_larger_small_form(number: str) -> None:
    """Without the fix the search goes on until one breaks, not to the last of 6,000."""
    plan, strategy = plan_of(number, fixed=False), Dpor()
    while run(plan, strategy).ok:
        assert not strategy.exhausted
    check(number)


def test_the_window_of_93044_is_one_schedule_of_four() -> None:
    verdicts, _ = exhausted(plan_of("93044", fixed=False))
    assert verdicts == {"quiescent": 3, "violated": 1}


class _Noting(RandomWalk):
    def begin(self) -> None:
        super().begin()
        self.footprint = Footprint()


@pytest.mark.slow
@pytest.mark.parametrize("number", ["49992", "93044"])
def test_whatever_a_random_walk_does_was_among_them(number: str) -> None:
    """No step touches more than the search believed: else walks would meet traces that it took for known."""
    plan = plan_of(number, fixed=False)
    _, classes = exhausted(plan)
    walked = {run(plan, _Noting(seed)).causal_class for seed in range(300)}
    assert walked <= classes


def test_random_walks_meet_only_declared_accesses() -> None:
    """The scheduler's steps, over schedules of its own races, under the check of what they touch."""
    token = CHECK_FOOTPRINTS.set(Budget(10**6))
    try:
        for number in ("138324", "141645", "19858", "37725"):
            plan = catalogue.find(number).repaired()
            for seed in range(3):
                result = run(plan, RandomWalk(seed))
                assert result.verdict != "violated", (number, seed, result.reason)
    finally:
        CHECK_FOOTPRINTS.reset(token)
