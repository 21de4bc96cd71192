"""The status manager: the statuses of pods, and the versions that were sent to the API server.

Upstream: pkg/kubelet/status/status_manager.go. Statuses are known by uid and numbered: each change
raises the version of its pod, and what is above the version last sent is still to be sent. A sender
reads the pod by name first, so that a pod recreated under it is not written to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from controlplane.api.pod import CONFIG_MIRROR, Pod
from controlplane.api.tree import Tree
from controlplane.kubelet.pod.status import OWN_CONDITIONS, TERMINAL
from controlplane.sharing.alike import KEPT, alike_list, is_shared
from controlplane.sharing.memory import Memory

SYNC_PERIOD_S: Final = 10
"""A full pass, which also repairs what others overwrote."""
_IGNORED: Final = ("nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus")
"""Fields that others write."""


@attrs.frozen
class Versioned:
    """A status that has to be reported."""

    uid: str
    namespace: str
    name: str
    status: Tree
    version: int
    finished: bool = False
    """Nothing of the pod is left on the node: it may be deleted."""


class StatusManager:
    """The statuses of one node's pods. Lost with the process."""

    def __init__(self) -> None:
        self._known: dict[str, Versioned] = {}
        self._unsent: dict[str, None] = {}
        self._told_of: dict[str, int] = {}
        """The version up to which pods that got the status of another one count as reported (#82387)."""

    def get(self, uid: str) -> Tree | None:
        """The newest status of a pod."""
        found = self._known.get(uid)
        return None if found is None else found.status

    def set(self, pod: Pod, status: Tree) -> bool:
        """The newest status of a pod; whether there is anything to tell."""
        known = self._known.get(pod.uid)
        forced = pod.metadata.deletion_timestamp is not None
        if known is not None and known.status == status and not forced:
            return False
        finished = known is not None and known.finished
        self._put(pod, status, known, finished=finished)
        return True

    def terminate(self, pod: Pod) -> bool:
        """Nothing of the pod is left on the node. Whether there is anything to tell."""
        known = self._known.get(pod.uid)
        status = known.status if known is not None else pod.tree.get("status") or {}
        self._put(pod, status, known, finished=True)
        return True

    def _put(self, pod: Pod, status: Tree, known: Versioned | None, *, finished: bool) -> None:
        version = 1 if known is None else known.version + 1
        self._known[pod.uid] = Versioned(
            pod.uid, pod.namespace, pod.name, status, version, finished
        )
        if version > self._told_of.get(pod.uid, 0):
            self._unsent[pod.uid] = None

    def renew(self, uid: str) -> bool:
        """Report a status again after its receiver has gone; return whether there is one."""
        known = self._known.get(uid)
        if known is None:
            return False
        self._known[uid] = attrs.evolve(known, version=known.version + 1)
        self._unsent[uid] = None
        return True

    def forget(self, uid: str) -> None:
        """The pod is another one's now, or gone."""
        self._known.pop(uid, None)
        self._unsent.pop(uid, None)
        self._told_of.pop(uid, None)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget all other pods. Upstream: RemoveOrphanedStatuses."""
        kept = dict.fromkeys(uids)
        for uid in [uid for uid in self._known if uid not in kept]:
            self.forget(uid)

    def agreed(self, told: Versioned, shown: Tree) -> bool:
        """Return whether the API server now shows just what was reported: its tree then replaces an equal one."""
        if shown != told.status or self._known.get(told.uid) is not told:
            return False
        self._known[told.uid] = attrs.evolve(told, status=shown)
        return True

    # ------------------------------------------------------------------ what is to be sent

    def unsent(self) -> list[Versioned]:
        """Return the statuses that changed since they were last sent, in the order of their first change."""
        return [self._known[uid] for uid in self._unsent]

    def sent(self, told: Versioned, uid: str) -> None:
        """The API server has it, in the pod with this uid, which then counts as reported up to this version."""
        known = self._known.get(uid)
        if uid != told.uid:
            self._told_of[uid] = told.version
            if known is None or known.version <= told.version:
                self._unsent.pop(uid, None)
        elif known is not None and known.version == told.version:
            self._unsent.pop(uid, None)

    def to_send(self, pods: Iterable[tuple[str, Pod]]) -> list[Versioned]:
        """A full pass: what is unsent, what the API server shows otherwise, and what may be deleted now.

        `pods` are the objects as the API server last sent them, each with the uid that it is known by here.
        """
        found = {each.uid: each for each in self.unsent()}
        for uid, pod in pods:
            known = self._known.get(uid)
            if known is None or uid in found:
                continue
            if can_be_deleted(pod, known) or differs(pod.tree.get("status") or {}, known.status):
                found[uid] = known
        return list(found.values())


def can_be_deleted(pod: Pod, known: Versioned) -> bool:
    """Return whether the object may go: it is to be deleted, has ended, and nothing is left of it."""
    return (
        pod.metadata.deletion_timestamp is not None
        and CONFIG_MIRROR not in pod.annotations
        and pod.status.phase in TERMINAL
        and known.finished
    )


def differs(api: Tree, known: Tree) -> bool:
    """Return whether the API server shows something else than the kubelet says, apart from what others write."""
    for key, value in api.items():
        if key not in _COMPARED_APART and (key not in known or known[key] != value):
            return True
    if any(key not in api and key not in _COMPARED_APART for key in known):
        return True
    mine, theirs = api.get("conditions") or [], known.get("conditions") or []
    if mine is theirs:
        return False
    pair = (id(mine), id(theirs))
    same = _same.known.get(pair)
    if same is None:
        same = (mine, theirs, _own(mine) == _own(theirs))
        if is_shared(mine) and is_shared(theirs):
            _same.keep(pair, same)
    return not same[2]


_COMPARED_APART: Final = frozenset(("conditions", *_IGNORED))
_same: Final[Memory[tuple[int, int], tuple[list[Tree], list[Tree], bool]]] = Memory(
    "conditions that are the same", KEPT
)
"""Results of comparing two lists of conditions, by the identity of both, which an entry keeps alive."""


def _own(conditions: Sequence[Tree]) -> list[Any]:
    """Return the kubelet's own conditions."""
    found = [item for item in conditions if item["type"] in OWN_CONDITIONS]
    found.sort(key=lambda item: str(item["type"]))
    return [[item.get(key) for key in ("type", "status", "reason", "message")] for item in found]


