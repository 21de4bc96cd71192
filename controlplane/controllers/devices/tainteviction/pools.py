"""The devices that drivers publish, and which of them are tainted. Upstream: device_taint_eviction.go (pool)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controlplane.api.object import Object
    from controlplane.api.tree import Tree

__all__ = ["NO_EXECUTE", "Pool", "PoolId", "modified", "pool_of"]

NO_EXECUTE: Final = "NoExecute"
PoolId = tuple[str, str]
"""Driver and name of a pool."""


def pool_of(of_slice: Object[Any]) -> PoolId:
    """Return the pool of a ResourceSlice."""
    spec = of_slice.tree["spec"]
    return spec.get("driver", ""), (spec.get("pool") or {}).get("name", "")


def _generation(of_slice: Object[Any]) -> int:
    return int((of_slice.tree["spec"].get("pool") or {}).get("generation") or 0)


class Pool:
    """The slices of a pool; those of the highest generation count."""

    def __init__(self) -> None:
        self.slices: dict[str, Object[Any]] = {}

    def add(self, of_slice: Object[Any]) -> None:
        """Add a slice, or a newer state of it."""
        self.slices[of_slice.name] = of_slice

    def remove(self, of_slice: Object[Any]) -> None:
        """Remove a slice."""
        self.slices.pop(of_slice.name, None)

    def current(self) -> Iterator[tuple[Object[Any], Tree]]:
        """Iterate over the devices of the current generation, with their slices."""
        newest = max(map(_generation, self.slices.values()), default=0)
        for of_slice in self.slices.values():
            if _generation(of_slice) == newest:
                for device in of_slice.tree["spec"].get("devices") or ():
                    yield of_slice, device

    def device(self, name: str) -> tuple[Object[Any], Tree] | None:
        """Return a device of the current generation, with its slice."""
        for of_slice, device in self.current():
            if device.get("name") == name:
                return of_slice, device
        return None

    def tainted(self) -> list[tuple[str, Tree]]:
        """Return the names of devices with their NoExecute taints, by name."""
        found = [
            (device.get("name", ""), taint)
            for _, device in self.current()
            for taint in device.get("taints") or ()
            if taint.get("effect") == NO_EXECUTE
        ]
        return sorted(found, key=lambda each: each[0])


def modified(old: Sequence[tuple[str, Tree]], new: Sequence[tuple[str, Tree]]) -> dict[str, None]:
    """Return the devices whose taints may differ; both lists are as `Pool.tainted` gives them.

    The lists are walked side by side. Where one device has more taints than before, the walk falls out of step, and
    the device behind it counts as modified, too, as upstream.
    """
    found: dict[str, None] = {}
    o = n = 0
    while o < len(old) or n < len(new):
        while o < len(old) and n < len(new) and old[o][0] == new[n][0]:
            if old[o][1] != new[n][1]:
                found[old[o][0]] = None
            o, n = o + 1, n + 1
        ahead = new[n][0] if n < len(new) else ""
        while o < len(old) and old[o][0] != ahead:
            found[old[o][0]] = None
            o += 1
        ahead = old[o][0] if o < len(old) else ""
        if n < len(new) and new[n][0] != ahead:
            found[new[n][0]] = None
            n += 1
    return found
