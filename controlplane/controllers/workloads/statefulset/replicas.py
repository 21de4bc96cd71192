"""The pods that a StatefulSet wants, by place: those that exist, and new ones made when asked for.

Upstream makes all missing pods at the start of a turn (updateStatefulSet in stateful_set_control.go). A set of a
million replicas takes tens of processor seconds that way, nearly all of them for pods that the turn never comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from controlplane.api.pod import Pod

__all__ = ["Replicas"]


class Replicas(Collection[Pod]):
    """The wanted pods of a set in the order of their ordinals.

    `known` are the pods that exist, by ordinal; `make` returns a new pod for an ordinal. A pod is made once.
    """

    def __init__(
        self, start: int, count: int, known: Mapping[int, Pod], make: Callable[[int], Pod]
    ) -> None:
        self._start = start
        self._count = count
        self._known = known
        self._existing = [known[ordinal] for ordinal in sorted(known)]
        self._make = make
        self._made: dict[int, Pod] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> Pod:
        """The pod at a place, the first one at 0; it is made if there is none."""
        if not 0 <= place < self._count:
            raise IndexError(place)
        ordinal = self._start + place
        pod = self._known.get(ordinal) or self._made.get(ordinal)
        if pod is None:
            pod = self._made[ordinal] = self._make(ordinal)
        return pod

    def __contains__(self, pod: object) -> bool:
        """Return whether a pod exists, or was made."""
        return any(pod is each for each in (*self._existing, *self._made.values()))

    def __iter__(self) -> Iterator[Pod]:
        return (self[place] for place in range(self._count))

    @property
    def existing(self) -> list[Pod]:
        """The pods that exist, in order: the only ones that count in a status."""
        return self._existing

    @property
    def missing(self) -> int:
        """The number of wanted pods that do not exist."""
        return self._count - len(self._existing)

    def backwards(self, first: int) -> Iterator[Pod]:
        """The pods from the last one down to the place `first`."""
        return (self[place] for place in range(self._count - 1, first - 1, -1))
