"""Invariants of workloads that wait for Kueue: in one place, for a reason that is told, and not for what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.kueue import processes, revision, trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controlplane.kueue.process.controller import Kueue
    from controlplane.kueue.workload.info import Info
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "ADMITTED_IN_ONE_QUEUE",
    "AT_REST_COUNTS_ARE_RIGHT",
    "AT_REST_NOTHING_PARKED_COULD_PREEMPT",
    "AT_REST_NOTHING_THAT_FITS_IS_PARKED",
    "AT_REST_NOTHING_WAITS_FOR_A_STOP_THAT_IS_OVER",
    "AT_REST_PREEMPTIONS_HAVE_COME",
    "AT_REST_THE_PARKED_SAY_WHY",
    "FLAVORS_ARE_ASSIGNED",
    "PREEMPTED_ONCE",
    "THE_FINISHED_STAY_SO",
    "WAITS_IN_ONE_PLACE",
    "WHAT_RUNS_IS_NOT_HELD_BACK",
]

STOPS = ("ClusterQueueStopped", "LocalQueueStopped")
"""Reasons of the condition Requeued of a workload whose queue was stopped."""
WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
PREEMPTED = "Preempted"
EVICTIONS = "kueue evictions"
"""In the notes of the run: the evictions of each workload, by uid, and whether it is evicted now."""
ADMISSIONS = "kueue admissions"
"""In the notes of the run: the queue of which each workload has quota, by uid."""
ENDS = "kueue ends"
"""In the notes of the run: the uids of the workloads that have finished."""


def _noting(note: str) -> Callable[[Run], None]:
    """Return the begin of an invariant that keeps a dictionary in this note."""

    def begin(run: Run) -> None:
        run.notes[note] = {}

    return begin


# -- places ----------------------------------------------------------------------------------------


def _places(run: Run) -> str | None:
    for kueue in processes(run):
        for name in kueue.manager.cluster_queues():
            queue = kueue.manager.cluster_queue(name)
            if queue is None:
                continue
            pending = queue.workloads
            seen = [info.key for info in pending]
            if len(seen) != len(set(seen)):
                twice = next(key for key in seen if seen.count(key) > 1)
                held = " (which the scheduler holds)" if pending.is_inflight(twice) else ""
                return f"{twice}{held} waits in two places of {name}"
            for info in pending.active:
                # A new workload of the name waits rightly, and so does one that has moved to another queue.
                if kueue.scheduler.held.get(info.key) == (info.uid, name):
                    return f"{info.key} is in the scheduler's hands, and in the heap of {name}"
    return None


def _unexplained(run: Run) -> str | None:
    """Name a parked workload whose status does not say why."""
    from controlplane.kueue.workload.status import QUOTA_RESERVED, find, key_of

    stored = {key_of(tree): tree for tree in trees(run, "workloads")}
    for kueue in processes(run):
        for key in _tried_and_parked(kueue):
            tree = stored.get(key)
            if tree is not None and not (find(tree, QUOTA_RESERVED) or {}).get("message"):
                return f"{key} is parked, and its status does not say why"
    return None


def _tried_and_parked(kueue: Kueue) -> Iterator[str]:
    """The parked workloads but those that were parked untried, like others of their shape."""
    for name in kueue.manager.cluster_queues():
        queue = kueue.manager.cluster_queue(name)
        if queue is not None and kueue.cache.cluster_queue_active(name):
            for key, info in queue.workloads.inadmissible.items():
                if info.last_evaluated_generation:
                    yield key


# -- what could be -----------------------------------------------------------------------------------


def _parked(run: Run) -> str | None:
    """Name a parked workload that would be admitted if it was tried."""
    return next((text for kueue in processes(run) for text in _possible(kueue, fits=True)), None)


def _barred(run: Run) -> str | None:
    """Name a parked workload that would preempt others if it was tried."""
    return next((text for kueue in processes(run) for text in _possible(kueue, fits=False)), None)


def _possible(kueue: Kueue, *, fits: bool) -> Iterator[str]:
    from dataclasses import replace

    from controlplane.kueue.flavors.modes import Mode
    from controlplane.kueue.preemption.candidates import Rules
    from controlplane.kueue.queues.cluster_queue import backoff_is_over
    from controlplane.kueue.scheduler.assignments import Search
    from controlplane.kueue.scheduler.entry import Entry
    from controlplane.kueue.workload.admissibility import inadmissible

    settings, now = kueue.settings, kueue.clock()
    snapshot = kueue.cache.snapshot()
    search = Search(snapshot, Rules(settings.gates, settings.strategies), now, 0)
    for name, queue in snapshot.queues.items():
        waiting = kueue.manager.cluster_queue(name)
        for info in () if waiting is None else waiting.workloads.inadmissible.values():
            namespace = kueue.reader.get("Namespace", "", info.namespace)
            if inadmissible(info.obj, namespace, queue.selector, ()) is not None:
                continue
            if not backoff_is_over(info.obj, now):
                continue
            fresh = replace(info, cluster_queue=name, last_assignment=None)
            assignment, targets = search.run(Entry(fresh, queue))
            if fits and assignment.mode() is Mode.FIT:
                yield f"{info.key} is parked in {name}, and would fit"
            victims = [each.info for each in targets]
            if not fits and victims and all(map(_as_reserved, victims)):
                yield f"{info.key} is parked in {name}, and could preempt {victims[0].key}"


def _as_reserved(victim: Info) -> bool:
    """Return whether a workload is unchanged since it got its quota: a change of its priority wakes no other."""
    from controlplane.kueue.workload.status import QUOTA_RESERVED, find

    reserved = find(victim.obj, QUOTA_RESERVED) or {}
    return bool(reserved.get("observedGeneration", 0) == victim.generation)


# -- preemption --------------------------------------------------------------------------------------


def _never_came(run: Run) -> str | None:
    """Name a workload that waits for preempted workloads while none is being preempted."""
    from controlplane.kueue.workload import status

    stored = list(trees(run, "workloads"))
    going = [
        tree for tree in stored if status.is_evicted(tree) and status.has_quota_reservation(tree)
    ]
    for tree in stored:
        reason = (status.find(tree, status.QUOTA_RESERVED) or {}).get("reason")
        if reason == WAITING_FOR_PREEMPTED and status.is_active(tree) and not going:
            return (
                f"{status.key_of(tree)} waits for preempted workloads, and none is being preempted"
            )
    for kueue in processes(run):
        for key in kueue.expectations.expected():
            if not any(status.key_of(tree) == key for tree in going):
                return f"the preemption of {key} was asked for, and has not come"
    return None


def _again(run: Run) -> str | None:
    """Name a workload whose preemption was reported more often than it was evicted."""
    from controlplane.kueue.workload import status

    known: dict[str, tuple[int, bool]] = run.notes[EVICTIONS]
    for tree in trees(run, "workloads"):
        uid, evicted = tree["metadata"]["uid"], status.is_evicted(tree)
        count, before = known.get(uid, (0, False))
        known[uid] = count + (evicted and not before), evicted
    told: dict[str, int] = {}
    for obj in run.objects("/registry/events/"):
        event = obj.tree
        about = event.get("involvedObject") or event.get("regarding") or {}
        if event.get("reason") == PREEMPTED and about.get("kind") == "Workload":
            count = max(event.get("count") or 0, (event.get("series") or {}).get("count") or 0, 1)
            told[about["uid"]] = told.get(about["uid"], 0) + count
    for uid, count in told.items():
        evictions = known.get(uid, (0, False))[0]
        if count > evictions:
            return f"a workload was preempted {count} times, and evicted {evictions} times"
    return None


def _looks_at_events(run: Run) -> object:
    return revision(run), [obj.resource_version for obj in run.objects("/registry/events/")]


# -- status ----------------------------------------------------------------------------------------


def _held_back(run: Run) -> str | None:
    """Name a workload that runs and is declared to wait for another try."""
    from controlplane.kueue.workload import status

    for tree in trees(run, "workloads"):
        requeued = status.find(tree, status.REQUEUED)
        if (
            status.is_admitted(tree)
            and not status.is_evicted(tree)
            and requeued is not None
            and requeued["status"] == "False"
        ):
            return f"{status.key_of(tree)} is admitted, and its condition Requeued is False"
    return None


def _held_by_the_past(run: Run) -> str | None:
    """Name a workload that is held back as its queue was stopped, which it no longer is."""
    from controlplane.kueue.controllers.workload import stop_policy
    from controlplane.kueue.workload import status

    local_queues = {status.key_of(tree): tree for tree in trees(run, "localqueues")}
    cluster_queues = {tree["metadata"]["name"]: tree for tree in trees(run, "clusterqueues")}
    for tree in trees(run, "workloads"):
        requeued = status.find(tree, status.REQUEUED)
        if requeued is None or requeued["status"] != "False" or status.is_finished(tree):
            continue
        if not status.is_active(tree) or requeued["reason"] not in STOPS:
            continue
        local = local_queues.get(f"{tree['metadata']['namespace']}/{tree['spec'].get('queueName')}")
        queue = None if local is None else cluster_queues.get(local["spec"]["clusterQueue"])
        if local is None or queue is None:
            continue
        if stop_policy(local) == stop_policy(queue) == "None":
            return (
                f"{status.key_of(tree)} waits ({requeued['reason']}), and its queue is not stopped"
            )
    return None


def _moved(run: Run) -> str | None:
    """Name a workload whose quota went from one queue to another without being handed back."""
    from controlplane.kueue.workload import status

    known: dict[str, str] = run.notes[ADMISSIONS]
    for tree in trees(run, "workloads"):
        uid = tree["metadata"]["uid"]
        new = (status.status_of(tree).get("admission") or {}).get("clusterQueue", "")
        old, known[uid] = known.get(uid, ""), new
        if old and new and old != new:
            return f"{status.key_of(tree)} had quota of {old}, and was admitted in {new}"
    return None


def _undone(run: Run) -> str | None:
    """Name a workload whose end was taken back."""
    from controlplane.kueue.workload import status

    known: dict[str, None] = run.notes[ENDS]
    for tree in trees(run, "workloads"):
        uid = tree["metadata"]["uid"]
        if status.is_finished(tree):
            known[uid] = None
        elif uid in known:
            return f"{status.key_of(tree)} was finished, and is not any more"
    return None


def _without_flavors(run: Run) -> str | None:
    """Name a workload that holds quota with no flavor for what it asks for."""
    from controlplane.kueue.workload import status

    for tree in trees(run, "workloads"):
        if not status.has_quota_reservation(tree) or status.is_finished(tree):
            continue
        admission = status.status_of(tree)["admission"]
        assigned = {each["name"]: each for each in admission.get("podSetAssignments") or ()}
        for pod_set in tree["spec"]["podSets"]:
            if not assigned.get(pod_set["name"], {}).get("flavors"):
                return f"{status.key_of(tree)} holds quota, and pod set {pod_set['name']} has no flavor"
    return None


def _miscounted(run: Run) -> str | None:
    """Name a ClusterQueue whose status counts other workloads than there are."""
    from controlplane.kueue.workload import status

    if not any(True for _ in processes(run)):
        return None
    reserving: dict[str, int] = {}
    admitted: dict[str, int] = {}
    for tree in trees(run, "workloads"):
        if status.active_quota_reservation(tree):
            name = status.status_of(tree)["admission"]["clusterQueue"]
            reserving[name] = reserving.get(name, 0) + 1
            admitted[name] = admitted.get(name, 0) + status.is_admitted(tree)
    for queue in trees(run, "clusterqueues"):
        name, shown = queue["metadata"]["name"], queue.get("status") or {}
        for field, counts in (("reservingWorkloads", reserving), ("admittedWorkloads", admitted)):
            if (shown.get(field) or 0) != counts.get(name, 0):
                return f"ClusterQueue {name} shows {shown.get(field) or 0} {field}, and there are {counts.get(name, 0)}"
    return None


WAITS_IN_ONE_PLACE = Invariant("a workload waits in one place", _places, ("kueue",))
AT_REST_THE_PARKED_SAY_WHY = Invariant("a parked workload says why it waits", _unexplained)
AT_REST_NOTHING_THAT_FITS_IS_PARKED = Invariant("no workload that fits is parked", _parked)
AT_REST_NOTHING_PARKED_COULD_PREEMPT = Invariant(
    "no workload that could preempt others is parked", _barred
)
"""Under fair sharing: no queue is kept below its share by workloads that it may preempt."""
AT_REST_PREEMPTIONS_HAVE_COME = Invariant(
    "a workload that preempts others does not wait for what does not come", _never_came
)
PREEMPTED_ONCE = Invariant(
    "a workload is preempted once for each eviction", _again, ("apiserver",),
    begin=_noting(EVICTIONS), looks_at=_looks_at_events,
)  # fmt: skip
WHAT_RUNS_IS_NOT_HELD_BACK = Invariant(
    "an admitted workload is not held back", _held_back, ("apiserver",), looks_at=revision,
)  # fmt: skip
AT_REST_NOTHING_WAITS_FOR_A_STOP_THAT_IS_OVER = Invariant(
    "a workload does not wait for a stop that is over", _held_by_the_past
)
ADMITTED_IN_ONE_QUEUE = Invariant(
    "a workload is admitted in one queue at a time", _moved, ("apiserver",),
    begin=_noting(ADMISSIONS), looks_at=revision,
)  # fmt: skip
THE_FINISHED_STAY_SO = Invariant(
    "a finished workload stays finished", _undone, ("apiserver",),
    begin=_noting(ENDS), looks_at=revision,
)  # fmt: skip
FLAVORS_ARE_ASSIGNED = Invariant(
    "a workload that holds quota has flavors", _without_flavors, ("apiserver",), looks_at=revision,
)  # fmt: skip
AT_REST_COUNTS_ARE_RIGHT = Invariant("the counts of a ClusterQueue are right", _miscounted)
