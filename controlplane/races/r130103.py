"""Kubernetes issue 130103: a Job makes a pod too many after it has succeeded.

A pod of a Job that wants one completion succeeds. In one turn the controller removes the pod's finalizer and takes
its uid from the uncounted into the counter. The next turn sees the pod without its finalizer, but the Job still as it
was before the pod was noted: nothing has succeeded, nothing is uncounted, and it makes another pod.

From 1.36 (gate StaleControllerConsistencyJob) a turn begins once the caches show what the one before has written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.r105200 import build, job
from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User

SEEN = "uids of pods"


async def runs(user: User) -> None:
    """A Job of one completion runs to its end without any deletion."""
    await user.create(job(1, 1))
    await user.sleep(400)


def one_pod(run: Run) -> str | None:
    """No pod fails and none is deleted, so there is never more than one."""
    seen: dict[str, None] = run.notes.setdefault(SEEN, {})
    for pod in run.objects("/registry/pods/"):
        seen[pod.uid] = None
    return f"{len(seen)} pods were made for one completion" if len(seen) > 1 else None


SCENARIO = Scenario(
    "race 130103",
    workload=runs,
    build=build,
    invariants=(Invariant("one pod for one completion", one_pod, ("etcd",)),),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    title="a Job makes a pod too many after it has succeeded",
    issue="130103",
    releases="bug: until 1.35; fix: 1.36 (gate StaleControllerConsistencyJob)",
    component="controllers",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="after every step of the store, one pod at most was made for a Job of one completion",
    scenario=SCENARIO,
    schedules=60,
    broken={"release": "1.35"},
    fixed={"release": "1.36"},
)
