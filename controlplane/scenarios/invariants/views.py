"""The views that invariants read: a value is replaced whenever an answer may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

PODS = "/registry/pods/"


def the_store(run: Run) -> Any:
    """All that the API server stores: the revision of the last write, in which life of the store."""
    store = run.cluster.store
    return store.incarnation, store.revision


def stored_pods(run: Run) -> Any:
    """The pods that the API server stores: the revision of the last write to one, in which life of the store."""
    store = run.cluster.store
    return store.incarnation, store.keyspace(PODS).latest


def the_queue(run: Run) -> Any:
    """The scheduling queue, and all that stands in it."""
    core = run.cluster.scheduler.core
    return None if core is None else (core, core.queue.changes)


def the_cache(run: Run) -> Any:
    """Nodes and pods as the scheduler counts them."""
    core = run.cluster.scheduler.core
    return None if core is None else (core, core.cache.generation)


def the_room(run: Run) -> Any:
    """The scheduler's preemptors and victims, with the waiting pods and the pods that count beside them."""
    core = run.cluster.scheduler.core
    if core is None:
        return None
    tasks = core.evictions
    last = tasks[-1] if tasks else None
    return core, core.queue.changes, core.cache.generation, len(tasks), last


def the_instant(run: Run) -> Any:
    """The scheduler that runs, and the time: of laws that one look in each instant is enough for."""
    return run.cluster.scheduler.core, run.world.now


def controller_of(obj: Object[Any]) -> tuple[str, str] | None:
    """Kind and uid of the controller in an object's references."""
    for each in obj.metadata.get("ownerReferences") or ():
        if each.get("controller"):
            return each["kind"], each["uid"]
    return None
