"""Operations on devices: a driver's ResourceSlices, and allocations that no pod asked for.

Upstream: test/integration/scheduler_perf/dra.go.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Final

from controlplane.api import identity
from controlplane.apiserver.kinds.resource.selecting import select_device
from controlplane.client.loops.clientset import NODES
from controlplane.client.loops.informer import Informer
from controlplane.client.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from controlplane.errors import UsageError
from controlplane.scheduler.config.features import defaults
from controlplane.scheduler.dra.allocator import AllocationError, Allocator
from controlplane.scheduler.dra.features import Features
from controlplane.scheduler.dra.manager import allocator_features
from controlplane.scheduler.dra.pools import NodeView, Slices
from controlplane.scheduler.dra.tracker import AllocatedDevices, Gathered, allocation_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors import Context
    from controlplane.api.tree import Tree
    from controlplane.client.deltas import Notification
    from controlplane.client.loops.clientset import Client
    from controlplane.perf.workloads import Operation
    from controlplane.scheduler.dra.features import Features

SEED: Final = 1
"""Of the order in which nodes are tried: all runs of a workload begin from the same allocations."""
_BRACKETS = re.compile(r"\[(\^?)((?:\\.|[^\\\]])+)\]")


def pattern_of(glob: str) -> re.Pattern[str]:
    r"""Return the expression of a pattern as Go's `filepath.Match` reads it (`*`, `?`, `[a-z]`, `[^a-z]`, `\c`).

    Raises UsageError for a malformed one.
    """
    found, at = "", 0
    while at < len(glob):
        char = glob[at]
        brackets = _BRACKETS.match(glob, at)
        if char == "*":
            found += "[^/]*"
        elif char == "?":
            found += "[^/]"
        elif brackets is not None:
            found += f"[{brackets[1]}{brackets[2].replace('[', chr(92) + '[')}]"
            at = brackets.end()
            continue
        elif char == "[" or (char == "\\" and at + 1 == len(glob)):
            raise UsageError(f"nodes {glob!r}: a malformed pattern")
        else:
            at += char == "\\"
            found += re.escape(glob[at])
        at += 1
    try:
        return re.compile(found)
    except re.error as error:
        raise UsageError(f"nodes {glob!r}: a malformed pattern: {error}") from error


def slice_of(driver: str, node: str, count: int) -> Tree:
    """Return the ResourceSlice of a node's devices, all of one model."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "resourceSliceCount": 1},
            "devices": [_device(number) for number in range(count)],
        },
    }


def _device(number: int) -> Tree:
    return {
        "name": f"instance-{number}",
        "attributes": {
            "model": {"string": "A100"},
            "family": {"string": "GPU"},
            "driverVersion": {"version": "1.2.3"},
            "dra.example.com/numa": {"int": number},
        },
        "capacity": {"memory": {"value": "1Gi"}},
    }


async def create_driver(ctx: Context, client: Client, operation: Operation) -> None:
    """Publish a slice for each node whose name matches, and wait until an informer has shown all."""
    matches = pattern_of(operation.get("nodes")).fullmatch
    nodes = await client.list(NODES)
    names = [node.name for node in nodes.items if matches(node.name)]
    wanted = dict.fromkeys(names)
    changed = ctx.condition()

    def see(told: Notification) -> None:
        if told.new is not None and wanted.pop(told.new.name, names) is None and not wanted:
            changed.notify_all()

    informer = Informer(ctx, RESOURCE_SLICES, immediate=True)
    informer.add_handler(see, "benchmark")
    informer.start()
    await informer.wait_synced()
    count = operation.get("maxClaimsPerNode", 0)
    for name in names:
        await client.create(RESOURCE_SLICES, slice_of(operation.get("driverName"), name, count))
    while wanted:
        await changed.wait(point=f"{len(wanted)} of {len(names)} ResourceSlices to be seen")
    informer.stop()


async def allocate_claims(
    ctx: Context, client: Client, operation: Operation, features: Mapping[str, bool]
) -> None:
    """Allocate all claims of a namespace (or of all), one after the other, each on the first node that can.

    Nodes are tried in an order by chance. Raises UsageError for a claim that cannot be allocated.
    """
    gates = {**defaults(), **features}
    search = _Search(ctx, allocator_features(gates.__getitem__))
    search.nodes = [
        NodeView(node.name, node.metadata.get("labels") or {})
        for node in (await client.list(NODES)).items
    ]
    search.classes = {each.name: each.tree for each in (await client.list(DEVICE_CLASSES)).items}
    search.slices = Slices([each.tree for each in (await client.list(RESOURCE_SLICES)).items])
    for known in (await client.list(RESOURCE_CLAIMS)).items:
        search.devices.notice(None, known.view)
    namespace = operation.get("namespace") or ""
    claims = (await client.list(RESOURCE_CLAIMS, namespace)).items
    for number, claim in enumerate(claims):
        if allocation_of(claim.tree) is not None:
            continue
        found = search.allocation(claim.tree)
        if found is None:
            text = f"claim {claim.namespace}/{claim.name} ({number + 1} of {len(claims)})"
            raise UsageError(f"{text} cannot be allocated on any node")
        status = {**(claim.tree.get("status") or {}), "allocation": found}
        written = await client.update(RESOURCE_CLAIMS, {**claim.tree, "status": status}, "status")
        search.devices.notice(None, written.view)


class _Search:
    """The inputs of an allocation of claims; `devices` are those in use."""

    def __init__(self, ctx: Context, features: Features) -> None:
        self._ctx = ctx
        self._features = features
        self._random = random.Random(SEED)
        self.nodes: list[NodeView] = []
        self.classes: dict[str, Tree] = {}
        self.slices = Slices(())
        self.devices = AllocatedDevices(shares=features.consumable_capacity)

    def _share(self) -> str:
        return identity.uid(self._ctx.serial())

    def allocation(self, claim: Tree) -> Tree | None:
        """Return the allocation of a claim, None if no node can give it. UsageError."""
        devices = self.devices
        state = Gathered(devices.whole(), devices.shared(), devices.capacity()).state
        allocator = Allocator(
            self._features, state, self.classes, self.slices, select_device, self._share
        )
        self._random.shuffle(self.nodes)
        wanted = [claim]
        for node in self.nodes:
            try:
                found = allocator.allocate(node, wanted)
            except AllocationError as error:
                raise UsageError(str(error)) from error
            if found is not None:
                return found[0]
        return None
