"""What expectations are for: with one server, a controller that does not wait for its own writes makes pods twice."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.client.expectations import Expectations
from controlplane.cluster import ClusterConfig
from controlplane.races.r19858 import SCENARIO, no_surplus
from controlplane.scenarios import Invariant
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

ONE_SERVER = evolve(
    SCENARIO,
    build=lambda _setting: ClusterConfig(nodes=(), kubelets=False, heartbeats=False),
    faults=(),
    invariants=(Invariant("no surplus pods", no_surplus, ("apiserver",)),),
)


def found():
    return Campaign(plan_of(ONE_SERVER)).explore(60).findings


def test_without_expectations_a_controller_acts_again_on_a_cache_without_its_own_writes(
    monkeypatch,
):
    monkeypatch.setattr(Expectations, "satisfied", lambda *_: True)
    assert "pods for 3 replicas" in found()[0].result.reason


@pytest.mark.slow
def test_with_expectations_it_waits_for_what_it_asked_for():
    assert not found()
