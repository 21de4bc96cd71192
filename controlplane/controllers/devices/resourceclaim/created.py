"""The claims that the controller made and may not have heard of yet. Upstream: client-go tools/cache/mutation_cache.go.

An entry stays for an hour, also after its claim was deleted: a pod whose claim was deleted in that time is given the
name of the deleted claim again, as upstream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controlplane.api.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controlplane.api.object import Object
    from controlplane.client.indexer import Indexer

__all__ = ["CreatedClaims"]

LIFETIME_NS: Final = 3600 * SECOND
KEPT: Final = 100


class _Made(NamedTuple):
    """A claim that the controller made, and its values of indexes, as far as they were asked for."""

    ends: int
    claim: Object[Any]
    values: dict[str, tuple[str, ...]]


class CreatedClaims:
    """The informer's store of claims with the controller's own creations laid over it."""

    def __init__(self, store: Indexer[Any], now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._made: dict[str, _Made] = {}

    def add(self, claim: Object[Any]) -> None:
        """Remember a claim as the server answered."""
        self._made.pop(claim.key, None)
        self._made[claim.key] = _Made(self._now() + LIFETIME_NS, claim, {})
        if len(self._made) > KEPT:
            del self._made[next(iter(self._made))]

    def by_index(
        self, index: str, value: str, values: Callable[[Object[Any]], tuple[str, ...]]
    ) -> Iterator[Object[Any]]:
        """Iterate over the claims with this value of an index; `values` is the function of that index."""
        seen = []
        for claim in self._store.by_index(index, value):
            seen.append(claim.key)
            yield self._newer(claim)
        for key in list(self._made):
            made = self._own(key)
            if made is None or key in seen:
                continue
            known = made.values.get(index)
            if known is None:
                known = made.values[index] = values(made.claim)
            if value in known:
                heard = self._store.get(key)
                yield made.claim if heard is None else self._newer(heard)

    def _own(self, key: str) -> _Made | None:
        """An entry that has not run out; looking at it counts as a use."""
        entry = self._made.get(key)
        if entry is None:
            return None
        del self._made[key]
        if entry.ends < self._now():
            return None
        self._made[key] = entry
        return entry

    def _newer(self, heard: Object[Any]) -> Object[Any]:
        made = self._own(heard.key)
        if made is None:
            return heard
        if made.claim.resource_version < heard.resource_version:
            del self._made[heard.key]
            return heard
        return made.claim
