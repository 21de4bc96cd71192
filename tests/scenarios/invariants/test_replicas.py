"""Invariants of numbers of pods: each breaks when one is too many, out of order or miscounted, and holds otherwise."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.scenarios.invariants.replicas import (
    finished_jobs_let_their_pods_go,
    jobs_count_what_ended,
    no_more_deletions_than_surplus,
    no_more_pods_than_asked,
    rollouts_keep_to_their_surge,
)
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from tests.scenarios.invariants.stored import StoredRun, made, owned, said


@pytest.mark.parametrize(("kind", "field"), [("ReplicaSet", "replicas"), ("Job", "parallelism")])
def test_one_active_pod_more_than_was_ever_asked_for_is_too_many(kind, field) -> None:
    law = no_more_pods_than_asked("etcd")
    pods = [owned(kind, "web", f"web-{number}") for number in range(3)]
    assert said(law, made(kind, "web", {field: 3}), *pods) is None
    assert said(law, made(kind, "web", {field: 2}), *pods) == (
        f"{kind} default/web has 3 active pods, and never asked for more than 2"
    )
    ended = owned(kind, "web", "web-2", "Failed")
    assert said(law, made(kind, "web", {field: 2}), *pods[:2], ended) is None


def test_a_replica_set_that_was_larger_may_still_have_its_pods() -> None:
    law, run = no_more_pods_than_asked("etcd"), StoredRun()
    pods = [owned("ReplicaSet", "web", f"web-{number}") for number in range(3)]
    assert said(law, made("ReplicaSet", "web", {"replicas": 3}), *pods, run=run) is None
    assert said(law, made("ReplicaSet", "web", {"replicas": 1}), *pods, run=run) is None


def test_adopted_pods_do_not_count() -> None:
    law, run = no_more_pods_than_asked("etcd"), StoredRun()
    one, two = made("Pod", "one"), owned("ReplicaSet", "web", "two")
    owner = made("ReplicaSet", "web", {"replicas": 1})
    assert said(law, owner, one, two, run=run) is None
    assert said(law, owner, owned("ReplicaSet", "web", "one"), two, run=run) is None


def test_nothing_is_said_once_a_controller_may_have_forgotten_what_it_wrote() -> None:
    law, run = no_more_pods_than_asked("etcd"), StoredRun()
    run.world.faults.injected = {"hold", "crash", "restart"}
    pods = [owned("ReplicaSet", "web", f"web-{number}") for number in range(3)]
    assert said(law, made("ReplicaSet", "web", {"replicas": 2}), *pods, run=run) is None


def test_a_replica_set_that_deletes_a_pod_it_needs_is_found() -> None:
    law = no_more_deletions_than_surplus("etcd")
    pods = [owned("ReplicaSet", "web", f"web-{number}") for number in range(3)]
    seen = {"observedGeneration": 1}
    three = made("ReplicaSet", "web", {"replicas": 3}, seen, generation=1)
    two = made("ReplicaSet", "web", {"replicas": 2}, seen, generation=2)
    run = StoredRun()
    assert said(law, three, *pods, run=run) is None
    assert said(law, two, *pods[:2], run=run) is None
    going = owned("ReplicaSet", "web", "web-1", deletionTimestamp="2026-01-01T00:00:00Z")
    assert said(law, two, pods[0], going, run=run) == (
        "ReplicaSet default/web has 1 active pods after a deletion, and asks for at least 2"
    )


def test_a_replica_set_may_still_act_on_a_size_that_it_has_observed() -> None:
    law, run = no_more_deletions_than_surplus("etcd"), StoredRun()
    pods = [owned("ReplicaSet", "web", f"web-{number}") for number in range(3)]
    for size, generation in ((3, 1), (2, 2), (3, 3)):
        owner = made("ReplicaSet", "web", {"replicas": size}, generation=generation)
        assert said(law, owner, *pods, run=run) is None
    assert said(law, owner, *pods[:2], run=run) is None
    ended = owned("ReplicaSet", "web", "web-1", "Failed")
    assert said(law, owner, pods[0], ended, run=run) is None


@pytest.mark.parametrize(("surge", "allowed"), [(1, 3), ("25%", 3), ("100%", 4), (0, 2)])
def test_replica_sets_of_a_deployment_stay_below_replicas_and_surge(surge, allowed) -> None:
    law = rollouts_keep_to_their_surge("etcd")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}
    deployment = made("Deployment", "web", {"replicas": 2, "strategy": strategy})
    reference = {"kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    sets = [
        made("ReplicaSet", f"web-{number}", {"replicas": 1}, ownerReferences=[reference])
        for number in range(allowed + 1)
    ]
    assert said(law, deployment, *sets[:-1]) is None
    assert said(law, deployment, *sets) == (
        f"the ReplicaSets of default/web ask for {allowed + 1} pods, "
        f"and replicas and surge were {allowed} at most"
    )


def test_a_job_counts_what_has_ended() -> None:
    law = jobs_count_what_ended("etcd")
    pods = owned("Job", "work", "a", "Succeeded"), owned("Job", "work", "b")
    assert said(law, made("Job", "work", status={"succeeded": 1}), *pods) is None
    assert said(law, made("Job", "work", status={"succeeded": 2}), *pods) == (
        "Job default/work counts 2 pods as succeeded, and 1 were"
    )
    assert said(law, made("Job", "work", status={"failed": 1}), *pods) == (
        "Job default/work counts 1 pods as failed, and 0 were"
    )
    ending = {"failed": 1, "conditions": [{"type": "FailureTarget", "status": "True"}]}
    assert said(law, made("Job", "work", status=ending), *pods) is None


def test_what_a_job_once_counted_may_be_gone() -> None:
    law, run = jobs_count_what_ended("etcd"), StoredRun()
    job = made("Job", "work", status={"succeeded": 1})
    assert said(law, job, owned("Job", "work", "a", "Succeeded"), run=run) is None
    assert said(law, job, run=run) is None


def test_pods_of_a_job_that_is_over_are_let_go() -> None:
    law = finished_jobs_let_their_pods_go()
    pod = owned("Job", "work", "a", "Succeeded", finalizers=["batch.kubernetes.io/job-tracking"])
    assert said(law, made("Job", "work"), pod) is None
    over = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert said(law, made("Job", "work", status=over), pod) == (
        "default/a is still tracked, and its Job is over"
    )
    assert said(law, pod) == "default/a is still tracked, and its Job is over"


@pytest.mark.slow
def test_a_replica_set_controller_without_expectations_is_found(monkeypatch) -> None:
    from controlplane.client.expectations import Expectations
    from controlplane.races.power import every_fix
    from controlplane.scenarios.engine.plan import plan_of

    monkeypatch.setattr(Expectations, "satisfied", lambda *_: True)
    churn = loading.from_module(loading.NAMED["controller-churn"])
    plan = plan_of(churn, part="rollouts", fix=every_fix())
    alone = evolve(plan.scenario, invariants=(no_more_pods_than_asked("etcd"),))
    seen = Campaign(evolve(plan, scenario=alone), "plans").explore(60)
    assert seen.findings, f"nothing broke in {seen.schedules} schedules"
    assert "no more pods than were asked for" in seen.findings[0].result.reason