def merged(api: Tree, known: Tree, *, held: bool = False) -> Tree:
    """Return the status to write: the kubelet's, with the conditions of others as the API server has them.

    A phase that was terminal stays. `held`: that the pod has ended is not said yet, nor why.
    """
    held = held and known.get("phase") in TERMINAL and api.get("phase") not in TERMINAL
    theirs = [item for item in api.get("conditions") or () if item["type"] not in OWN_CONDITIONS]
    ours = [item for item in known.get("conditions") or () if item["type"] in OWN_CONDITIONS]
    extra = [
        item
        for item in known.get("conditions") or ()
        if item["type"] not in OWN_CONDITIONS and _is_new(item, theirs) and not held
    ]
    replaced = {item["type"] for item in extra}
    kept = [item for item in theirs if item["type"] not in replaced]
    found: dict[str, Any] = {**known, "conditions": alike_list([*kept, *ours, *extra])}
    for key in _IGNORED:
        found.pop(key, None)
        if key in api:
            found[key] = api[key]
    if api.get("phase") in TERMINAL:
        found["phase"] = api["phase"]
    if held:
        for key in ("phase", "reason", "message"):
            found.pop(key, None)
            if key in api:
                found[key] = api[key]
    return found


def _is_new(item: Tree, theirs: Sequence[Tree]) -> bool:
    """Return whether a condition that is shared (DisruptionTarget) is not there yet as the kubelet says it."""
    return item["type"] == "DisruptionTarget" and item not in theirs
