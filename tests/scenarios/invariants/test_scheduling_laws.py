"""Each law of the scheduler breaks when what upholds it is taken away, and holds when it is there."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.races import catalogue
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.scheduling import BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED
from controlplane.scenarios.invariants.scheduling_picture import LAWS, picture_holds
from controlplane.scenarios.invariants.scheduling_state import (
    BACKOFF_FITS_FAILURES,
    NO_BACKOFF_IS_SERVED_TWICE,
)
from controlplane.scenarios.invariants.scheduling_steps import STEPS
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scheduler.state.cache import Cache

OTHERS = (BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED, BACKOFF_FITS_FAILURES, NO_BACKOFF_IS_SERVED_TWICE)
INVARIANTS = {
    **{law.name: picture_holds(law) for law in LAWS},
    **{each.name: (each,) for each in (*STEPS, *OTHERS)},
}
UPHELD_BY = {
    "a pod that is gone takes no room": "134157",
    "room is kept for pods that wait": "102498",
    "what is queued is as it was last heard of": "141645",
    "no pod that is gone is in flight": "126962",
    "a pod that waits is in a queue or on its way": "139450",
    "a pod that is bound is tried no longer": "96582",
    "no pod waits before an open gate": "139162",
    "no pod waits before an open gate for ever": "139162",
    "a pod is new to the queue once in each version": "96071",
    "Pop does not sleep beside a pod that may be popped": "139884",
    "no victim is chosen again while its eviction is under way": "134730",
    "room that was made for a pod is kept for it": "72259",
    "bound means PodScheduled=True": "140177",
    "a backoff is as long as its own kind of failures makes it": "128748",
    "no pod is sent to serve a backoff that is over": "98829",
}
"""By the name of a law: the fix without which it breaks in the catalogue's own scenario."""
OPTIONS = {"a pod is requeued once": ("141645", {"part": "backoff"})}
REPAIRED = {"no pod waits before an open gate": {"fix": ("142294",)}}
"""Where another fix than the scenario's own upholds it."""


BREAKS_AT = {
    "a pod that is gone takes no room": 0,
    "room is kept for pods that wait": 7,
    "what is queued is as it was last heard of": 161,
    "no pod that is gone is in flight": 3,
    "a pod that waits is in a queue or on its way": 0,
    "a pod that is bound is tried no longer": 144,
    "no pod waits before an open gate": 7,
    "no pod waits before an open gate for ever": 7,
    "a pod is new to the queue once in each version": 3,
    "Pop does not sleep beside a pod that may be popped": 297,
    "no victim is chosen again while its eviction is under way": 159,
    "room that was made for a pod is kept for it": 35,
    "bound means PodScheduled=True": 3,
    "a backoff is as long as its own kind of failures makes it": 0,
    "no pod is sent to serve a backoff that is over": 0,
}
"""By the name of a law: the first schedule of that scenario in which it breaks; see `tests.races.findings`."""


def explored(name, number, asked, schedules, strategy="random-walk", seed=0):
    race = catalogue.find(number)
    scenario = evolve(race.scenario, invariants=INVARIANTS[name])
    return Campaign(plan_of(scenario, **asked), strategy).explore(schedules, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", UPHELD_BY)
def test_it_breaks_without_the_fix_and_holds_with_it(name):
    number = UPHELD_BY[name]
    race = catalogue.find(number)
    known = BREAKS_AT[name]
    assert known < race.schedules
    seen = explored(name, number, race.unfixed_options, 1, seed=known)
    if not seen.findings:  # it breaks elsewhere now
        seen = explored(name, number, race.unfixed_options, race.schedules)
    assert seen.findings, seen.verdicts
    assert seen.findings[0].result.reason.startswith(name)
    asked = REPAIRED.get(name, race.repaired_options)
    assert list(explored(name, number, asked, 15).verdicts) == ["quiescent"]


@pytest.mark.parametrize("name", OPTIONS)
def test_it_breaks_in_one_part_of_a_scenario(name):
    number, options = OPTIONS[name]
    race = catalogue.find(number)
    seen = explored(name, number, {**race.unfixed_options, **options}, race.schedules)
    assert seen.findings, seen.verdicts
    asked = {**race.repaired_options, **options}
    assert list(explored(name, number, asked, 15).verdicts) == ["quiescent"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("what is bound is counted as it is", "add_pod"),
        ("the cache has the nodes as they are", "update_node"),
    ],
)
def test_it_breaks_when_the_cache_is_not_told(name, method, monkeypatch):
    number = "134157" if method == "add_pod" else "141645"
    assert list(explored(name, number, {}, 5).verdicts) == ["quiescent"]
    monkeypatch.setattr(Cache, method, lambda *_args: None)
    seen = explored(name, number, {}, 30)
    assert seen.findings[0].result.reason.startswith(name)


def test_counting_a_pod_beside_another_breaks_it(monkeypatch):
    name = "no node is overcommitted in the scheduler's picture"
    assert list(explored(name, "72259", {}, 5).verdicts) == ["quiescent"]
    monkeypatch.setattr(Cache, "forget_pod", lambda *_args: None)
    monkeypatch.setattr(Cache, "remove_pod", lambda *_args: None)
    from controlplane.scheduler.plugins.node_resources_fit import NodeResourcesFit

    monkeypatch.setattr(NodeResourcesFit, "filter", lambda *_args: None)
    seen = explored(name, "72259", {}, 5)
    assert seen.findings[0].result.reason.startswith(name)


def test_every_law_is_tried_here():
    elsewhere = {
        "what is bound is counted as it is",
        "the cache has the nodes as they are",
        "no node is overcommitted in the scheduler's picture",
        "an assumed pod is counted once",
    }
    assert set(INVARIANTS) == {*UPHELD_BY, *OPTIONS, *elsewhere}
