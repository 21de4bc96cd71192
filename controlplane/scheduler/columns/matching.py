"""Number of pods of each node that a selector matches, kept for many selectors at once.

A selector sees the same in all pods of a kind (`state.pod_kinds`): pods of one ReplicaSet, mostly. So it is
asked once about a kind, and a node whose pods changed is looked through once for all selectors, not once
for each: in a large cluster thousands of ReplicaSets ask about the same nodes in turn.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.state.pod_kinds import ENDING, NEW, PodKind
from controlplane.scheduler.state.snapshot import ChangeReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controlplane.api.labels import Selector
    from controlplane.api.pod import Pod
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.snapshot import Snapshot

_KEPT = 128
_LOG_LIMIT = 1000
_kind_of = attrgetter("kind")


class Matching:
    """Matching pods per node, for one selector in one namespace; a log of changed rows as a snapshot has it."""

    __slots__ = ("_epochs", "amounts", "changed_rows", "epoch", "kinds", "namespace", "selector")

    def __init__(
        self, selector: Selector, namespace: str, size: int, epochs: Iterator[int]
    ) -> None:
        self.selector = selector
        self.namespace = namespace
        self._epochs = epochs
        self.epoch = next(epochs)
        self.amounts: NDArray[np.int64] = np.zeros(size, np.int64)
        self.changed_rows: list[int] = []
        self.kinds: dict[PodKind, None] = {}
        """The kinds that it matches."""

    def add(self, row: int, amount: int) -> None:
        """Count `amount` more matching pods on a node."""
        self.amounts[row] += amount
        if len(self.changed_rows) >= _LOG_LIMIT:
            self.changed_rows = []
            self.epoch = next(self._epochs)
        self.changed_rows.append(row)


class Presence:
    """The nodes that run pods of a kind, and the counts that depend on it."""

    __slots__ = ("counting", "rows")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.counting: list[Matching] = []


class MatchingPods:
    """Answers how many pods of each node a selector matches, as of the snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._reader = ChangeReader()
        self._epochs = itertools.count(1)
        self._kept: OrderedDict[tuple[Selector, str], Matching] = OrderedDict()
        self._on_rows: list[dict[PodKind, int]] = []
        self._kinds: dict[tuple[str, frozenset[tuple[str, str]]], PodKind] = {}
        self._present: dict[PodKind, Presence] = {}
        self._by_label: dict[str, dict[tuple[str, str], dict[PodKind, None]]] = {}
        """Key of a label that was asked for -> (namespace, value) -> kinds."""
        self._asking: dict[tuple[str, str, str], dict[Matching, None]] = {}
        """Namespace, key and value of a label -> selectors that nothing meets without it."""
        self._asking_all: dict[str, dict[Matching, None]] = {}
        """Namespace -> selectors without such a label."""

    def of(self, selector: Selector, namespace: str) -> Matching:
        """Pods of the namespace that match and do not terminate, by row; an empty selector counts none."""
        self._sync()
        key = (selector, namespace)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        if len(self._kept) >= _KEPT:
            self._drop(self._kept.popitem(last=False)[1])
        found = Matching(selector, namespace, len(self._on_rows), self._epochs)
        self._kept[key] = found
        if not selector.empty():
            self._begin(found)
        return found

    # -- selectors -----------------------------------------------------------------------------

    def _begin(self, found: Matching) -> None:
        """Count what is on nodes, and notify it of what comes."""
        selector, namespace, amounts = found.selector, found.namespace, found.amounts
        equality = selector.equality
        kinds = self._present if equality is None else self._with_label(namespace, *equality)
        for kind in kinds:
            if kind.namespace == namespace and selector.matches(kind.labels):
                found.kinds[kind] = None
                presence = self._present[kind]
                presence.counting.append(found)
                for row, count in presence.rows.items():
                    amounts[row] += count
        self._companions(found)[found] = None

    def _companions(self, found: Matching) -> dict[Matching, None]:
        equality = found.selector.equality
        if equality is None:
            return self._asking_all.setdefault(found.namespace, {})
        return self._asking.setdefault((found.namespace, *equality), {})

    def _drop(self, found: Matching) -> None:
        for kind in found.kinds:
            self._present[kind].counting.remove(found)
        companions = self._companions(found)
        companions.pop(found, None)
        if not companions:
            equality = found.selector.equality
            if equality is None:
                del self._asking_all[found.namespace]
            else:
                del self._asking[found.namespace, *equality]

    def _with_label(self, namespace: str, key: str, value: str) -> dict[PodKind, None]:
        values = self._by_label.get(key)
        if values is None:
            values = self._by_label[key] = {}
            for kind in self._present:
                if key in kind.labels:
                    values.setdefault((kind.namespace, kind.labels[key]), {})[kind] = None
        return values.get((namespace, value), {})

    # -- nodes ---------------------------------------------------------------------------------

    def _sync(self) -> None:
        infos = self._snapshot.node_info_list
        rows = self._reader.changed(self._snapshot)
        if rows is None:
            self._forget_all(len(infos))
            rows = list(range(len(infos)))
        for row in rows:
            self._look_through(row, infos[row])

    def _forget_all(self, size: int) -> None:
        self._kept.clear()
        self._asking.clear()
        self._asking_all.clear()
        self._by_label.clear()
        self._present.clear()
        self._kinds.clear()
        self._on_rows = [{} for _ in range(size)]

    def _look_through(self, row: int, info: NodeInfo) -> None:
        pods = info.pods
        now: dict[PodKind, int] = Counter(map(_kind_of, pods))
        if now.pop(NEW, None) is not None:
            for each in pods:
                if each.kind is NEW:
                    kind = each.kind = self._kind(each.pod)
                    now[kind] += 1
        before = self._on_rows[row]
        if dict.__eq__(now, before):
            return
        self._on_rows[row] = dict(now)
        for kind, count in now.items():
            if before.get(kind) != count:
                self._set(kind, row, count)
        for kind in before:
            if kind not in now:
                self._set(kind, row, 0)

    def _kind(self, pod: Pod) -> PodKind:
        metadata = pod.metadata
        if metadata.deletion_timestamp is not None:
            return ENDING
        key = _key(metadata.namespace, metadata.labels)
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = PodKind(metadata.namespace, metadata.labels)
        return found

    def _set(self, kind: PodKind, row: int, count: int) -> None:
        if kind is ENDING:
            return
        presence = self._present.get(kind)
        if presence is None:
            presence = self._came(kind)
        rows = presence.rows
        more = count - rows.get(row, 0)
        for each in presence.counting:
            each.add(row, more)
        if count:
            rows[row] = count
        else:
            del rows[row]
            if not rows:
                self._gone(kind)

    def _came(self, kind: PodKind) -> Presence:
        """The first pod of a kind is on a node."""
        namespace, labels = kind.namespace, kind.labels
        presence = self._present[kind] = Presence()
        self._kinds.setdefault(_key(namespace, labels), kind)
        asking = [self._asking_all.get(namespace)]
        for key, value in labels.items():
            values = self._by_label.get(key)
            if values is not None:
                values.setdefault((namespace, value), {})[kind] = None
                asking.append(self._asking.get((namespace, key, value)))
        for some in asking:
            for each in some or ():
                if each.selector.matches(labels):
                    each.kinds[kind] = None
                    presence.counting.append(each)
        return presence

    def _gone(self, kind: PodKind) -> None:
        """The last pod of a kind has left."""
        namespace, labels = kind.namespace, kind.labels
        for each in self._present.pop(kind).counting:
            del each.kinds[kind]
        self._kinds.pop(_key(namespace, labels), None)
        for key, value in labels.items():
            values = self._by_label.get(key)
            if values is not None:
                kinds = values[namespace, value]
                del kinds[kind]
                if not kinds:
                    del values[namespace, value]


def _key(namespace: str, labels: Mapping[str, str]) -> tuple[str, frozenset[tuple[str, str]]]:
    return namespace, frozenset(labels.items())
