"""Invariants of nodes see as much when they ask the node whose step it was as when they ask all."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.scenarios.invariants import nodes
from controlplane.scenarios.invariants.views import stored_pods
from controlplane.scenarios.search.exploring import Campaign
from tests.scenarios.churns.test_kubelet_churn import campaign


def ends(gate: str, faults: bool, seeds: range, always: bool) -> list[tuple[str, str, int, str]]:
    seen = campaign(gate, faults=faults)
    if always:
        laws = tuple(evolve(each, looks_at=None) for each in seen.plan.invariants())
        seen = Campaign(evolve(seen.plan, scenario=evolve(seen.plan.scenario, invariants=laws)))
    runs = [seen.under(seed).result for seed in seeds]
    return [(run.verdict, run.reason, run.steps, run.trace_hash) for run in runs]


@pytest.mark.parametrize(
    ("gate", "faults", "seeds"),
    [
        ("104824", False, range(3, 6)),  # what runs is not remembered
        ("81344", True, range(18, 19)),  # two run on one CPU
        ("126033", True, range(3, 4)),  # one starts with more than it was promised
        ("", True, range(3)),
    ],
)
def test_to_ask_who_took_the_step_when_something_changed_is_to_ask_all_always(
    monkeypatch, gate, faults, seeds
) -> None:
    asked = []
    own = nodes._own
    monkeypatch.setattr(nodes, "_own", lambda run, those: asked.append(run) or own(run, those))
    found = ends(gate, faults, seeds, always=False)
    looked = len(asked)
    monkeypatch.setattr(nodes, "_own", lambda run, those: asked.append(run) or those)
    assert ends(gate, faults, seeds, always=True) == found
    assert 0 < looked < len(asked) - looked
    assert ("violated" in {verdict for verdict, *_ in found}) is bool(gate)


@pytest.mark.parametrize("law", [nodes.statuses_are_their_own, nodes.no_condition_means_done])
def test_what_only_stored_pods_can_break_is_asked_when_one_was_written(law) -> None:
    assert law("node-1").looks_at is stored_pods
