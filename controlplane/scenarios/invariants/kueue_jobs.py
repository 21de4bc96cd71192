"""Invariants of Jobs under Kueue: running Jobs are admitted, and admitted Jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.kueue.names import ELASTIC_JOB
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.kueue import trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.tree import Tree
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "AT_REST_ADMITTED_JOBS_RUN",
    "AT_REST_ELASTIC_PODS_HAVE_QUOTA",
    "AT_REST_ONE_WORKLOAD_FOR_EACH_JOB",
    "AT_REST_RUNNING_JOBS_ARE_ADMITTED",
    "JOBS",
    "is_elastic",
]

JOBS = "/registry/jobs/"
QUEUE = "kueue.x-k8s.io/queue-name"


def _jobs(run: Run) -> Iterator[Tree]:
    """Jobs with a queue that are not over and not being deleted."""
    for obj in run.objects(JOBS):
        metadata = obj.tree["metadata"]
        over = any(
            each["type"] in ("Complete", "Failed") and each["status"] == "True"
            for each in (obj.tree.get("status") or {}).get("conditions") or ()
        )
        queued = QUEUE in (metadata.get("labels") or {})
        if queued and not over and not metadata.get("deletionTimestamp"):
            yield obj.tree


def _of_jobs(run: Run) -> dict[str, list[Tree]]:
    """The unfinished workloads by the uid of the job that owns them."""
    from controlplane.kueue.workload import status

    found: dict[str, list[Tree]] = {}
    for tree in trees(run, "workloads"):
        if not status.is_finished(tree):
            for owner in tree["metadata"].get("ownerReferences") or ():
                found.setdefault(owner["uid"], []).append(tree)
    return found


def _admitted(workloads: list[Tree]) -> bool:
    from controlplane.kueue.workload import status

    return any(status.is_admitted(tree) and not status.is_evicted(tree) for tree in workloads)


def _unadmitted(run: Run) -> str | None:
    from controlplane.kueue.jobs.batch import is_suspended

    owned = _of_jobs(run)
    for job in _jobs(run):
        metadata = job["metadata"]
        if not is_suspended(job) and not _admitted(owned.get(metadata["uid"], [])):
            return f"Job {metadata['name']} runs, and no admitted workload is its own"
    return None


def _stopped(run: Run) -> str | None:
    from controlplane.kueue.jobs.batch import is_suspended

    owned = _of_jobs(run)
    for job in _jobs(run):
        metadata = job["metadata"]
        if is_suspended(job) and _admitted(owned.get(metadata["uid"], [])):
            return f"Job {metadata['name']} is suspended, and its workload is admitted"
    return None


def _several(run: Run) -> str | None:
    owned = _of_jobs(run)
    for job in _jobs(run):
        found = owned.get(job["metadata"]["uid"], [])
        if is_elastic(job):
            # One that is to take the place of the one with quota may wait beside it.
            found = [each for each in found if not _replaces_one_of(each, found)]
        if len(found) != 1:
            return f"Job {job['metadata']['name']} has {len(found)} workloads"
    return None


def is_elastic(job: Tree) -> bool:
    """Return whether a Job may grow and shrink while it runs."""
    return (job["metadata"].get("annotations") or {}).get(ELASTIC_JOB) == "true"


def _replaces_one_of(workload: Tree, others: list[Tree]) -> bool:
    from controlplane.kueue.scheduler.assignments import SLICE_REPLACEMENT
    from controlplane.kueue.workload import status

    key = (workload["metadata"].get("annotations") or {}).get(SLICE_REPLACEMENT)
    waits = not status.has_quota_reservation(workload)
    return waits and any(status.key_of(each) == key for each in others)


def _beyond_quota(run: Run) -> str | None:
    """Name an elastic Job of which more pods were let go than its workloads have quota for."""
    from controlplane.kueue.workload import status

    owned = _of_jobs(run)
    running: dict[str, int] = {}
    for obj in run.objects("/registry/pods/"):
        tree = obj.tree
        held = [each["name"] for each in tree["spec"].get("schedulingGates") or ()]
        if ELASTIC_JOB in held or tree["metadata"].get("deletionTimestamp"):
            continue
        for owner in tree["metadata"].get("ownerReferences") or ():
            running[owner["uid"]] = running.get(owner["uid"], 0) + 1
    for job in _jobs(run):
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        granted = sum(
            tree["spec"]["podSets"][0]["count"]
            for tree in owned.get(uid, [])
            if status.has_quota_reservation(tree)
        )
        if is_elastic(job) and running.get(uid, 0) > granted:
            return f"{running[uid]} pods of Job {name} were let go, and it has quota for {granted}"
    return None


AT_REST_RUNNING_JOBS_ARE_ADMITTED = Invariant("no job runs without admission", _unadmitted)
AT_REST_ADMITTED_JOBS_RUN = Invariant("a job whose workload is admitted runs", _stopped)
AT_REST_ELASTIC_PODS_HAVE_QUOTA = Invariant(
    "no more pods of an elastic job are let go than it has quota for", _beyond_quota
)
AT_REST_ONE_WORKLOAD_FOR_EACH_JOB = Invariant("a job has one workload", _several)
