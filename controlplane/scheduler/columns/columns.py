"""Node state in columns: one array per quantity, one row per node of the snapshot.

Kept up to date from the snapshot's log of changed rows. Column forms of plugins read these arrays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.columns.matching import Matching, MatchingPods
from controlplane.scheduler.state.snapshot import ChangeReader, Changing, Snapshot

if TYPE_CHECKING:
    from controlplane.api.labels import Selector
    from controlplane.scheduler.state.node_info import NodeInfo

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Scores multiply amounts by 100 in 64 bits; beyond this the arrays would differ from exact ints.
_LARGEST = 1 << 55


class Topology:
    """The domain of a topology key in which each node lies.

    Domain 0 stands for the empty value; nodes without the key are there too, `has` tells them.
    """

    __slots__ = ("_nodes", "codes", "has", "index")

    def __init__(self, size: int) -> None:
        self.codes: Ints = np.zeros(size, np.int64)
        self.has: Bools = np.zeros(size, np.bool_)
        self.index: dict[str, int] = {"": 0}
        self._nodes: list[Any] = [None] * size

    def write(self, row: int, info: NodeInfo, key: str) -> None:
        """Take the value of a node, unless its object is the one seen last."""
        node = info.node
        if node is self._nodes[row]:
            return
        assert node is not None
        self._nodes[row] = node
        value = node.metadata.labels.get(key)
        self.has[row] = value is not None
        self.codes[row] = self.index.setdefault(value or "", len(self.index))


class SparseRows:
    """Numbers per node under some keys, computed from the node's pods, kept row by row."""

    __slots__ = ("arrays", "reader", "touched")

    def __init__(self) -> None:
        self.reader = ChangeReader()
        self.arrays: dict[str, Ints] = {}
        self.touched: Bools = np.zeros(0, np.bool_)
        """Nodes for which anything was computed, zero sums included."""

    def sync(self, snapshot: Snapshot, compute: RowFn) -> None:
        """Compute what changed."""
        infos = snapshot.node_info_list
        rows = self.reader.changed(snapshot)
        if rows is None:
            self.arrays = {}
            self.touched = np.zeros(len(infos), np.bool_)
            for row, info in enumerate(infos):
                if info.pods:
                    self._write(row, compute(info), len(infos))
            return
        for row in rows:
            for array in self.arrays.values():
                array[row] = 0
            self.touched[row] = False
            self._write(row, compute(infos[row]), len(infos))

    def _write(self, row: int, values: dict[str, int], size: int) -> None:
        for key, value in values.items():
            array = self.arrays.get(key)
            if array is None:
                array = self.arrays[key] = np.zeros(size, np.int64)
            array[row] = value
            self.touched[row] = True


class NodeProperty:
    """A number that depends on the node object alone."""

    __slots__ = ("_nodes", "_reader", "epoch", "values")

    def __init__(self, size: int, epoch: int) -> None:
        self._reader = ChangeReader()
        self._nodes: list[Any] = [None] * size
        self.epoch = epoch
        self.values: Ints = np.zeros(size, np.int64)

    def sync(self, snapshot: Snapshot, compute: Callable[[NodeInfo], int]) -> None:
        """Ask for nodes whose object is another one than last time."""
        infos = snapshot.node_info_list
        rows = self._reader.changed(snapshot)
        for row in range(len(infos)) if rows is None else rows:
            info = infos[row]
            if info.node is not self._nodes[row]:
                self._nodes[row] = info.node
                self.values[row] = compute(info)


class DomainTally:
    """Sums per domain of a topology over eligible nodes; a changed row costs one addition."""

    __slots__ = ("_eligible", "_epoch", "_reader", "_seen", "domains", "present", "sums")

    def __init__(self) -> None:
        self._reader = ChangeReader()
        self._epoch = -1
        self._seen: Ints = np.zeros(0, np.int64)
        self._eligible: Bools = np.zeros(0, np.bool_)
        self.sums: Ints = np.zeros(0, np.int64)
        self.present: Bools = np.zeros(0, np.bool_)
        """Domains with an eligible node."""
        self.domains = 0
        """The number of domains."""

    def sync(
        self,
        changing: Changing,
        epoch: int,
        topology: Topology,
        amounts: Ints,
        eligible: Callable[[], Bools],
    ) -> None:
        """Bring the sums up to date with the amounts, whose changes `changing` tells.

        Other node objects (`epoch`) make everything be counted anew.
        """
        rows = self._reader.changed(changing)
        if rows is None or epoch != self._epoch:
            self._epoch = epoch
            self._seen = amounts.copy()
            self._eligible = eligible()
            codes = topology.codes[self._eligible]
            size = len(topology.index)
            # Sums of integers far below 2**53 are exact in floating point.
            totals = np.bincount(codes, amounts[self._eligible], size)
            self.sums = totals.astype(np.int64)
            self.present = np.bincount(codes, minlength=size) > 0
            self.domains = int(np.count_nonzero(self.present))
            return
        seen, codes = self._seen, topology.codes
        for row in rows:
            now = amounts[row]
            if now != seen[row]:
                if self._eligible[row]:
                    self.sums[codes[row]] += now - seen[row]
                seen[row] = now


