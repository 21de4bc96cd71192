"""Invariants of the objects that controllers create: no orphans and no duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import (
    PODS,
    all_objects,
    controller_of,
    is_active,
    stored_pods,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

INDEX = "batch.kubernetes.io/job-completion-index"


def _active_of(run: Run, kind: str) -> Iterator[tuple[Object[Any], str]]:
    """The pods of owners of a kind that have neither ended nor begun to go, with the owner's uid."""
    for obj in run.objects(PODS):
        owner = controller_of(obj)
        if owner is not None and owner[0] == kind and is_active(obj):
            yield obj, owner[1]


def no_orphans() -> Invariant:
    """Once nothing moves, every controller that an object names in its references exists, by uid."""

    def check(run: Run) -> str | None:
        stored = list(all_objects(run))
        living = {obj.uid for obj in stored}
        for obj in stored:
            owner = controller_of(obj)
            if owner is not None and owner[1] not in living:
                return f"{obj.tree['kind']} {obj.key} is left over of a {owner[0]} that is gone"
        return None

    return Invariant("nothing outlives its controller", check)


def one_active_pod_an_index(after: str) -> Invariant:
    """No two active pods of one Job have the same completion index."""

    def check(run: Run) -> str | None:
        seen: dict[tuple[str, str], str] = {}
        for obj, owner in _active_of(run, "Job"):
            index = (obj.metadata.get("annotations") or {}).get(INDEX)
            if index is None:
                continue
            other = seen.setdefault((owner, index), obj.key)
            if other != obj.key:
                return f"{other} and {obj.key} are both active for index {index}"
        return None

    return Invariant("one active pod for an index", check, (after,), looks_at=stored_pods)


def one_daemon_a_node(after: str) -> Invariant:
    """No two active pods of one DaemonSet, which does not surge, are for the same node."""

    def check(run: Run) -> str | None:
        from controlplane.controllers.workloads.daemon.placement import NoTargetNode, target_node

        seen: dict[tuple[str, str], str] = {}
        for obj, owner in _active_of(run, "DaemonSet"):
            try:
                node = target_node(obj.view)
            except NoTargetNode:
                continue
            other = seen.setdefault((owner, node), obj.key)
            if other != obj.key:
                return f"{other} and {obj.key} are both there for {node}"
        return None

    return Invariant("one daemon on a node", check, (after,), looks_at=stored_pods)


def one_life_of_an_ordinal(*nodes: str) -> Invariant:
    """No two pods that had one name one after the other have containers running at once, on these nodes."""

    def check(run: Run) -> str | None:
        lives = _lives(run)
        if not lives:
            return None
        machines = run.cluster.machines
        seen: dict[str, str] = {}
        for node in nodes:
            if node not in machines:
                continue
            for uid, sandbox in machines[node].sandboxes.items():
                if uid not in lives or not sandbox.running():
                    continue
                if seen.setdefault(lives[uid], uid) != uid:
                    return f"two pods run as {lives[uid]}: {seen[lives[uid]]} and {uid}"
        return None

    return Invariant("one running pod for an ordinal", check, nodes)


def _lives(run: Run) -> Mapping[str, str]:
    """The keys of all pods of StatefulSets that were ever seen stored, by uid."""
    known: dict[str, str]
    seen, known = run.notes.setdefault("pods of StatefulSets", (None, {}))
    stored = stored_pods(run)
    if stored != seen:
        for obj in run.objects(PODS):
            owner = controller_of(obj)
            if owner is not None and owner[0] == "StatefulSet":
                known[obj.uid] = obj.key
        run.notes["pods of StatefulSets"] = stored, known
    return known
