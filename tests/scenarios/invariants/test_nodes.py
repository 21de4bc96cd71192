"""Invariants of nodes see as much when they ask the node whose step it was as when they ask all."""

from __future__ import annotations

import pytest

from controlplane.scenarios.invariants import nodes
from tests.scenarios.test_kubelet_churn import campaign


def ends(gate: str, faults: bool, seeds: range) -> list[tuple[str, str, int, str]]:
    seen = campaign(gate, faults=faults)
    runs = [seen.under(seed).result for seed in seeds]
    return [(run.verdict, run.reason, run.steps, run.trace_hash) for run in runs]


@pytest.mark.parametrize(
    ("gate", "faults", "seeds"),
    [
        ("104824", False, range(3, 6)),  # what runs is not remembered
        ("81344", True, range(18, 19)),  # two run on one CPU
        ("", True, range(3)),
    ],
)
def test_to_ask_who_took_the_step_is_to_ask_all(monkeypatch, gate, faults, seeds) -> None:
    asked = []
    own = nodes._own
    monkeypatch.setattr(nodes, "_own", lambda run, those: asked.append(run) or own(run, those))
    found = ends(gate, faults, seeds)
    assert asked
    monkeypatch.setattr(nodes, "_own", lambda _run, those: those)
    monkeypatch.setattr(nodes, "_unmoved", lambda *_: False)
    assert ends(gate, faults, seeds) == found
    assert ("violated" in {verdict for verdict, *_ in found}) is bool(gate)


class _Cluster:
    """A store whose pods were written in some revision."""

    def __init__(self) -> None:
        self.cluster = self
        self.store = self
        self.latest = 1
        self.notes: dict[str, int] = {}

    def keyspace(self, _prefix: str) -> _Cluster:
        return self


def test_what_only_stored_pods_can_break_is_asked_again_once_one_is_written() -> None:
    answers = [None, "broken", "broken still"]
    check = nodes._of_pods("law", lambda _run: answers.pop(0)).check
    run = _Cluster()
    assert [check(run), check(run)] == [None, None]  # type: ignore[arg-type]
    run.latest = 2
    assert [check(run), check(run)] == ["broken", "broken still"]  # type: ignore[arg-type]
