"""The scene of a violation: the objects that it names, and the objects related to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["ViolationObjects"]

NEAR: Final = 1.0
RELATED: Final = 0.8
OTHER: Final = 0.25
AT_A_PLACE: Final = 0.6
PLACE: Final = 0.4
NOISE: Final = frozenset(("Event", "Lease", "CSINode"))
"""Kinds that a violation means only if it names them in full."""
_STEP = re.compile(r"\bstep (\d+)")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]*")
_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


class ViolationObjects:
    """Met with the objects of a run in their order, it knows how much what is about each of them counts.

    An object is named by its uid, by its key or by its name, in what a violation says beside the name of
    the invariant. One whose name has the uid of such an object is related to it. With `by_kind` all objects are
    named that are of a kind of which the violation speaks; `named` names objects by their keys in addition.
    """

    def __init__(
        self, reason: str, *, by_kind: bool = False, named: frozenset[str] = frozenset()
    ) -> None:
        self.of_caches = "cache" in reason
        """True if the reason mentions caches: then the start versions of lists and watches matter."""
        self.uids = frozenset(_UID.findall(reason))
        """The uids that are named."""
        self.steps = frozenset(int(number) for number in _STEP.findall(reason))
        """The steps that are named."""
        self.about: set[str] = set()
        self.related: set[str] = set()
        self._words = frozenset(_WORD.findall(reason.partition(": ")[2] or reason)) | named
        self._kinds = tuple(_kinds(reason))
        self._known: set[str] = set()
        self._uids = set(self.uids)
        self._by_kind = by_kind
        self._names_things = False
        """True if the reason names anything except nodes."""

    def meet(self, obj: str, uid: str) -> None:
        """An object of the run, in one of its incarnations."""
        if obj in self.about:
            if uid:
                self._uids.add(uid)
        elif uid and uid in self.uids:
            self._name(obj, uid)
        elif obj and obj not in self._known:
            self._known.add(obj)
            kind, _, key = obj.partition("/")
            name = key.rpartition("/")[2]
            if self._by_kind:
                named = kind not in NOISE and self._is_meant(kind)
            else:
                named = kind not in NOISE and not self._words.isdisjoint((key, name))
            if named or obj in self._words:
                self._name(obj, uid)
            elif any(each in name for each in self._uids):
                self.related.add(obj)

    def _name(self, obj: str, uid: str) -> None:
        self.about.add(obj)
        self._names_things |= not obj.startswith("Node/")
        self.related.discard(obj)
        if uid:
            self._uids.add(uid)

    def _is_meant(self, kind: str) -> bool:
        """Return whether a violation speaks of objects of a kind."""
        lower = kind.lower()
        return not lower.endswith(("class", "content")) and any(
            word in lower for word in self._kinds
        )

    def relate(self, obj: str) -> None:
        """It has to do with an object that is named."""
        if obj not in self.about and obj.partition("/")[0] not in NOISE:
            self.related.add(obj)

    def of(self, obj: str) -> float:
        """Return the relevance of events about an object, 0 to 1; nodes count less than the objects on them."""
        kind = obj.partition("/")[0]
        if obj in self.about:
            return PLACE if kind == "Node" and self._names_things else NEAR
        if kind in NOISE or kind.endswith("Class"):
            return OTHER / 2
        if obj in self.related:
            return RELATED
        if not self.about or self._by_kind or self._is_named_alone(kind):
            return RELATED
        return OTHER if self._names_things else AT_A_PLACE

    def _is_named_alone(self, kind: str) -> bool:
        """Return whether a violation speaks of a kind, as of the Job of a pod, but names none of them."""
        return kind.lower() in self._kinds and not any(
            each.startswith(f"{kind}/") for each in self.about
        )

    def of_resource(self, resource: str) -> bool:
        """Return whether a resource is that of an object that is named."""
        return any(f"{obj.partition('/')[0].lower()}s" == resource for obj in self.about)

    def missed(self, resource: str, key: str) -> str:
        """The object that is named and has this key; "" if there is none."""
        for obj in self.about:
            kind, _, found = obj.partition("/")
            if found == key and f"{kind.lower()}s" == resource:
                return obj
        return ""

    def names_actor(self, actor: str) -> bool:
        """Return whether a violation names a process, alone or with one of its tasks."""
        return actor in self._words or any(each.startswith(f"{actor}/") for each in self._words)

    def of_key(self, key: str) -> float:
        """Return the relevance of events about a key of a controller's queue."""
        if self._by_kind or any(obj.partition("/")[2] == key for obj in self.about):
            return NEAR
        found = any(obj.partition("/")[2] == key for obj in self.related)
        return RELATED if found else OTHER


def _kinds(reason: str) -> Iterator[str]:
    """Words that may be kinds of objects, as pod for pods."""
    for word in _WORD.findall(reason.lower()):
        if len(word) > 2 and word.isalpha():
            yield word.removesuffix("s")
