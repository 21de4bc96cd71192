"""Trials: a search under a mutant finds what it breaks, and only workloads that come to its place are searched."""

from __future__ import annotations

import pytest

from controlplane.races.mutants.population import (
    COMPONENTS,
    Workload,
    population,
    workloads_of,
)
from controlplane.races.mutants.running import carry_out, reach, workloads_for

FORGOTTEN = "controlplane.scheduler.queue.backoff_queue:BackoffQueue.add:notification-forgotten:0"


def mutant(name: str):
    (found,) = [each for each in population("scheduler") if each.name == name]
    return found


@pytest.mark.slow
def test_a_forgotten_notification_is_found_by_an_invariant() -> None:
    heard = []
    reached = {"scheduler": {FORGOTTEN: 7}}
    asked = [("scheduler", mutant(FORGOTTEN))]
    (found,) = carry_out(asked, reached, schedules=120, seconds=60, heard=heard.append)
    assert heard == [found]
    assert (found.result.outcome, found.result.workload) == ("found", "scheduler"), found.result
    assert "a pod that waits is in a queue" in found.result.oracle


@pytest.mark.slow
def test_a_place_that_no_workload_comes_to_is_not_searched() -> None:
    (found,) = carry_out([("scheduler", mutant(FORGOTTEN))], {}, schedules=5, seconds=60)
    assert (found.result.outcome, found.result.schedules) == ("not-reached", 0)


@pytest.mark.slow
def test_a_run_without_a_mistake_counts_the_places_that_it_comes_to() -> None:
    reached = reach(("storage",), seconds=2, jobs=2)
    assert list(reached) == [each.name for each in workloads_of("storage")]
    names = {each.name for each in population("storage")}
    assert any(reached.values())
    assert all(names.issuperset(counts) for counts in reached.values())


@pytest.mark.slow
def test_a_mutant_is_searched_under_the_workloads_that_come_to_it_most_often() -> None:
    reached = {
        "scheduler": {FORGOTTEN: 3},
        "dra": {FORGOTTEN: 5},
        "gang": {},
        "numa": {FORGOTTEN: 1},
        "capacity": {FORGOTTEN: 4},
    }
    found = workloads_for("scheduler", mutant(FORGOTTEN), reached)
    assert found == ["dra", "capacity", "scheduler"]


def test_a_churn_with_parts_is_a_workload_for_each() -> None:
    found = workloads_of("controllers")
    assert Workload("controller", "part", "budgets") in found
    assert [each for each in found if Workload.named(each.name) != each] == []
    plan = Workload.named("controller part=budgets").plan()
    assert plan["part"] == "budgets"


def test_nothing_is_begun_once_it_is_over() -> None:
    mutants = [("client", each) for each in population("client")[:2]]
    assert carry_out(mutants, {}, schedules=1, seconds=1, over=lambda: True) == []


def test_each_component_names_churns_that_exist() -> None:
    from importlib.util import find_spec

    for component in COMPONENTS.values():
        for churn in component.churns:
            assert find_spec(f"controlplane.scenarios.churns.{churn}_churn")
