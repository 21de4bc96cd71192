"""The record of a run with an operator: end state, history, messages, processes; plain values that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.scenarios.plans.passing import BACKGROUND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controlplane.api.tree import Tree
    from controlplane.apiserver.storage.store import Store
    from controlplane.scenarios.plans.outside import Seen

__all__ = ["Change", "Record", "StepResult", "changes_of", "family_of", "is_lock", "objects_of"]

LOCK: Final = "control-plane.alpha.kubernetes.io/leader"
"""Annotation of objects that serve as a lock."""
PEERINGS: Final = ("clusterkopfpeerings", "kopfpeerings")
"""Resources by which kopf elects a leader: each process keeps an entry in their status."""
_SKIPPED: Final = frozenset(
    (
        "events",
        "leases",
        "nodes",
        "csinodes",
        "apiservices",
        "flowschemas",
        "endpoints",
        "endpointslices",
    )
)
"""Resources that are not compared: written all the time, by the emulation itself, or after pods that are compared."""
_SYSTEM: Final = ("kube-system", "kube-public", "kube-node-lease")


@frozen
class Change:
    """One revision of an object: `tree` is None for its deletion, `before` None for its creation."""

    revision: int
    resource: str
    name: str
    tree: Any = field(default=None, repr=False)
    before: Any = field(default=None, repr=False)


@frozen
class StepResult:
    """A step of the workload, and what kept it from succeeding ("" if it did)."""

    step: str
    problem: str = ""


@frozen
class Record:
    """A run.

    `objects` by resource and name at its end, `changes` in the order of revisions, `seen` what passed at the
    operator's connections, `exits` the unwanted ends of processes, `outcomes` what became of the plan's lines
    (line, whether it was reached, note).
    """

    plan: tuple[str, ...]
    outcomes: tuple[tuple[str, bool, str], ...]
    steps: tuple[StepResult, ...]
    objects: dict[tuple[str, str], Tree] = field(repr=False)
    changes: tuple[Change, ...] = field(repr=False)
    seen: tuple[Seen, ...] = field(repr=False)
    family: frozenset[str] = field(default=frozenset(), repr=False)
    """The uids of the operator's own pods and of all that owns them or is owned by them."""
    exits: tuple[tuple[str, int], ...] = ()
    outputs: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    started: int = 0
    settled: bool = True
    verdict: str = ""
    virtual_s: float = 0.0
    wall_s: float = 0.0
    longest_gap_s: float = 0.0
    longest_pause_s: float = 0.0
    clients: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    """The names of the leases that the operator held."""
    drift_problem: str = ""
    """The reason why a drift could not be made."""

    @property
    def family_objects(self) -> list[tuple[str, str, Tree]]:
        """The operator's own objects at the end: resource, name and object."""
        return [
            (resource, name, tree)
            for (resource, name), tree in sorted(self.objects.items(), key=lambda item: item[0])
            if tree["metadata"].get("uid") in self.family
        ]

    @property
    def reached(self) -> bool:
        """Return whether every line of the plan was reached."""
        return all(reached for _, reached, _ in self.outcomes)


def is_lock(tree: Any) -> bool:
    """Return whether an object serves as a lock of a leader election."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    return isinstance(metadata, dict) and LOCK in (metadata.get("annotations") or {})


def resource_of(prefix: str) -> str:
    """Return the resource of a store's prefix."""
    return {"minions": "nodes"}.get(name := prefix.strip("/").rpartition("/")[2], name)


def objects_of(store: Store) -> Iterator[tuple[str, str, Tree]]:
    """Yield resource, name and tree of what is compared, as it is stored."""
    for prefix in store.prefixes():
        resource = resource_of(prefix)
        if is_compared(resource):
            for key, obj in store.keyspace(prefix).items():
                if not is_system(key) and not is_lock(obj.tree):
                    yield resource, key, obj.tree


def changes_of(store: Store, after: int) -> list[Change]:
    """Return the revisions of what is compared, since a revision."""
    found = []
    for prefix in store.prefixes():
        resource = resource_of(prefix)
        if not is_compared(resource):
            continue
        for event in store.keyspace(prefix).events_after(after):
            new = None if event.new is None else event.new.tree
            old = None if event.old is None else event.old.tree
            if not is_system(event.key) and not is_lock(new or old):
                found.append(Change(event.revision, resource, event.key, new, old))
    found.sort(key=lambda each: each.revision)
    return found


def is_compared(resource: str) -> bool:
    """Return whether objects of a resource are compared."""
    return resource not in _SKIPPED and resource not in BACKGROUND and resource not in PEERINGS


def is_system(key: str) -> bool:
    """Return whether an object belongs to the cluster itself."""
    namespace, _, name = key.rpartition("/")
    return namespace in _SYSTEM or name in (*_SYSTEM, "kubernetes", "kube-root-ca.crt")


def family_of(trees: Iterable[Tree], pods: Iterable[str]) -> frozenset[str]:
    """Return the uids of an operator's pods and of all that owns them or that they and their owners own."""
    owners: dict[str, list[str]] = {}
    owned: dict[str, list[str]] = {}
    for tree in trees:
        meta = tree["metadata"]
        for each in meta.get("ownerReferences") or ():
            owners.setdefault(meta.get("uid", ""), []).append(each.get("uid", ""))
            owned.setdefault(each.get("uid", ""), []).append(meta.get("uid", ""))
    found: set[str] = set()
    waiting = list(pods)
    while waiting:
        uid = waiting.pop()
        if uid not in found:
            found.add(uid)
            waiting += [*owners.get(uid, ()), *owned.get(uid, ())]
    return frozenset(found)
