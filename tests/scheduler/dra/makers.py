"""Slices, claims and classes for tests of the allocator."""

from __future__ import annotations

from itertools import count
from typing import Any

from controlplane.api.device_selection import Selection
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.allocator import Allocator
from controlplane.scheduler.dra.devices import AllocatedState
from controlplane.scheduler.dra.features import Features
from controlplane.scheduler.dra.pools import NodeView, Slices

DRIVER = "laser.example.org"
NODE = NodeView("n1", {"zone": "east"})
ALL_ON = Features(
    admin_access=True,
    consumable_capacity=True,
    device_binding_and_status=True,
    device_taints=True,
    partitionable_devices=True,
    prioritized_list=True,
)
CLASSES: dict[str, Tree] = {"laser": {"metadata": {"name": "laser"}, "spec": {}}}


def device(name: str, **fields: Any) -> Tree:
    return {"name": name, **fields}


def piece(name: str, *devices: Tree, pool: str = "p", **fields: Any) -> Tree:
    """A ResourceSlice; it is for the node n1 unless the fields say otherwise."""
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
        **(fields or {"nodeName": "n1"}),
    }
    return {"metadata": {"name": name}, "spec": spec}


def request(name: str = "r", number: int = 1, **fields: Any) -> Tree:
    exactly = {
        "deviceClassName": "laser",
        "allocationMode": "ExactCount",
        "count": number,
        **fields,
    }
    return {"name": name, "exactly": exactly}


def claim(*requests: Tree, name: str = "c", **fields: Any) -> Tree:
    spec = {"devices": {"requests": list(requests), **fields}}
    return {"metadata": {"namespace": "default", "name": name}, "spec": spec}


def select(expression: str, _driver: str, found: Tree) -> Selection:
    """Selectors of tests: the start of a device's name."""
    return Selection(found["name"].startswith(expression))


def allocator(
    *slices: Tree,
    features: Features = ALL_ON,
    state: AllocatedState | None = None,
    classes: dict[str, Tree] | None = None,
    most_steps: int | None = None,
) -> Allocator:
    shares = count(1)
    return Allocator(
        features,
        state or AllocatedState(),
        CLASSES if classes is None else classes,
        Slices(slices),
        select,
        lambda: f"share-{next(shares)}",
        most_steps,
    )


def names(found: list[Tree] | None) -> list[list[str]] | None:
    """The names of the chosen devices of each claim."""
    if found is None:
        return None
    return [[each["device"] for each in one["devices"].get("results", ())] for one in found]
