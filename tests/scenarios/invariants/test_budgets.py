"""The invariant of evictions: it breaks when an eviction takes a pod that a budget needs, and holds otherwise."""

from __future__ import annotations

import pytest

from controlplane.api.object import Object
from controlplane.scenarios.invariants.budgets import evictions_keep_to_budgets
from tests.scenarios.invariants.stored import StoredRun, made, said

EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
READY = {"type": "Ready", "status": "True"}


def pod(name: str, *conditions: dict[str, str], going: bool = False) -> Object:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    status = {"conditions": [*conditions]}
    return made("Pod", name, status=status, labels={"app": "web"}, **metadata)


@pytest.mark.parametrize(
    ("least", "second", "told"),
    [
        (1, pod("b", READY), None),
        (1, pod("b"), "default/a was evicted, and budget default/web has 0 ready pods of 1"),
        (2, pod("b", READY), "default/a was evicted, and budget default/web has 1 ready pods of 2"),
        ("50%", pod("b"), None),
    ],
)
def test_an_eviction_that_a_budget_forbids_is_found(least, second, told) -> None:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}
    budget, run = made("PodDisruptionBudget", "web", spec), StoredRun()
    law = evictions_keep_to_budgets("etcd")
    assert said(law, budget, pod("a", READY), second, run=run) is None
    going = pod("a", READY, EVICTED, going=True)
    assert said(law, budget, going, second, run=run) == told
    assert said(law, budget, going, second, run=run) is None


def test_a_pod_that_was_not_ready_or_is_deleted_otherwise_is_not_counted() -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budget = made("PodDisruptionBudget", "web", spec)
    for before, after in (
        (pod("a"), pod("a", EVICTED, going=True)),
        (pod("a", READY), pod("a", READY, going=True)),
    ):
        law, run = evictions_keep_to_budgets("etcd"), StoredRun()
        assert said(law, budget, before, run=run) is None
        assert said(law, budget, after, run=run) is None
