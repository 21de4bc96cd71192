"""The default churn for controllers: clean with every fix on, and it finds bugs that nobody told it of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from controlplane.api.object import Object
from controlplane.client.expectations import CountedExpectations
from controlplane.controllers.common.consistency import ConsistencyStore
from controlplane.kubelet.pod.container_runtime import Container, Program, Sandbox
from controlplane.scenarios.churns.controller_churn import FAULTS, PARTS
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.workloads import (
    no_orphans,
    one_active_pod_an_index,
    one_daemon_a_node,
    one_life_of_an_ordinal,
)
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign

CHURN = loading.from_module(loading.NAMED["controller-churn"])
ALL_FIXED = ("26120", "72155", "140177")
"""The gates of the races that upstream still has and that these workloads reach."""


def campaign(part: str, fix: tuple[str, ...] = ALL_FIXED, **asked) -> Campaign:
    return Campaign(plan_of(CHURN, part=part, fix=fix, **asked))


def parts(often: int) -> list[Any]:
    """The parts, every other one in CI and the others nightly: the even ones or the odd ones."""
    marks = [
        pytest.mark.slow if at % 2 == often else pytest.mark.nightly for at in range(len(PARTS))
    ]
    return [pytest.param(part, marks=mark) for part, mark in zip(PARTS, marks, strict=True)]


@pytest.mark.parametrize("part", parts(0))
def test_with_every_fix_on_nothing_breaks(part) -> None:
    seen = campaign(part).explore(2)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.parametrize("part", parts(1))
def test_whatever_fails_nothing_breaks(part) -> None:
    seen = campaign(part, fault="any").explore(6)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("part", PARTS)
def test_whatever_fails_in_one_way_nothing_breaks(part, fault) -> None:
    seen = campaign(part, fault=fault).explore(16)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.slow
def test_search_finds_that_caches_of_different_kinds_have_no_order() -> None:
    seen = campaign("garbage", fix=()).explore(40, seed=60)
    assert seen.findings, f"nothing broke in {seen.schedules} schedules"
    assert "Pod default/three" in seen.findings[0].result.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "reason"),
    [("jobs", "both active for index"), ("daemons", "acts for default/agent again")],
)
def test_a_controller_that_does_not_wait_for_its_own_writes_is_found(
    part, reason, monkeypatch
) -> None:
    monkeypatch.setattr(CountedExpectations, "satisfied", lambda *_: True)
    monkeypatch.setattr(ConsistencyStore, "ensure_ready", lambda *_: None)
    seen = campaign(part).explore(20)
    assert seen.findings, f"nothing broke in {seen.schedules} schedules"
    assert reason in seen.findings[0].result.reason


class _Run:
    """A world that has come to rest, with these objects under one prefix."""

    def __init__(self, *objects: Object) -> None:
        self._objects = objects
        self.cluster = self
        self.store = self
        self.notes: dict[str, Any] = {}
        self.machines: dict[str, Any] = {}
        self.incarnation = self.latest = 1

    def keyspace(self, _prefix: str) -> _Run:
        return self

    def prefixes(self) -> tuple[str, ...]:
        return ("/registry/pods/",)

    def objects(self, _prefix: str) -> list[Object]:
        return list(self._objects)


def _pod(name: str, kind: str, *, phase: str = "Running", **metadata) -> Object:
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    named = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner]}
    status = {"phase": phase}
    spec = {"containers": [], "nodeName": "node-1"}
    return Object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**named, **metadata},
            "spec": spec,
            "status": status,
        }
    )


def test_an_object_whose_controller_is_gone_is_an_orphan() -> None:
    said = no_orphans().check(_Run(_pod("a", "Job")))  # type: ignore[arg-type]
    assert said == "Pod default/a is left over of a Job that is gone"


def test_two_active_pods_of_an_index_are_one_too_many() -> None:
    index = {"annotations": {"batch.kubernetes.io/job-completion-index": "0"}}
    check = one_active_pod_an_index("etcd").check
    both = _pod("a", "Job", **index), _pod("b", "Job", **index)
    assert check(_Run(*both)) == "default/a and default/b are both active for index 0"  # type: ignore[arg-type]
    ended = _pod("a", "Job", phase="Failed", **index), both[1]
    assert check(_Run(*ended)) is None  # type: ignore[arg-type]


def test_two_daemons_of_a_node_are_one_too_many() -> None:
    check = one_daemon_a_node("etcd").check
    both = _pod("a", "DaemonSet"), _pod("b", "DaemonSet")
    assert check(_Run(*both)) == "default/a and default/b are both there for node-1"  # type: ignore[arg-type]
    going = _pod("a", "DaemonSet", deletionTimestamp="2026-01-01T00:00:00Z"), both[1]
    assert check(_Run(*going)) is None  # type: ignore[arg-type]


def test_two_lives_of_an_ordinal_that_run_at_once_are_one_too_many() -> None:
    check = one_life_of_an_ordinal("node-1", "node-2").check
    run = _Run(_pod("web-0", "StatefulSet", uid="first"), _pod("job-0", "Job", uid="other"))
    sandboxes = {uid: Sandbox(uid) for uid in ("first", "second", "other")}
    for uid, sandbox in sandboxes.items():
        sandbox.containers["main"] = Container("main", "image", Program())
        sandbox.containers["main"].start(uid, 0)
    run.machines["node-1"] = SimpleNamespace(sandboxes=sandboxes)
    assert check(run) is None  # type: ignore[arg-type]
    run._objects = (_pod("web-0", "StatefulSet", uid="second"),)
    assert check(run) is None, "pods are looked at once one was written"  # type: ignore[arg-type]
    run.latest = 2
    said = "two pods run as default/web-0: first and second"
    assert check(run) == said  # type: ignore[arg-type]
    sandboxes["first"].containers["main"].running_since = None
    assert check(run) is None  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["daemons", "stateful"])
def test_laws_of_stored_pods_are_asked_when_one_was_written(part) -> None:
    plan = campaign(part).plan
    ends = []
    for looks in (True, False):
        laws = tuple(each if looks else evolve(each, looks_at=None) for each in plan.invariants())
        tried = evolve(plan, scenario=evolve(plan.scenario, invariants=laws))
        result = Campaign(tried).under(1).result
        ends.append((result.verdict, result.reason, result.steps, result.trace_hash))
    assert ends[0] == ends[1]
