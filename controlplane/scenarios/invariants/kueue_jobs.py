"""Invariants of Jobs under Kueue: running Jobs are admitted, and admitted Jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.kueue import trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.tree import Tree
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "AT_REST_ADMITTED_JOBS_RUN",
    "AT_REST_ONE_WORKLOAD_FOR_EACH_JOB",
    "AT_REST_RUNNING_JOBS_ARE_ADMITTED",
    "JOBS",
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
        count = len(owned.get(job["metadata"]["uid"], []))
        if count != 1:
            return f"Job {job['metadata']['name']} has {count} workloads"
    return None


AT_REST_RUNNING_JOBS_ARE_ADMITTED = Invariant("no job runs without admission", _unadmitted)
AT_REST_ADMITTED_JOBS_RUN = Invariant("a job whose workload is admitted runs", _stopped)
AT_REST_ONE_WORKLOAD_FOR_EACH_JOB = Invariant("a job has one workload", _several)
