"""Invariants of controllers that keep a number of pods: never too many, in the order and at the pace that was asked.

They are asked at each write, not at the end: a controller that makes one pod too many deletes it again, and at rest
nothing shows. What they compare is what the API server stores with the largest number that was ever asked for, so a
controller whose caches are late breaks none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.controllers.common.int_or_percent import scaled_value
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import (
    PODS,
    controller_of,
    first_owners,
    has_condition,
    is_active,
    note,
    nothing_was_lost,
    pods_by_owner,
    stored,
)

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "finished_jobs_let_their_pods_go",
    "jobs_count_what_ended",
    "no_more_deletions_than_surplus",
    "no_more_pods_than_asked",
    "rollouts_keep_to_their_surge",
]

REPLICA_SETS: Final = "/registry/replicasets/"
DEPLOYMENTS: Final = "/registry/deployments/"
JOBS: Final = "/registry/jobs/"
TRACKED: Final = "batch.kubernetes.io/job-tracking"


def _raise(most: dict[str, int], uid: str, number: int) -> int:
    """Note the number that an owner asks for, and return the largest so far."""
    most[uid] = max(most.get(uid, 0), number)
    return most[uid]


def no_more_pods_than_asked(after: str) -> Invariant:
    """No ReplicaSet and no Job has more active pods of its own making than it ever asked for.

    Expectations promise that (`controller_utils.go`), as long as the manager lives and no answer to it is lost. Pods
    that a ReplicaSet has adopted do not count.
    """

    def check(run: Run) -> str | None:
        if not nothing_was_lost(run):
            return None
        most, made_by = note(run, "most pods asked for"), first_owners(run)
        for prefix, kind, field in (
            (REPLICA_SETS, "ReplicaSet", "replicas"),
            (JOBS, "Job", "parallelism"),
        ):
            pods = pods_by_owner(run, kind)
            for owner in run.objects(prefix):
                asked = _raise(most, owner.uid, owner.tree["spec"].get(field, 1))
                own = [pod for pod in pods.get(owner.uid, ()) if made_by[pod.uid] == owner.uid]
                active = sum(map(is_active, own))
                if active > asked:
                    return f"{kind} {owner.key} has {active} active pods, and never asked for more than {asked}"
        return None

    looks_at = stored(PODS, REPLICA_SETS, JOBS)
    return Invariant("no more pods than were asked for", check, (after,), looks_at=looks_at)


def no_more_deletions_than_surplus(after: str) -> Invariant:
    """A ReplicaSet deletes no pod while it has no more than it asks for.

    For worlds in which nothing else deletes pods. What the ReplicaSet asks for is the least of all generations from the
    one on that its controller has observed. Expectations of deletions promise that (`replica_set.go`,
    `manageReplicas`), as long as the manager lives and no answer to it is lost.
    """

    def check(run: Run) -> str | None:
        all_sizes, all_active = note(run, "sizes by generation"), note(run, "last active pods")
        pods = pods_by_owner(run, "ReplicaSet")
        for owner in run.objects(REPLICA_SETS):
            sizes: dict[int, int] = all_sizes.setdefault(owner.uid, {})
            sizes[owner.metadata["generation"]] = owner.tree["spec"].get("replicas", 1)
            own = pods.get(owner.uid, ())
            active = {pod.uid for pod in own if is_active(pod)}
            kept = {pod.uid for pod in own if not pod.metadata.get("deletionTimestamp")}
            deleted = all_active.get(owner.uid, set()) - kept
            all_active[owner.uid] = active
            observed = owner.tree.get("status", {}).get("observedGeneration", 0)
            least = min(size for at, size in sizes.items() if at >= observed)
            if deleted and len(active) < least and nothing_was_lost(run):
                return (
                    f"ReplicaSet {owner.key} has {len(active)} active pods after a deletion, "
                    f"and asks for at least {least}"
                )
        return None

    looks_at = stored(PODS, REPLICA_SETS)
    return Invariant(
        "no more pods are deleted than are too many", check, (after,), looks_at=looks_at
    )


def rollouts_keep_to_their_surge(after: str) -> Invariant:
    """The ReplicaSets of a Deployment together ask for at most its replicas and its surge.

    The largest number of replicas that the Deployment ever had counts (`rolling.go`, `NewRSNewReplicas`).
    """

    def check(run: Run) -> str | None:
        most = note(run, "most replicas and surge")
        asked: dict[str, int] = {}
        for one in run.objects(REPLICA_SETS):
            owner = controller_of(one)
            if owner is not None and owner[0] == "Deployment":
                asked[owner[1]] = asked.get(owner[1], 0) + one.tree["spec"].get("replicas", 1)
        for deployment in run.objects(DEPLOYMENTS):
            spec = deployment.tree["spec"]
            allowed = _raise(most, deployment.uid, spec.get("replicas", 1) + _surge(spec))
            if asked.get(deployment.uid, 0) > allowed:
                return (
                    f"the ReplicaSets of {deployment.key} ask for {asked[deployment.uid]} pods, "
                    f"and replicas and surge were {allowed} at most"
                )
        return None

    looks_at = stored(REPLICA_SETS, DEPLOYMENTS)
    return Invariant("a rollout keeps to its surge", check, (after,), looks_at=looks_at)


def _surge(spec: dict[str, Any]) -> int:
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0
    surge = (strategy.get("rollingUpdate") or {}).get("maxSurge", "25%")
    return scaled_value(surge, spec.get("replicas", 1), round_up=True)


def _is_ending(job: Object[Any]) -> bool:
    return has_condition(job, "Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")


def jobs_count_what_ended(after: str) -> Invariant:
    """A Job counts no pod that has not ended, and none twice.

    `status.succeeded` is at most the number of its pods that were ever stored as succeeded; `status.failed` at most
    those that failed, or were deleted (`job_controller.go`, tracking with finalizers). A Job that is coming to its end
    counts its active pods as failed before it deletes them.
    """

    def check(run: Run) -> str | None:
        all_ended = note(run, "ended pods of Jobs")
        for uid, pods in pods_by_owner(run, "Job").items():
            ended = all_ended.setdefault(uid, {"succeeded": set(), "failed": set()})
            for pod in pods:
                phase = pod.tree.get("status", {}).get("phase")
                if phase == "Succeeded":
                    ended["succeeded"].add(pod.uid)
                elif phase == "Failed" or pod.metadata.get("deletionTimestamp"):
                    ended["failed"].add(pod.uid)
        for job in run.objects(JOBS):
            status = job.tree.get("status", {})
            ended = all_ended.get(job.uid, {})
            for outcome in ("succeeded",) if _is_ending(job) else ("succeeded", "failed"):
                counted, there = status.get(outcome, 0), len(ended.get(outcome, ()))
                if counted > there:
                    return f"Job {job.key} counts {counted} pods as {outcome}, and {there} were"
        return None

    looks_at = stored(PODS, JOBS)
    return Invariant("a Job counts what has ended", check, (after,), looks_at=looks_at)


def finished_jobs_let_their_pods_go() -> Invariant:
    """At rest no pod of a finished Job, or of one that is gone, is held by the finalizer that tracks it."""

    def check(run: Run) -> str | None:
        going_on = {
            job.uid for job in run.objects(JOBS) if not has_condition(job, "Complete", "Failed")
        }
        for uid, pods in pods_by_owner(run, "Job").items():
            for pod in pods:
                if uid not in going_on and TRACKED in (pod.metadata.get("finalizers") or ()):
                    return f"{pod.key} is still tracked, and its Job is over"
        return None

    return Invariant("a Job that is over lets its pods go", check)
