"""The views that invariants read: a value is replaced whenever an answer may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controlplane.api.object import Object
    from controlplane.controllers.loops.manager import Probe
    from controlplane.scenarios.engine.run import Run

PODS = "/registry/pods/"
ENDED = ("Succeeded", "Failed")
"""The phases of a pod that has ended."""


def the_store(run: Run) -> Any:
    """All that the API server stores: the revision of the last write, in which life of the store."""
    store = run.cluster.store
    return store.incarnation, store.revision


def stored(*prefixes: str) -> Callable[[Run], Any]:
    """Return a view of the stored objects below these prefixes: the revisions of their last writes."""

    def view(run: Run) -> Any:
        store = run.cluster.store
        return (store.incarnation, *(store.keyspace(prefix).latest for prefix in prefixes))

    return view


def all_objects(run: Run) -> Iterator[Object[Any]]:
    """Iterate over all stored objects."""
    for prefix in run.cluster.store.prefixes():
        yield from run.objects(prefix)


HARMLESS = frozenset(("cut", "heal", "delay", "hold", "release"))
"""Faults after which a controller still knows what it has written: messages are late, none is lost."""


CONNECTED = frozenset(("delay", "hold", "release", "crash", "restart"))
"""Faults after which a process that lives has every answer, and hears of every change, if late."""


def nothing_was_lost(run: Run) -> bool:
    """Return whether no process has died and no message was lost: controllers still know what they have written."""
    return bool(run.world.faults.injected <= HARMLESS)


ANSWERED = CONNECTED | {"fail", "freeze"}
"""The same, with plans that refuse a single request, which then does not arrive, or let the caches of a server lag."""


def living_managers(run: Run) -> list[Probe]:
    """The controller managers whose present lives have made their controllers: a probe outlives what it shows."""
    world = run.world
    return [
        each for each in run.cluster.managers if each.incarnation == world.incarnation(each.name)
    ]


def parts_of_managers(run: Run, name: str, make: Callable[[Probe], Any]) -> list[Any]:
    """Return the result of `make` for each manager, computed once per incarnation, for views taken at each step."""
    kept = note(run, name)
    found = []
    for probe in living_managers(run):
        known = kept.get(probe.name)
        if known is None or known[0] != probe.incarnation:
            known = kept[probe.name] = probe.incarnation, make(probe)
        found.append(known[1])
    return found


def note(run: Run, name: str) -> dict[str, Any]:
    """Return what an invariant keeps between its checks in one run, by uid."""
    found: dict[str, Any] = run.notes.setdefault(name, {})
    return found


stored_pods = stored(PODS)
"""The pods that the API server stores."""


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


def pods_by_owner(run: Run, kind: str) -> dict[str, list[Object[Any]]]:
    """Return the stored pods of owners of a kind, by the owner's uid."""
    found: dict[str, list[Object[Any]]] = {}
    for pod in run.objects(PODS):
        owner = controller_of(pod)
        if owner is not None and owner[0] == kind:
            found.setdefault(owner[1], []).append(pod)
    return found


def first_owners(run: Run) -> dict[str, str]:
    """Return the uid of the controller that each pod had when it was first seen stored, "" for none, by the pod's uid.

    An adopted pod is not of its owner's making.
    """
    found = note(run, "first owners of pods")
    for pod in run.objects(PODS):
        if pod.uid not in found:
            found[pod.uid] = (controller_of(pod) or ("", ""))[1]
    return found


def is_active(pod: Object[Any]) -> bool:
    """Return whether a pod has not ended and is not being deleted."""
    if pod.metadata.get("deletionTimestamp"):
        return False
    return pod.tree.get("status", {}).get("phase") not in ENDED


def has_condition(obj: Object[Any], *types: str) -> bool:
    """Return whether a condition of one of these types is True in an object's status."""
    return any(
        each.get("status") == "True" and each.get("type") in types
        for each in obj.tree.get("status", {}).get("conditions") or ()
    )
