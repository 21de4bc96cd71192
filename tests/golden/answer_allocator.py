"""The structured allocator: its choice of devices node by node, with the pools and the steps of the search."""

from __future__ import annotations

from itertools import count
from typing import Any

from controlplane.api.device_selection import DeviceSelectorError, Selection
from controlplane.api.quantity import parse
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.cel import CelError
from controlplane.apiserver.kinds.resource.device_expressions import CompileError, device_selector
from controlplane.scheduler.dra.allocator import AllocationError, Allocator
from controlplane.scheduler.dra.capacity import Allocating
from controlplane.scheduler.dra.devices import AllocatedState, DeviceID
from controlplane.scheduler.dra.features import EXPERIMENTAL, INCUBATING, Features
from controlplane.scheduler.dra.pools import NodeView, Pool, PoolError, Slices, gather_pools

_FIELDS = {
    "AdminAccess": "admin_access",
    "ConsumableCapacity": "consumable_capacity",
    "DeviceBindingAndStatus": "device_binding_and_status",
    "DeviceTaints": "device_taints",
    "ListTypeAttributes": "list_type_attributes",
    "PartitionableDevices": "partitionable_devices",
    "PrioritizedList": "prioritized_list",
}


def answer(case: Any) -> Any:
    features = Features(**{_FIELDS[name]: value for name, value in case["features"].items()})
    shares = count(1)
    allocator = Allocator(
        features,
        _state(case["allocatedState"]),
        {each["metadata"]["name"]: each for each in case["deviceClasses"]},
        Slices(case["slices"]),
        _select_with(features.list_type_attributes),
        lambda: f"<share-{next(shares)}>",
    )
    nodes = [_node(allocator, tree, case, features) for tree in case["nodes"]]
    return {"allocator": allocator.channel, "nodes": nodes}


def _select_with(lists: bool) -> Any:
    def select(expression: str, driver: str, device: Tree) -> Selection:
        try:
            return Selection(device_selector(expression, lists).matches(driver, device))
        except CompileError as error:
            raise DeviceSelectorError(str(error), compiling=True) from None
        except CelError as error:
            raise DeviceSelectorError(str(error), compiling=False) from None

    return select


def _state(rows: list[Any]) -> AllocatedState:
    whole, shared, capacity = set(), set(), Allocating()
    for row in rows:
        device = DeviceID(row["driver"], row["pool"], row["device"])
        if "shareID" in row:
            shared.add(device)
            consumed = {name: parse(text) for name, text in (row.get("consumed") or {}).items()}
            capacity.insert(device, consumed)
        else:
            whole.add(device)
    return AllocatedState(frozenset(whole), frozenset(shared), capacity.by_device)


def _node(allocator: Allocator, tree: Any, case: Any, features: Features) -> Any:
    node = NodeView(tree["metadata"]["name"], tree["metadata"].get("labels") or {})
    before = allocator.steps
    shown: dict[str, Any] = {"node": node.name}
    try:
        found = allocator.allocate(node, case["claims"])
        shown["allocated"] = found is not None
        if found is not None:
            shown["allocations"] = _numbered(found)
    except AllocationError as error:
        shown["error"] = str(error)
        if error.node_only:
            shown["onlyThisNode"] = True
    shown["steps"] = allocator.steps - before
    if allocator.channel != EXPERIMENTAL:
        shown["pools"] = _pools(case["slices"], node, features)
    return shown


def _numbered(allocations: list[Any]) -> list[Any]:
    """Number the shares in the order in which they are shown."""
    names: dict[str, str] = {}
    for allocation in allocations:
        for result in allocation["devices"].get("results", ()):
            if "shareID" in result:
                share = result["shareID"]
                result["shareID"] = names.setdefault(share, f"<share-{len(names)}>")
    return allocations


def _pools(slices: Any, node: NodeView, features: Features) -> Any:
    try:
        found = gather_pools(Slices(slices), node, features, INCUBATING)
    except PoolError as error:
        return {"error": str(error)}
    return [_pool(each) for each in found]


def _pool(pool: Pool) -> Any:
    shown: dict[str, Any] = {
        "pool": str(pool),
        "incomplete": pool.incomplete,
        "invalid": bool(pool.invalid),
        "targeting": [piece.name for piece in pool.targeting],
        "notTargeting": [piece.name for piece in pool.not_targeting],
        "counterSets": sorted(pool.counter_sets),
    }
    return {key: value for key, value in shown.items() if value not in ("", [])}
