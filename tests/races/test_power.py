"""Blind power: the default churn finds what it is not told of, and nothing with every fix on."""

from __future__ import annotations

import pytest

from controlplane.gates import CATALOGUE
from controlplane.races import catalogue, power
from controlplane.scenarios.search.exploring import first_seed

EASY = ("28886", "84578", "93044", "96582", "98829", "128748", "134157", "138324")
HIDDEN = ("96071", "127016")


@pytest.mark.slow
@pytest.mark.parametrize("gate", (*EASY, *HIDDEN))
def test_the_easy_ones_are_found_in_a_few_schedules(gate):
    found = power.look_for(gate, 120, strategy="portfolio")
    assert found.verdict == "violated", found.tried


@pytest.mark.slow
def test_nothing_breaks_with_every_fix_in_force():
    found = power.look_for("", 80, strategy="portfolio", seed=7)
    assert found.schedule == 0, found.reason


@pytest.mark.slow
@pytest.mark.parametrize("gate", power.HIDDEN)
def test_what_is_left_holds_with_only_the_hiding_fix_off(gate):
    hidden = power.HIDDEN[gate]
    found = CATALOGUE[gate].component
    plan = power.plan_without(gate, found if found == "kueue" else power.COMPONENT)
    fixed = plan.with_options(fix=power.every_fix(*hidden.by), without_fix=hidden.by)
    seen = power.Campaign(fixed, "portfolio").explore(25)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason
    # The catalogue's own entry hides and shows it in the same way.
    race = catalogue.find(gate)
    for number in hidden.by:
        gates_off = race.unfixed().gates
        assert gates_off.variant(number) is None


@pytest.mark.slow
def test_medians_are_over_all_searches():
    rows = power.measure(("98829",), 40, strategy="portfolio", seeds=3, jobs=1)
    (one,) = rows
    assert len(one.searches) == 3
    assert {each.seed for each in one.searches} == {first_seed(number) for number in range(3)}
    assert one.schedules == sorted(each.schedule for each in one.searches)[1]
    assert one.laws == ("no pod is sent to serve a backoff that is over",)
    told = one.to_json()
    assert (told["found"], told["of"]) == (len(one.found), 3)


def test_a_search_that_finds_nothing_has_no_median():
    (one,) = power.measure(("",), 2, strategy="random-walk", jobs=1)
    assert (one.schedules, one.seconds, one.found) == (None, None, ())


@pytest.mark.slow
def test_processes_find_the_same():
    asked = {"strategy": "random-walk", "seeds": 2}
    assert power.measure(("98829",), 30, jobs=2, **asked) == power.measure(
        ("98829",), 30, jobs=1, **asked
    )


def test_the_strongest_form_of_each_fix_is_one_of_its_forms():
    for gate in CATALOGUE.values():
        assert gate.strongest in gate.variants
