"""Rules of kubelets hold in a world as it is, and break when what keeps them is taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from controlplane.kubelet.allocation.manager import AllocationManager
from controlplane.kubelet.loops import status_sender
from controlplane.kubelet.loops.claims import NodeClaims
from controlplane.kubelet.loops.pod_workers import PodWorkers
from controlplane.kubelet.loops.sync_loop import SyncLoop
from controlplane.kubelet.pod import status_manager
from controlplane.kubelet.pod.pod_worker import PodWorker
from controlplane.kubelet.pod.prober import ProbeWorker, Results
from controlplane.kubelet.pod.resizing import Resizing
from controlplane.kubelet.pod.status_manager import StatusManager
from controlplane.kubelet.pod.termination import Termination
from controlplane.kubelet.pod.volumes import PodVolumes
from controlplane.scenarios.authoring.workloads import STOPS, pod
from controlplane.scenarios.churns import kubelet_parts
from controlplane.scenarios.churns.kubelet_churn import SCENARIO
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

NODE = "node-1"
PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 3}


async def plain(user) -> None:
    """A pod that takes a while to stop, in good order and, made again, by force."""
    for grace in (20, 0):
        tree = pod("a", nodeName=NODE, terminationGracePeriodSeconds=30)
        tree["metadata"]["annotations"] = {STOPS: "5"}
        await user.attempt(user.create(tree))
        await user.sleep(75)
        await user.attempt(user.delete("Pod", "a", grace_period_seconds=grace))
        await user.sleep(20)
    await user.sleep(75)


async def orphaned(user) -> None:
    """A pod that goes while its kubelet is down."""
    await user.create(pod("a", nodeName=NODE))
    await user.sleep(10)
    user.crash(NODE)
    await user.delete("Pod", "a", grace_period_seconds=0)
    user.restart(NODE)
    await user.sleep(90)


async def resized(user) -> None:
    """Resizes: one is done, one is taken back, one waits until another pod has gone."""
    await user.create(pod("a", "3", nodeName=NODE))
    await user.create(pod("b", "1", nodeName=NODE))
    await user.sleep(10)
    await user.resize("b", "main", cpu="2")
    await user.sleep(60)
    for cpu in ("6", "2", "6"):
        await user.resize("b", "main", cpu=cpu)
        await user.sleep(25)
    await user.delete("Pod", "a")
    await user.sleep(70)


async def probed(user) -> None:
    """A container whose liveness probe fails after a while, again and again."""
    tree = pod("a", nodeName=NODE)
    tree["metadata"]["annotations"] = {kubelet_parts.LIVES: "7", kubelet_parts.READY: "3"}
    (one,) = tree["spec"]["containers"]
    one.update(livenessProbe=PROBE, readinessProbe=PROBE)
    await user.create(tree)
    await user.sleep(90)
    await user.delete("Pod", "a")
    await user.sleep(30)


async def with_volumes(user) -> None:
    """A pod with both volumes."""
    await kubelet_parts.make_volumes(user)
    tree = pod("a", nodeName=NODE, terminationGracePeriodSeconds=30)
    tree["metadata"]["annotations"] = {STOPS: "5"}
    tree["spec"]["volumes"] = [
        {"name": each, "persistentVolumeClaim": {"claimName": each}}
        for each in kubelet_parts.VOLUMES
    ]
    (one,) = tree["spec"]["containers"]
    one["volumeMounts"] = [
        {"name": each, "mountPath": f"/{each}"} for each in kubelet_parts.VOLUMES
    ]
    await user.create(tree)
    await user.sleep(30)
    await user.delete("Pod", "a", grace_period_seconds=20)
    await user.sleep(60)


async def with_claims(user) -> None:
    """A pod with both claims."""
    await kubelet_parts.make_claims(user)
    await user.sleep(5)
    tree = pod("a", terminationGracePeriodSeconds=30)
    tree["metadata"]["annotations"] = {STOPS: "5"}
    names = [{"name": each, "resourceClaimName": each} for each in kubelet_parts.CARDS]
    tree["spec"]["resourceClaims"] = names
    (one,) = tree["spec"]["containers"]
    one["resources"]["claims"] = [{"name": each} for each in kubelet_parts.CARDS]
    await user.create(tree)
    await user.sleep(30)
    await user.delete("Pod", "a", grace_period_seconds=20)
    await user.sleep(60)


WORKLOADS = {
    "managers": (plain, orphaned, resized),
    "probes": (probed,),
    "volumes": (with_volumes,),
    "claims": (with_claims,),
}


def broken(part: str, workload: Callable[..., Any]) -> str | None:
    """Return the violation of this workload in a part of the churn, None if the invariants hold."""
    scenario = evolve(SCENARIO, workload=workload)
    result = Campaign(plan_of(scenario, part=part, faults=False), "fifo").under(0).result
    assert result.verdict in ("quiescent", "violated"), result.reason
    return result.reason if result.verdict == "violated" else None


@pytest.mark.parametrize(
    ("part", "workload"), [(part, each) for part, found in WORKLOADS.items() for each in found]
)
def test_the_rules_hold_for_kubelets_as_they_are(part, workload) -> None:
    assert broken(part, workload) is None


def _unprepared_first(end: Any) -> Any:
    def swapped(self: Any, now: int, actions: Any) -> bool:
        claims = self.claims
        if claims is not None and not claims.unprepare(self._state.pod, now, actions):
            return False
        return end(self, now, actions)

    return swapped


async def _nothing(*_args: Any, **_more: Any) -> str:
    return ""


async def _without_retry(self: Any, _ctx: Any, pods: Any) -> None:
    for each in pods:
        self._shared.pods.remove(each)
        self._allocation.remove_pod(each.uid)
        self._workers.remove(each.uid)
    self._shared.tidy_up()


def _kept_pending(self: Any, pod: Any) -> Any:
    yield from ()
    if not self.differs(pod):
        return False
    self.push(pod.uid)
    return True


def _forgetful(retry: Any) -> Any:
    def forget(self: Any, trigger: str) -> Any:
        seconds = yield from retry(self, trigger)
        self.pending = []
        return seconds

    return forget


MISTAKES = {
    "a deletion does not stop": (plain, PodWorker, "_terminate", lambda *_: None),
    "no worker is begun": (plain, PodWorkers, "_start", lambda *_: None),
    "nothing is cleaned up": (orphaned, SyncLoop, "_clean_up", _nothing),
    "nothing is written": (plain, status_sender, "status_patch", lambda *_: {}),
    "whatever is to go is deleted": (
        plain,
        status_manager,
        "can_be_deleted",
        lambda pod, _known: pod.metadata.deletion_timestamp is not None,
    ),
    "deferred resizes leave the queue": (
        resized,
        AllocationManager,
        "retry",
        _forgetful(AllocationManager.retry),
    ),
    "a removal makes no room": (resized, SyncLoop, "_removals", _without_retry),
    "a resize that was taken back stays pending": (
        resized,
        AllocationManager,
        "update",
        _kept_pending,
    ),
    "what was sent stays on the list": (plain, StatusManager, "sent", lambda *_: None),
    "resizes are not judged again": (
        resized,
        Resizing,
        "judge",
        lambda self, pod, _running, now: self.conditions.set_in_progress(pod.uid, "", "", 2, now),
    ),
    "one failure is enough": (probed, ProbeWorker, "_threshold", lambda *_: 1),
    "failures are dropped": (probed, Results, "set", lambda *_: False),
    "the unhealthy live on": (probed, Termination, "restart_unhealthy", lambda *_: None),
    "volumes are taken away": (
        with_volumes,
        PodVolumes,
        "to_unpublish",
        lambda self: list(self.mounts.published.values()),
    ),
    "volumes are not waited for": (with_volumes, PodWorker, "_waits_for_unmount", lambda _: False),
    "claims are unprepared first": (
        with_claims,
        PodWorker,
        "_advance_termination",
        _unprepared_first(PodWorker._advance_termination),
    ),
}
FOUND = {
    "a deletion does not stop": "a pod that is to go is terminated at once",
    "no worker is begun": "a pod that is wanted has a worker",
    "nothing is cleaned up": "a pod that is gone is stopped",
    "nothing is written": "a status that counts as sent was sent",
    "whatever is to go is deleted": "an object outlasts the worker of its pod",
    "deferred resizes leave the queue": "a deferred resize is tried again",
    "a removal makes no room": "room for a deferred resize is used",
    "a resize that was taken back stays pending": "a resize that is pending is wanted",
    "what was sent stays on the list": "a status that has changed is sent",
    "resizes are not judged again": "a resize that is done is not in progress",
    "one failure is enough": "a probe counts when it has found the same often enough",
    "failures are dropped": "what a probe finds is noticed",
    "the unhealthy live on": "an unhealthy container is stopped",
    "volumes are taken away": "what runs has its volumes",
    "volumes are not waited for": "an object outlasts the mounts of its pod",
    "claims are unprepared first": "what runs has its claims",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_kubelet_with_a_mistake_breaks_the_rule_that_the_mistake_is_about(
    monkeypatch, mistake
) -> None:
    workload, owner, name, instead = MISTAKES[mistake]
    part = next(part for part, found in WORKLOADS.items() if workload in found)
    monkeypatch.setattr(owner, name, instead)
    said = broken(part, workload)
    assert said is not None
    assert said.startswith(FOUND[mistake]), said


def test_an_object_that_goes_while_claims_are_held_for_its_pod_is_found(monkeypatch) -> None:
    monkeypatch.setattr(NodeClaims, "unprepare", _nothing)
    monkeypatch.setattr(NodeClaims, "might_need", lambda *_: False)
    said = broken("claims", with_claims)
    assert said is not None
    assert said.startswith("an object outlasts the claims of its pod"), said
