"""Expectations against what is to come: too few, too many and replaced ones are found, and sound ones are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from controlplane.api.request import Request, Response
from controlplane.apiserver.storage.store import Store
from controlplane.client.expectations import TIMEOUT_NS, CountedExpectations, Expectations
from controlplane.client.indexer import Indexer
from controlplane.client.resources import DAEMON_SETS, PODS, REPLICA_SETS
from controlplane.controllers.workloads.replicaset.controller import ReplicaSetController
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.expectations import (
    NAME,
    expectations_are_what_is_to_come,
)
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from tests.scenarios.invariants.stored import made, owned

LAW = expectations_are_what_is_to_come("controller-manager")
MARK = "2026-01-01T00:00:00Z"


class World:
    """A store of pods, and a manager with one controller that keeps expectations of the owner `web`."""

    def __init__(self, expectations: Any = None, kind: str = "ReplicaSet") -> None:
        self.store, self.kind = Store(), kind
        self.expectations = expectations or Expectations()
        self.pods = self.store.keyspace("/registry/pods/")
        name, resource = {
            "ReplicaSet": ("replicaset-controller", REPLICA_SETS),
            "DaemonSet": ("daemonset-controller", DAEMON_SETS),
        }[kind]
        self.queue = SimpleNamespace(processing={})
        controller = SimpleNamespace(name=name, expectations=self.expectations, queue=self.queue)
        self.owners: Indexer[Any] = Indexer()
        self.owners.put(made(kind, "web"))
        self.cache = SimpleNamespace(resource_version="1")
        self.informer = SimpleNamespace(told_all=True, has_synced=True, store=self.cache)
        self.probe = SimpleNamespace(
            name="controller-manager",
            incarnation=1,
            controllers=[controller],
            informers={PODS: self.informer},
            caches=SimpleNamespace(stores={resource: self.owners}),
        )
        faults = SimpleNamespace(injected=set())
        self.listeners: list[Any] = []
        self.namespaces = ["default"]
        self.world = SimpleNamespace(
            now=0,
            faults=faults,
            overhear=self.listeners.append,
            incarnation=lambda _actor: self.actor.incarnation,
        )
        self.actor = SimpleNamespace(incarnation=1)
        self.cluster = SimpleNamespace(store=self.store, managers=[self.probe])
        self.notes: dict[str, Any] = {}
        assert LAW.begin is not None
        LAW.begin(self)  # type: ignore[arg-type]

    def objects(self, _prefix: str) -> list[Any]:
        return [made("Namespace", each) for each in self.namespaces]

    def _asked(self, task: str, request: Request, response: Response) -> None:
        (listener,) = self.listeners
        asker = SimpleNamespace(name=task, incarnation=1, actor=self.actor)
        asked = SimpleNamespace(number=1, asker=asker)
        listener.hears(SimpleNamespace(request=asked, payload=request), None)
        listener.hears_answer(asked, response, None)

    def creates(self, name: str) -> None:
        pod = owned(self.kind, "web", name)
        self.pods.put(pod.key, pod)
        request = Request("create", resource="pods", namespace="default")
        self._asked("replicaset.create", request, Response(201, {}, pod))

    def deletes(self, name: str) -> None:
        pod = owned(self.kind, "web", name, deletionTimestamp=MARK)
        self.pods.put(pod.key, pod)
        request = Request("delete", resource="pods", namespace="default", name=name)
        self._asked("replicaset.delete", request, Response(200, {}, pod))

    def hears_all(self) -> None:
        self.cache.resource_version = str(self.store.revision)

    def said(self) -> str | None:
        return LAW.check(self)  # type: ignore[arg-type]


def test_creations_that_are_expected_until_they_are_heard_of_are_sound() -> None:
    world = World()
    world.expectations.expect_creations("default/web", 2, 0)
    world.creates("web-1")
    world.creates("web-2")
    assert world.said() is None
    world.hears_all()
    for _ in range(2):
        world.expectations.creation_observed("default/web")
    assert world.said() is None


def test_a_creation_that_is_not_expected_is_found_also_amid_the_reconcile() -> None:
    world = World()
    world.queue.processing = {"default/web": 1}
    world.creates("web-1")
    assert world.said() == (
        "replicaset-controller has not heard of 1 pods that it created for default/web, and expects 0"
    )


def test_what_an_earlier_life_created_is_not_expected() -> None:
    world = World()
    world.creates("web-1")
    world.actor.incarnation = world.probe.incarnation = 2
    assert world.said() is None


def test_a_process_that_begins_again_is_not_judged_by_its_former_life() -> None:
    world = World()
    world.expectations.expect_creations("default/web", 1, 0)
    assert world.said() is not None
    world.actor.incarnation = 2
    assert world.said() is None


def test_creations_in_a_namespace_that_is_gone_may_be_expected_in_vain() -> None:
    world = World()
    world.expectations.expect_creations("default/web", 1, 0)
    world.namespaces.clear()
    assert world.said() is None


def test_a_creation_that_was_heard_of_before_it_was_expected_is_found() -> None:
    world = World()
    world.creates("web-1")
    world.hears_all()
    world.expectations.expect_creations("default/web", 1, 0)
    world.queue.processing = {"default/web": 1}
    assert world.said() is None, "amid a reconcile more may be expected than was asked for"
    world.queue.processing = {}
    assert world.said() == (
        "replicaset-controller expects 1 creations for default/web, and 0 are to come"
    )


def test_what_was_expected_for_an_earlier_owner_of_the_name_is_left_to_expire() -> None:
    world = World()
    world.queue.processing = {"default/web": 1}
    assert world.said() is None
    world.expectations.expect_creations("default/web", 1, 0)
    assert world.said() is None
    world.owners.put(made("ReplicaSet", "web", uid="next"))
    world.queue.processing = {}
    assert world.said() is None


def test_nothing_is_compared_before_the_handlers_have_what_was_received() -> None:
    world = World()
    world.creates("web-1")
    world.informer.told_all = False
    assert world.said() is None


def test_a_deletion_that_is_not_expected_is_found() -> None:
    world = World()
    world.expectations.expect_deletions("default/web", ["default/web-1"], 0)
    world.deletes("web-1")
    assert world.said() is None
    world.expectations.forget("default/web")
    assert world.said() == (
        "replicaset-controller has deleted default/web-1 for default/web, and neither expects nor has heard of it"
    )
    world.hears_all()
    assert world.said() is None


def test_a_deletion_that_was_heard_of_or_never_asked_for_is_expected_in_vain() -> None:
    world = World()
    world.expectations.expect_deletions("default/web", ["default/web-1"], 0)
    said = "replicaset-controller expects the deletion of default/web-1 for default/web, which "
    assert world.said() == f"{said}was never requested"
    world.deletes("web-1")
    assert world.said() is None
    world.hears_all()
    assert world.said() == f"{said}it has received"


def test_counted_deletions_are_at_most_those_to_come() -> None:
    world = World(CountedExpectations(), "DaemonSet")
    world.expectations.expect("default/web", 0, 1, 0)
    assert world.said() == (
        "daemonset-controller expects 1 deletions for default/web, and 0 are to come"
    )
    world.deletes("web-1")
    assert world.said() is None


@pytest.mark.parametrize(("later", "sound"), [(TIMEOUT_NS, False), (TIMEOUT_NS + 1, True)])
def test_expectations_are_replaced_only_once_they_are_met_or_too_old(later, sound) -> None:
    world = World()
    world.expectations.expect_creations("default/web", 1, 0)
    world.creates("web-1")
    assert world.said() is None
    world.world.now = later
    world.expectations.expect_creations("default/web", 1, later)
    said = world.said()
    assert (said is None) is sound
    assert sound or said == (
        "replicaset-controller acts for default/web again, and still expects 1 creations and 0 deletions"
    )


def test_nothing_is_said_once_a_message_was_lost() -> None:
    world = World()
    world.creates("web-1")
    world.world.faults.injected = {"break"}
    assert world.said() is None


@pytest.mark.slow
def test_search_finds_a_controller_that_expects_no_deletions(monkeypatch) -> None:
    monkeypatch.setattr(Expectations, "expect_deletions", lambda *_: None)
    churn = loading.from_module(loading.NAMED["controller-churn"])
    plan = plan_of(churn, part="rollouts")
    alone = evolve(plan.scenario, invariants=(LAW,))
    seen = Campaign(evolve(plan, scenario=alone), "pct-actor").explore(20)
    assert seen.findings, f"nothing broke in {seen.schedules} schedules"
    assert NAME in seen.findings[0].result.reason
    assert ReplicaSetController.name in seen.findings[0].result.reason
