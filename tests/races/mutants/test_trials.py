"""Trials: a search under a mutant finds what it breaks, and says when the workload never came to the place."""

from __future__ import annotations

import pytest

from controlplane.races.mutants.population import COMPONENTS, population
from controlplane.races.mutants.running import carry_out

FORGOTTEN = "controlplane.scheduler.queue.backoff_queue:BackoffQueue.add:notification-forgotten:0"
UNUSED = "controlplane.scheduler.plugins.volume_binder:VolumeBinder.writes:guard-dropped:0"


def trial(name: str, schedules: int = 120):
    (mutant,) = [each for each in population("scheduler") if each.name == name]
    heard = []
    (found,) = carry_out(
        [("scheduler", mutant)], schedules=schedules, seconds=60, heard=heard.append
    )
    assert heard == [found]
    return found.result


@pytest.mark.slow
def test_a_forgotten_notification_is_found_by_an_invariant() -> None:
    result = trial(FORGOTTEN)
    assert result.outcome == "found", result
    assert "a pod that waits is in a queue" in result.oracle


@pytest.mark.slow
def test_a_place_that_the_workload_does_not_reach_is_told_apart() -> None:
    result = trial(UNUSED, schedules=5)
    assert (result.outcome, result.schedules) == ("not-reached", 5)


def test_nothing_is_begun_once_it_is_over() -> None:
    mutants = [("client", each) for each in population("client")[:2]]
    assert carry_out(mutants, schedules=1, seconds=1, over=lambda: True) == []


def test_each_component_names_churns_that_exist() -> None:
    from importlib.util import find_spec

    for component in COMPONENTS.values():
        for churn in component.churns:
            assert find_spec(f"controlplane.scenarios.churns.{churn}_churn")
