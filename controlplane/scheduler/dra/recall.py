"""Answers of earlier searches for a node, for as long as all that they depend on stands.

A pod changes the devices of one node; for the others the same claims get the same devices again. An answer depends
on the slices, the node's name and labels, the features, the text of the claims, their classes, and the devices in
use of the pools that the node reaches. With shared devices nothing is recalled: each share has a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.scheduler.dra.devices import DeviceID

__all__ = ["Answer", "Question", "Recall"]

_MOST: Final = 100_000
"""Answers that are kept, and pools."""


class Named(Protocol):
    """A pool, as far as it is needed here."""

    @property
    def driver(self) -> str:
        """The driver that publishes it."""

    @property
    def name(self) -> str:
        """Its name among the driver's pools."""


PoolT = TypeVar("PoolT", bound=Named)


class Answer(NamedTuple):
    """The result of a search on a node with these labels, and its time."""

    at: int
    labels: Mapping[str, str]
    found: list[Tree] | None


class Question:
    """The answers of all nodes to the same claims with the same classes."""

    __slots__ = ("_changed", "classes", "nodes")

    def __init__(self, classes: tuple[Tree | None, ...], changed: Mapping[str, int]) -> None:
        self.classes = classes
        self.nodes: dict[str, Answer] = {}
        self._changed = changed

    def answer(self, node: str, labels: Mapping[str, str]) -> Answer | None:
        """Return the answer of a node with these labels, None if it is not known or out of date."""
        known = self.nodes.get(node)
        if known is None or self._changed.get(node, 0) > known.at:
            return None
        return known if known.labels is labels or known.labels == labels else None


class Recall(Generic[PoolT]):
    """The memory of one set of slices."""

    def __init__(self) -> None:
        self.devices: frozenset[DeviceID] = frozenset()
        """The devices in use that answers are for; `turn_to` changes them."""
        self._clock = 0
        self._changed: dict[str, int] = {}
        """When other devices came into use in a pool that the node reaches."""
        self._reach: dict[tuple[str, str], dict[str, None]] = {}
        """The nodes that reach a pool, or have reached it with other labels."""
        self._pools: dict[Any, tuple[Mapping[str, str], Sequence[PoolT]]] = {}
        self._questions: dict[Any, Question] = {}
        self._kept = 0

    def turn_to(self, devices: frozenset[DeviceID]) -> None:
        """Note the nodes that reach a pool in which other devices are in use than at the last call."""
        if devices is self.devices:
            return
        self._clock += 1
        for device in devices ^ self.devices:
            for node in self._reach.get((device.driver, device.pool), ()):
                self._changed[node] = self._clock
        self.devices = devices

    def pools(self, key: Any, node: str, labels: Mapping[str, str]) -> Sequence[PoolT] | None:
        """Return the pools of a node with these labels, None if they are not known."""
        found = self._pools.get((key, node))
        return None if found is None or found[0] != labels else found[1]

    def keep_pools(
        self, key: Any, node: str, labels: Mapping[str, str], pools: Sequence[PoolT]
    ) -> None:
        """Remember the pools of a node."""
        if len(self._pools) >= _MOST:
            self._pools.clear()
        self._pools[key, node] = (labels, pools)
        for pool in pools:
            self._reach.setdefault((pool.driver, pool.name), {})[node] = None

    def question(self, key: Any, classes: tuple[Tree | None, ...]) -> Question:
        """Return the answers that are known to a question; none if one of the classes has changed."""
        found = self._questions.get(key)
        if found is None or not all(map(is_, found.classes, classes)):
            found = self._questions[key] = Question(classes, self._changed)
        return found

    def keep(
        self, question: Question, node: str, labels: Mapping[str, str], found: list[Tree] | None
    ) -> None:
        """Remember an answer."""
        if self._kept >= _MOST:
            for each in self._questions.values():
                each.nodes.clear()
            self._questions.clear()
            self._kept = 0
        self._kept += 1
        question.nodes[node] = Answer(self._clock, labels, found)
