"""The invariant of taint eviction: a deletion is scheduled for exactly the pods that their node's taints drive away.

Upstream: pkg/controller/tainteviction/taint_eviction.go (`processPodOnNode`) and timed_workers.go (`TimedWorkerQueue`:
a worker that has run leaves the queue, so that a later pod of the name can be scheduled). A timer that nothing cancels
deletes a pod which tolerates everything by then; one that is missing leaves a pod where it must not be. Both show only
at the time: pods go for other reasons as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.client.resources import NODES, PODS
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import CONNECTED, living_managers, parts_of_managers
from controlplane.scenarios.invariants.views import PODS as STORED_PODS

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = ["evictions_follow_taints"]

DELETING: Final = "taint-eviction.delete"
"""The tasks that carry out deletions."""


def _settled(probe: Any) -> Any:
    """Return the controller if it has taken in all that the process received, None otherwise."""
    pods, nodes = probe.informers.get(PODS), probe.informers.get(NODES)
    if probe.taint_eviction is None or pods is None or nodes is None:
        return None
    told = pods.has_synced and nodes.has_synced and pods.told_all and nodes.told_all
    return probe.taint_eviction if told and not probe.taint_eviction.has_changes else None


def _view(run: Run) -> Any:
    """All that an answer depends on, of the managers."""
    found: list[Any] = []
    for probe, eviction, pods, nodes in parts_of_managers(
        run, "evictions follow taints: parts", _parts
    ):
        if eviction is None or eviction.has_changes or not (pods.told_all and nodes.told_all):
            continue
        scheduled = eviction.scheduled()
        found += [pods.store.resource_version, nodes.store.resource_version, scheduled]
        found += [_deleting(run, probe, scheduled)]
    return found


def _parts(probe: Any) -> tuple[Any, Any, Any, Any]:
    """A manager, its controller of taint evictions, and its informers of pods and nodes."""
    return probe, probe.taint_eviction, probe.informers.get(PODS), probe.informers.get(NODES)


def _deleting(run: Run, probe: Any, scheduled: Any) -> int:
    """The number of deletions that are carried out; 0 where none counts as begun."""
    if all(timer is not None for _, timer in scheduled.values()):
        return 0
    return run.world.count_tasks(probe.name, DELETING)


def evictions_follow_taints(*managers: str) -> Invariant:
    """After each step of these controller managers, when they have taken in what they received: each pod in the cache
    that its node in the cache drives away is scheduled for deletion, no other is, and what has begun goes on.

    A deletion that was decided on for an earlier pod of the name does not count, nor one on a node that is gone:
    upstream cancels neither. Once a message was lost a deletion may have been given up, so nothing has to be scheduled.
    """

    def check(run: Run) -> str | None:
        for probe in living_managers(run):
            eviction = _settled(probe)
            if eviction is None:
                continue
            scheduled = eviction.scheduled()
            begun = [key for key, (_, timer) in scheduled.items() if timer is None]
            running = _deleting(run, probe, scheduled)
            if len(begun) > running:
                return f"deletions of {', '.join(begun)} count as begun, and {running} go on"
            said = _too_many(probe, scheduled)
            if said is None and run.world.faults.injected <= CONNECTED:
                said = _too_few(run, probe, scheduled)
            if said is not None:
                return said
        return None

    return Invariant("evictions follow taints", check, managers, looks_at=_view)


def _too_many(probe: Any, scheduled: Any) -> str | None:
    """Say which timer nothing asks for any more."""
    there = {pod.key: pod for pod in probe.informers[PODS].store}
    for key, (uid, timer) in scheduled.items():
        pod = there.get(key)
        if timer is None or (pod is not None and pod.uid != uid):
            continue
        if pod is None:
            return f"a deletion of {key} is scheduled, and there is no such pod"
        if _is_driven_away(probe, pod) is False:
            return f"a deletion of {key} is scheduled, and its node lets it stay"
    return None


def _too_few(run: Run, probe: Any, scheduled: Any) -> str | None:
    """Say which pod is neither scheduled nor marked."""
    stored: dict[str, Object[Any]] | None = None
    for pod in probe.informers[PODS].store:
        if pod.key in scheduled or pod.metadata.get("deletionTimestamp"):
            continue
        if not _is_driven_away(probe, pod):
            continue
        if stored is None:
            stored = {each.uid: each for each in run.objects(STORED_PODS)}
        now = stored.get(pod.uid)
        if now is not None and not now.metadata.get("deletionTimestamp"):
            return f"{pod.key} is driven away by its node, and no deletion is scheduled"
    return None


def _is_driven_away(probe: Any, pod: Object[Any]) -> bool | None:
    """Return whether a taint of a pod's node is not tolerated, or only for a time; None without such a node."""
    from controlplane.controllers.lifecycle.taint_eviction import matching, no_execute, shortest

    view: Any = pod.view
    if not view.spec.node_name:
        return None
    node = probe.informers[NODES].store.peek(view.spec.node_name)
    if node is None:
        return None
    used = matching(no_execute(node.view.spec.taints), view.spec.tolerations)
    return used is None or shortest(used) is not None
