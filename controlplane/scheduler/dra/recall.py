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

__all__ = ["Recall"]

_MOST: Final = 100_000
"""Answers that are kept."""


class Named(Protocol):
    """A pool, as far as it is needed here."""

    @property
    def driver(self) -> str:
        """The driver that publishes it."""

    @property
    def name(self) -> str:
        """Its name among the driver's pools."""


PoolT = TypeVar("PoolT", bound=Named)


class _Answer(NamedTuple):
    at: int
    pools: Sequence[Any]
    classes: tuple[Tree | None, ...]
    found: list[Tree] | None


class Recall(Generic[PoolT]):
    """The memory of one set of slices."""

    def __init__(self) -> None:
        self._devices: frozenset[DeviceID] = frozenset()
        self._clock = 0
        self._changed: dict[tuple[str, str], int] = {}
        self._pools: dict[Any, tuple[Mapping[str, str], Sequence[PoolT]]] = {}
        self._answers: dict[Any, _Answer] = {}

    def turn_to(self, devices: frozenset[DeviceID]) -> None:
        """Note the pools in which other devices are in use than at the last call."""
        if devices is self._devices:
            return
        self._clock += 1
        for device in devices ^ self._devices:
            self._changed[device.driver, device.pool] = self._clock
        self._devices = devices

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

    def answer(
        self, key: Any, pools: Sequence[PoolT], classes: tuple[Tree | None, ...]
    ) -> _Answer | None:
        """Return the answer to the same question, None if it is not known or out of date."""
        known = self._answers.get(key)
        if known is None or known.pools is not pools or not all(map(is_, known.classes, classes)):
            return None
        changed = self._changed
        for pool in pools:
            if changed.get((pool.driver, pool.name), 0) > known.at:
                return None
        return known

    def keep(
        self,
        key: Any,
        pools: Sequence[PoolT],
        classes: tuple[Tree | None, ...],
        found: list[Tree] | None,
    ) -> None:
        """Remember an answer."""
        if len(self._answers) >= _MOST:
            self._answers.clear()
        self._answers[key] = _Answer(self._clock, pools, classes, found)
