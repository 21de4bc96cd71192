"""Decisions against what caches said all through a reconcile are found; those that could not know are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from controlplane.api.request import Request
from controlplane.client.indexer import Indexer
from controlplane.client.resources import DAEMON_SETS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS
from controlplane.controllers.workloads.statefulset import controller as stateful
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.reconciles import decisions_follow_caches
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from tests.scenarios.invariants.stored import made, owned

LAW = decisions_follow_caches("controller-manager")
NOW = "2026-01-01T00:00:00Z"
KINDS = {
    "ReplicaSet": ("replicaset-controller", REPLICA_SETS, "replicaset.create"),
    "StatefulSet": ("statefulset-controller", STATEFUL_SETS, "statefulset.worker"),
    "DaemonSet": ("daemonset-controller", DAEMON_SETS, "daemonset.create"),
    "Job": ("job-controller", JOBS, "job.create"),
}


class World:
    """A manager with caches of pods and of owners of a kind, whose controller reconciles the owner `web`."""

    def __init__(self, kind: str, owner: Any, *pods: Any) -> None:
        name, resource, self.task = KINDS[kind]
        self.kind = kind
        self.pods: Indexer[Any] = Indexer()
        self.owners: Indexer[Any] = Indexer()
        for pod in pods:
            self.pods.put(pod)
        if owner is not None:
            self.owners.put(owner)
        queue = SimpleNamespace(processing={"default/web": 1})
        probe = SimpleNamespace(
            name="controller-manager",
            incarnation=1,
            controllers=[SimpleNamespace(name=name, queue=queue)],
            caches=SimpleNamespace(stores={PODS: self.pods, resource: self.owners}),
        )
        listeners: list[Any] = []
        self.world = SimpleNamespace(
            overhear=listeners.append,
            incarnation=lambda _actor: 1,
            faults=SimpleNamespace(injected=set()),
        )
        self.cluster = SimpleNamespace(managers=[probe])
        self.notes: dict[str, Any] = {}
        assert LAW.begin is not None
        LAW.begin(self)  # type: ignore[arg-type]
        (self.listener,) = listeners
        assert LAW.check(self) is None  # type: ignore[arg-type]

    def _asks(self, task: str, request: Request) -> str | None:
        asker = SimpleNamespace(name=task, label=task)
        message = SimpleNamespace(
            request=SimpleNamespace(number=1, asker=asker),
            payload=request,
            sender=SimpleNamespace(name="controller-manager"),
        )
        self.listener.hears(message, None)
        found = LAW.check(self)  # type: ignore[arg-type]
        return found and found.removeprefix(f"{task} ")

    def creates(self, name: str, uid: str = "web", node: str = "") -> str | None:
        pod = owned(self.kind, "web", name, spec={"nodeName": node})
        owner = {**pod.metadata["ownerReferences"][0], "uid": uid}
        body = {
            "metadata": {**pod.metadata, "ownerReferences": [owner]},
            "spec": pod.tree["spec"],
            "status": {},
        }
        return self._asks(
            self.task, Request("create", resource="pods", namespace="default", body=body)
        )

    def deletes(self, name: str) -> str | None:
        task = f"{self.task.partition('.')[0]}.worker"
        return self._asks(task, Request("delete", resource="pods", namespace="default", name=name))


def replicas(count: int, kind: str = "ReplicaSet", **metadata: Any) -> Any:
    selector = {"matchLabels": {}}
    return made(kind, "web", {"replicas": count, "selector": selector}, **metadata)


def test_pods_for_an_owner_that_is_known_to_go_or_unknown_are_found() -> None:
    going = World("ReplicaSet", replicas(2, deletionTimestamp=NOW))
    what = "creates a pod for ReplicaSet web"
    assert going.creates("a") == f"{what}, which it knows to be deleted"
    assert World("ReplicaSet", replicas(2)).creates("a", "former") == (
        f"{what} of uid former, and knows uid web"
    )
    assert World("ReplicaSet", replicas(2)).creates("a") is None


def test_a_mark_that_came_amid_the_reconcile_could_not_be_known() -> None:
    world = World("ReplicaSet", replicas(2))
    world.owners.put(replicas(2, deletionTimestamp=NOW))
    assert world.creates("a") is None


def test_an_owner_that_came_amid_the_reconcile_may_be_marked_by_now() -> None:
    world = World("ReplicaSet", None)
    world.owners.put(replicas(2, deletionTimestamp=NOW))
    assert world.creates("a") is None
    world.owners.put(replicas(2, uid="next"))
    assert world.creates("a") is None, "and it may be gone again"


def test_a_cache_that_went_back_in_time_is_no_knowledge() -> None:
    world = World("ReplicaSet", replicas(2, deletionTimestamp=NOW))
    world.world.faults.injected = {"break"}
    assert world.creates("a") is None


def test_more_pods_than_asked_for_are_found_while_all_are_known() -> None:
    pods = [owned("ReplicaSet", "web", f"web-{number}") for number in range(2)]
    said = "creates a pod for ReplicaSet web, and knows 2 active ones of 2"
    assert World("ReplicaSet", replicas(2), *pods).creates("a") == said
    assert World("ReplicaSet", replicas(3), *pods).creates("a") is None
    late = World("ReplicaSet", replicas(2), pods[0])
    late.pods.put(pods[1])
    assert late.creates("a") is None
    grown = World("ReplicaSet", replicas(2), *pods)
    grown.owners.put(replicas(2, generation=2))
    assert grown.creates("a") is None, "it may have asked for more in between"


def test_an_ordinal_is_not_made_before_the_one_that_is_known_to_be_missing_or_to_go() -> None:
    what = "creates a pod for StatefulSet web, and knows that"
    first = owned("StatefulSet", "web", "web-0")
    for pods, said in (
        ([], f"{what} web-0 is missing"),
        ([owned("StatefulSet", "web", "web-0", "Pending")], f"{what} web-0 is not ready"),
        (
            [owned("StatefulSet", "web", "web-0", deletionTimestamp=NOW)],
            f"{what} web-0 is being deleted",
        ),
        ([owned("StatefulSet", "former", "web-0", deletionTimestamp=NOW)], None),
        ([first], None),
    ):
        world = World("StatefulSet", replicas(2, "StatefulSet"), *pods)
        assert world.creates("web-1") == said
    world = World("StatefulSet", replicas(2, "StatefulSet"), first)
    assert world.creates("web-0") == f"{what} there is a web-0"
    world = World("StatefulSet", replicas(1, "StatefulSet"), first)
    assert world.creates("web-1") == (
        "creates a pod for StatefulSet web, which does not ask for web-1"
    )


def test_a_pod_that_its_owner_selects_no_more_does_not_count() -> None:
    selector = {"matchLabels": {"app": "web"}}
    first = owned("StatefulSet", "web", "web-0", labels={"app": "free"})
    owner = made("StatefulSet", "web", {"replicas": 1, "selector": selector})
    assert World("StatefulSet", owner, first).creates("web-0") is None
    first = owned("StatefulSet", "web", "web-0", labels={"app": "web"})
    assert World("StatefulSet", owner, first).creates("web-0") is not None


def test_a_pod_that_is_known_to_go_is_not_deleted_again() -> None:
    going = owned("ReplicaSet", "web", "a", deletionTimestamp=NOW)
    world = World("ReplicaSet", replicas(0), going)
    assert world.deletes("a") == "deletes a, which it knows to be deleted"
    world = World("ReplicaSet", replicas(0), owned("ReplicaSet", "web", "a"))
    world.pods.put(going)
    assert world.deletes("a") is None


def test_pods_in_order_go_one_after_the_other() -> None:
    pods = [
        owned("StatefulSet", "web", "web-0"),
        owned("StatefulSet", "web", "web-1", deletionTimestamp=NOW),
    ]
    world = World("StatefulSet", replicas(0, "StatefulSet"), *pods)
    assert world.deletes("web-0") == "deletes web-0, and knows that web-1 is being deleted"
    ended = owned("StatefulSet", "web", "web-0", "Failed")
    assert World("StatefulSet", replicas(2, "StatefulSet"), ended, pods[1]).deletes("web-0") is None


def test_a_daemon_is_not_made_where_one_is_known_to_be() -> None:
    there = owned("DaemonSet", "web", "a", spec={"nodeName": "node-1"})
    owner = made("DaemonSet", "web", {"selector": {"matchLabels": {}}})
    assert World("DaemonSet", owner, there).creates("b", node="node-2") is None
    assert World("DaemonSet", owner, there).creates("b", node="node-1") == (
        "creates a pod for DaemonSet web, and knows that a is on node-1"
    )


@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        ({}, {}, None),
        ({"suspend": True}, {}, "which it knows to be suspended"),
        (
            {},
            {"conditions": [{"type": "Failed", "status": "True"}]},
            "which it knows to have finished",
        ),
    ],
)
def test_a_job_that_is_known_to_rest_gets_no_pod(spec, status, said) -> None:
    world = World("Job", made("Job", "web", {"selector": {"matchLabels": {}}, **spec}, status))
    assert world.creates("a") == (said and f"creates a pod for Job web, {said}")


@pytest.mark.slow
def test_search_finds_a_stateful_set_that_does_not_wait(monkeypatch) -> None:
    monkeypatch.setattr(stateful, "is_running_and_ready", lambda _pod: True)
    monkeypatch.setattr(stateful, "is_available", lambda *_: True)
    churn = loading.from_module(loading.NAMED["controller-churn"])
    plan = plan_of(churn, part="stateful")
    alone = evolve(plan.scenario, invariants=(LAW,))
    seen = Campaign(evolve(plan, scenario=alone)).explore(12)
    assert seen.findings, f"nothing broke in {seen.schedules} schedules"
    assert LAW.name in seen.findings[0].result.reason