RowFn = Callable[["NodeInfo"], dict[str, int]]
_KEPT = 128
_TOPOLOGIES = 512
"""With more topology keys all are forgotten before the next cycle: each is written at every change of a node."""


@attrs.frozen(cache_hash=True)
class Keys:
    """Topology keys that count together: looked up once for each constraint of a pod, so hashed only once."""

    names: tuple[str, ...]


class Columns:
    """Allocatable and requested amounts, pod counts and a few properties of node objects.

    `sync` brings the arrays up to date with the snapshot; everything else reads.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._reader = ChangeReader()
        self._matching = MatchingPods(snapshot)
        self.size = 0
        self.exact = True
        """False when some amount is too large for 64-bit arithmetic: then ask nodes, not arrays, about amounts."""
        self._taint_classes: dict[Any, int] = {}
        self.taint_sets: list[Any] = []
        """Distinct `spec.taints`; `taint_class` indexes it."""
        self._scalar_names: dict[str, None] = {}
        self._scalars: dict[str, tuple[Ints, Ints]] = {}
        self._topologies: dict[str, Topology] = {}
        self._kept: OrderedDict[Hashable, SparseRows] = OrderedDict()
        self._properties: OrderedDict[Hashable, NodeProperty] = OrderedDict()
        self._tallies: OrderedDict[Hashable, DomainTally] = OrderedDict()
        self._everywhere: dict[Keys, tuple[int, Bools, bool]] = {}
        self.node_epoch = 0
        """Grows when a row gets another node object, or all rows are written anew."""
        self._resize(0)

    def _resize(self, size: int) -> None:
        self.size = size
        self.node_epoch += 1
        self._nodes: list[Any] = [None] * size
        self._storage_used = self._ports_used = False
        self.alloc_cpu: Ints = np.zeros(size, np.int64)
        self.alloc_memory: Ints = np.zeros(size, np.int64)
        self.alloc_storage: Ints = np.zeros(size, np.int64)
        self.alloc_pods: Ints = np.zeros(size, np.int64)
        self.used_cpu: Ints = np.zeros(size, np.int64)
        self.used_memory: Ints = np.zeros(size, np.int64)
        self.used_storage: Ints = np.zeros(size, np.int64)
        self.pod_count: Ints = np.zeros(size, np.int64)
        self.non_zero_cpu: Ints = np.zeros(size, np.int64)
        self.non_zero_memory: Ints = np.zeros(size, np.int64)
        self.unschedulable: Bools = np.zeros(size, np.bool_)
        self.taint_class: Ints = np.zeros(size, np.int64)
        self.has_images: Bools = np.zeros(size, np.bool_)
        self.has_ports: Bools = np.zeros(size, np.bool_)
        self._topologies = {}
        self._scalars = {
            name: (np.zeros(size, np.int64), np.zeros(size, np.int64))
            for name in self._scalar_names
        }

    @property
    def infos(self) -> list[NodeInfo]:
        """The nodes, by row."""
        return self.snapshot.node_info_list

    def sync(self) -> None:
        """Bring the arrays up to date."""
        if len(self._topologies) > _TOPOLOGIES:
            self._topologies.clear()
            self._tallies.clear()
            self._everywhere.clear()
        rows = self._reader.changed(self.snapshot)
        infos = self.snapshot.node_info_list
        if rows is None:
            self._resize(len(infos))
            self.exact = True
            rows = list(range(len(infos)))
        for row in rows:
            self._write(row, infos[row])

    def _write(self, row: int, info: NodeInfo) -> None:
        used = info.requested
        if (
            max(used.memory, used.ephemeral_storage, used.milli_cpu, info.non_zero_memory)
            > _LARGEST
        ):
            self.exact = False
        if info.node is not self._nodes[row]:
            self._write_node(row, info)
        self.used_cpu[row] = min(used.milli_cpu, _LARGEST)
        self.used_memory[row] = min(used.memory, _LARGEST)
        if used.ephemeral_storage or self._storage_used:
            self._storage_used = True
            self.used_storage[row] = min(used.ephemeral_storage, _LARGEST)
        self.pod_count[row] = len(info.pods)
        self.non_zero_cpu[row] = min(info.non_zero_cpu, _LARGEST)
        self.non_zero_memory[row] = min(info.non_zero_memory, _LARGEST)
        has_ports = len(info.used_ports) > 0
        if has_ports or self._ports_used:
            self._ports_used = True
            self.has_ports[row] = has_ports
        self.has_images[row] = bool(info.image_states)
        for name in self._scalar_names:
            capacity, requested = self._scalars[name]
            capacity[row] = self._clip(info.allocatable.scalars.get(name, 0))
            requested[row] = self._clip(used.scalars.get(name, 0))

    def holds(self, amounts: Iterable[int]) -> bool:
        """Return whether arithmetic with these amounts is exact on the arrays."""
        return self.exact and all(amount <= _LARGEST for amount in amounts)

    def _clip(self, amount: int) -> int:
        if amount > _LARGEST:
            self.exact = False
            return _LARGEST
        return amount

    def _write_node(self, row: int, info: NodeInfo) -> None:
        """Write the columns that depend on the node object alone."""
        allocatable, node = info.allocatable, info.node
        assert node is not None
        amounts = (allocatable.memory, allocatable.ephemeral_storage, allocatable.milli_cpu)
        if max(*amounts, allocatable.allowed_pod_number) > _LARGEST:
            self.exact = False
        self._nodes[row] = node
        self.node_epoch += 1
        self.alloc_cpu[row] = min(allocatable.milli_cpu, _LARGEST)
        self.alloc_memory[row] = min(allocatable.memory, _LARGEST)
        self.alloc_storage[row] = min(allocatable.ephemeral_storage, _LARGEST)
        self.alloc_pods[row] = min(allocatable.allowed_pod_number, _LARGEST)
        self.unschedulable[row] = node.spec.unschedulable
        taints = node.spec.taints
        # When a taint was added plays no part here; with it, classes would multiply.
        kind = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        known = self._taint_classes.get(kind)
        if known is None:
            known = self._taint_classes[kind] = len(self.taint_sets)
            self.taint_sets.append(taints)
        self.taint_class[row] = known
        for key, topology in self._topologies.items():
            topology.write(row, info, key)

    def topology(self, key: str) -> Topology:
        """Domains of a topology key; kept from the first request on."""
        found = self._topologies.get(key)
        if found is None:
            found = self._topologies[key] = Topology(self.size)
            for row, info in enumerate(self.snapshot.node_info_list):
                found.write(row, info, key)
        return found

    def everywhere(self, keys: Keys) -> tuple[Bools, bool]:
        """Nodes that have every one of these topology keys, and whether that is all nodes."""
        found = self._everywhere.get(keys)
        if found is None or found[0] != self.node_epoch:
            have = np.ones(self.size, np.bool_)
            for key in keys.names:
                have &= self.topology(key).has
            if len(self._everywhere) >= _KEPT:
                self._everywhere.clear()
            found = self._everywhere[keys] = (self.node_epoch, have, bool(have.all()))
        return found[1], found[2]

    def tally(
        self,
        key: Hashable,
        topology: Topology,
        amounts: Ints,
        eligible: Callable[[], Bools],
        changing: Changing | None = None,
    ) -> DomainTally:
        """Sums of `amounts` per domain, under `key`, which must say all that `eligible` depends on besides nodes.

        `changing` tells where amounts change; they may do so at any change of the snapshot unless it is given.
        """
        found = self._tallies.get(key)
        if found is None:
            if len(self._tallies) >= _KEPT:
                self._tallies.popitem(last=False)
            found = self._tallies[key] = DomainTally()
        else:
            self._tallies.move_to_end(key)
        found.sync(changing or self.snapshot, self.node_epoch, topology, amounts, eligible)
        return found

    def matching(self, selector: Selector, namespace: str) -> Matching:
        """Pods of the namespace that match and do not terminate, by row; an empty selector counts none."""
        return self._matching.of(selector, namespace)

    def kept(self, key: Hashable, compute: RowFn) -> SparseRows:
        """Numbers per node under `key`, which must say all that `compute` depends on."""
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
            found = self._kept[key] = SparseRows()
        else:
            self._kept.move_to_end(key)
        found.sync(self.snapshot, compute)
        return found

    def node_property(self, key: Hashable, compute: Callable[[NodeInfo], int]) -> Ints:
        """A number per node object under `key`, asked again when the object changes."""
        found = self._properties.get(key)
        if found is None or len(found.values) != self.size or found.epoch != self.snapshot.epoch:
            if len(self._properties) >= _KEPT:
                self._properties.popitem(last=False)
            found = self._properties[key] = NodeProperty(self.size, self.snapshot.epoch)
        found.sync(self.snapshot, compute)
        return found.values

    def scalar(self, name: str) -> tuple[Ints, Ints]:
        """(allocatable, requested) of a scalar resource; kept from the first request on."""
        found = self._scalars.get(name)
        if found is None:
            self._scalar_names[name] = None
            infos = self.snapshot.node_info_list
            found = self._scalars[name] = (
                np.array([self._clip(i.allocatable.scalars.get(name, 0)) for i in infos], np.int64),
                np.array([self._clip(i.requested.scalars.get(name, 0)) for i in infos], np.int64),
            )
        return found
