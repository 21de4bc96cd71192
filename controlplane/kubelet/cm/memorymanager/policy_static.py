"""The static policy: containers of Guaranteed pods get memory and huge pages on given NUMA nodes.

Upstream: pkg/kubelet/cm/memorymanager/policy_static.go. The sums on the nodes are written before the
blocks of the container: what comes in between finds one without the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import attrs

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import HUGE_PAGES, MEMORY
from controlplane.api.quantity import Quantity
from controlplane.decisions import Write
from controlplane.kubelet.cm.errors import EmptyPodSharedPoolError, ManagerError
from controlplane.kubelet.cm.fixes import AS_RELEASED, ManagerFixes
from controlplane.kubelet.cm.memorymanager.machine_state import (
    agree,
    charge,
    default_machine_state,
    release,
    replay,
)
from controlplane.kubelet.cm.memorymanager.state import (
    FILE,
    Block,
    Blocks,
    MachineState,
    MemoryState,
    MemoryTable,
)
from controlplane.kubelet.cm.pod_shares import shares_of
from controlplane.kubelet.cm.requests import (
    containers_of,
    has_own_guarantee,
    is_guaranteed,
    is_init,
    is_sidecar,
    left_alone,
    managed_as_a_whole,
)
from controlplane.kubelet.cm.topologymanager.hints import (
    Choice,
    Hints,
    TopologyHint,
    choices,
    mask_of,
    narrower,
    nodes_of,
)
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import Features
from controlplane.kubelet.machine import NUMANode
from controlplane.metrics.numbers import Metrics

NAME: Final = "Static"

Amounts = dict[str, int]


class Affinity(Protocol):
    """The store of decided hints: the topology manager."""

    def affinity(self, pod_uid: str, container: str) -> TopologyHint:
        """The hint of a container."""


class StaticPolicy:
    """Works on `state`, which it replaces by another value with each change."""

    name = NAME

    def __init__(
        self,
        nodes: Sequence[NUMANode],
        reserved: Mapping[int, Mapping[str, int]],
        affinity: Affinity,
        features: Features,
        metrics: Metrics,
        fixes: ManagerFixes = AS_RELEASED,
    ) -> None:
        """`reserved` is the system's part by NUMA node and resource, in bytes. Raises ManagerError."""
        if not any(amounts.get(MEMORY, 0) for amounts in reserved.values()):
            raise ManagerError("[memorymanager] you should specify the system reserved memory")
        self.affinity = affinity
        self.features = features
        self.metrics = metrics
        self.fixes = fixes
        self.state = MemoryState(NAME)
        self._default = default_machine_state(nodes, reserved)
        self._reuse: dict[str, dict[tuple[int, str], int]] = {}

    # -- start -------------------------------------------------------------------------------

    def start(self, state: MemoryState) -> Steps[None]:
        """Take over a restored state. Raises ManagerError when it does not fit this machine."""
        self.state = state
        if not state.machine:
            if state.entries:
                raise ManagerError(
                    "[memorymanager] machine state can not be empty when it has memory assignments"
                )
            yield self._set(state.with_machine(self._default))
            return
        expected: MachineState = self._default
        for uid, pod in sorted(state.entries.items()):
            whole = state.of_pod(uid)
            if whole is not None:
                expected = replay(expected, uid, "", whole)
                continue
            for name, blocks in sorted(pod.items()):
                expected = replay(expected, uid, name, blocks)
        for uid, whole in sorted((state.pods or {}).items()):
            if uid not in state.entries:
                expected = replay(expected, uid, "", whole)
        if not agree(expected, state.machine, by_group=self.fixes.sums_by_group):
            raise ManagerError(
                "[memorymanager] the expected machine state is different from the real one"
            )

    def _set(self, state: MemoryState) -> Write:
        self.state = state
        return Write(FILE, state)

    # -- allocation --------------------------------------------------------------------------

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Give a container its memory. Raises ManagerError."""
        if not is_guaranteed(pod) or left_alone(pod, self.features):
            return
        self.metrics.add("memory_manager_pinning_requests_total")
        try:
            yield from self._allocate(pod, container)
        except ManagerError:
            self.metrics.add("memory_manager_pinning_errors_total")
            raise

    def _allocate(self, pod: Pod, container: Container) -> Steps[None]:
        present = self.state.blocks(pod.uid, container.name)
        if present is not None:
            self._update_reuse(pod, container, present)
            return
        if self.fixes.needs_nothing_new and self._served_already(pod, container):
            return
        hint = self.affinity.affinity(pod.uid, container.name)
        wanted = self._requested(pod, container)
        mask = self._fitting_mask(pod, hint, wanted)
        nodes = nodes_of(mask)
        blocks = tuple(Block(nodes, kind, wanted[kind]) for kind in sorted(wanted))
        machine: MachineState = self.state.machine
        for block in blocks:
            size = max(block.size - self._reusable(pod, mask, block.kind), 0)
            machine = charge(machine, attrs.evolve(block, size=size))
        self._update_reuse(pod, container, blocks)
        yield self._set(self.state.with_machine(machine))
        yield self._set(self.state.with_blocks(pod.uid, container.name, blocks))
        yield from self._shrink_init_containers(pod, container, blocks)

    def _served_already(self, pod: Pod, container: Container) -> bool:
        """Return whether an init container has had its turn: one that comes after all of them has its memory."""
        if not is_init(pod, container):
            return False
        return any(self.state.blocks(pod.uid, each.name) for each in pod.spec.containers)

    def _fitting_mask(self, pod: Pod, hint: TopologyHint, wanted: Amounts) -> int:
        """The NUMA nodes to take from: those of the hint, more if these do not suffice."""
        best = hint
        if hint.mask is None:
            hints = self._hints(pod, wanted).get(MEMORY)
            if not hints:
                raise ManagerError(
                    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with "
                    "enough memory is available"
                )
            best = best_of(hints)
            if hint.preferred and not best.preferred:
                raise ManagerError("[memorymanager] failed to find the default preferred hint")
        mask = best.mask or 0
        if not self._has_free(mask, wanted):
            larger = [
                each
                for each in self._hints(pod, wanted).get(MEMORY, ())
                if each.mask is not None and each.mask & mask == mask
            ]
            if not larger:
                raise ManagerError(
                    "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
                )
            extended = best_of(larger)
            if best.preferred and not extended.preferred:
                raise ManagerError("[memorymanager] failed to find the extended preferred hint")
            mask = extended.mask or 0
        if self.fixes.group_rule and self._breaks_groups(mask):
            raise ManagerError("[memorymanager] preferred hint violates NUMA node allocation")
        return mask

    def _has_free(self, mask: int, wanted: Amounts) -> bool:
        """Return whether the nodes have enough, memory that could be reused not counted."""
        return all(
            sum(self._table(node, kind).free for node in nodes_of(mask)) >= size
            for kind, size in wanted.items()
        )

    def _table(self, node: int, kind: str) -> MemoryTable:
        state = self.state.machine.get(node)
        table = None if state is None else state.memory.get(kind)
        if table is None:
            raise ManagerError(
                f"[memorymanager] NUMA node {node} has no {kind} (upstream's kubelet panics)"
            )
        return table

    def _breaks_groups(self, mask: int) -> bool:
        """A node serves either single-node blocks or one group of nodes. Upstream: #123443."""
        nodes = nodes_of(mask)
        if len(nodes) == 1:
            return False
        return any(
            self.state.machine[node].assignments
            and tuple(sorted(self.state.machine[node].cells)) != nodes
            for node in nodes
        )

    def _update_reuse(self, pod: Pod, container: Container, blocks: Blocks) -> None:
        """Memory of init containers serves the containers after them; only the last pod is remembered."""
        table = self._reuse.get(pod.uid, {})
        init = is_init(pod, container)
        for block in blocks:
            key = (mask_of(block.nodes), block.kind)
            have = table.get(key, 0)
            if init:
                table[key] = max(have, block.size)
            elif have:
                table[key] = max(have - block.size, 0)
        self._reuse = {pod.uid: table}

    def _reusable(self, pod: Pod, mask: int, kind: str) -> int:
        return self._reuse.get(pod.uid, {}).get((mask, kind), 0)

    def _shrink_init_containers(
        self, pod: Pod, container: Container, blocks: Blocks
    ) -> Steps[None]:
        """Earlier init containers lose what was reused, so that the blocks add up to what is charged."""
        for block in blocks:
            left = block.size
            for init in pod.spec.init_containers:
                if init.name == container.name or left == 0:
                    break
                before = self.state.blocks(pod.uid, init.name)
                if is_sidecar(init) or not before:
                    continue
                after = []
                for each in before:
                    taken = 0
                    if (each.kind, sorted(each.nodes)) == (block.kind, sorted(block.nodes)):
                        taken = min(each.size, left)
                        left -= taken
                    after.append(attrs.evolve(each, size=each.size - taken))
                yield self._set(self.state.with_blocks(pod.uid, init.name, tuple(after)))

    # -- pods as a whole ---------------------------------------------------------------------

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Give a pod with resources of its own its memory, and share it out. Raises ManagerError.

        Upstream does not look whether the pod has some already (kubernetes/kubernetes#140906).
        """
        if not is_guaranteed(pod) or not managed_as_a_whole(pod, self.features):
            return
        if self.fixes.pods_once and self.state.of_pod(pod.uid) is not None:
            return
        try:
            wanted = self._requested_by_pod(pod)
        except ManagerError:
            return  # upstream only logs it
        self.metrics.add("memory_manager_pinning_requests_total")
        try:
            yield from self._allocate_pod(pod, wanted)
        except ManagerError:
            self.metrics.add("memory_manager_pinning_errors_total")
            self.metrics.add(
                "resource_manager_allocation_errors_total", resource_name=MEMORY, source="pod"
            )
            raise
        self.metrics.add("resource_manager_allocations_total", resource_name=MEMORY, source="pod")

    def _allocate_pod(self, pod: Pod, wanted: Amounts) -> Steps[None]:
        self._check_shared_pool(pod, wanted)
        hint = self.affinity.affinity(pod.uid, containers_of(pod)[0].name)
        mask = self._fitting_mask(pod, hint, wanted)
        nodes = nodes_of(mask)
        bubble = tuple(Block(nodes, kind, wanted[kind]) for kind in sorted(wanted))
        machine: MachineState = self.state.machine
        for block in bubble:
            machine = charge(machine, block)
        yield self._set(self.state.with_pod(pod.uid, bubble))
        shares = self._shares(pod, wanted)
        for container in containers_of(pod):
            amounts = shares[container.name]
            blocks = tuple(
                Block(nodes, kind, amounts[kind]) for kind in sorted(amounts) if amounts[kind] > 0
            )
            yield self._set(self.state.with_blocks(pod.uid, container.name, blocks))
        yield self._set(self.state.with_machine(machine))

    def _check_shared_pool(self, pod: Pod, wanted: Amounts) -> None:
        """Containers without memory of their own must find some left at any time."""
        taken: Amounts = {}
        shared = False
        for container in pod.spec.init_containers:
            own = self._requested(pod, container)
            if is_sidecar(container):
                shared = shared or not own
                _count(taken, own)
            elif not own:
                for kind in sorted(wanted):
                    if taken.get(kind, 0) >= wanted[kind]:
                        raise EmptyPodSharedPoolError(
                            f"pod rejected, pod has shared init containers but no {kind} "
                            "available for them"
                        )
        for container in pod.spec.containers:
            own = self._requested(pod, container)
            shared = shared or not own
            _count(taken, own)
        for kind in sorted(wanted):
            if shared and taken.get(kind, 0) >= wanted[kind]:
                raise EmptyPodSharedPoolError(
                    f"pod rejected, sum of exclusive container {kind} requests equals pod budget, "
                    "leaving no memory for shared containers"
                )

    def _requested(self, pod: Pod, container: Container) -> Amounts:
        """Return the memory that a container gets exclusively. Of a pod with resources of its own only some get any."""
        if managed_as_a_whole(pod, self.features) and not has_own_guarantee(container):
            return {}
        return amounts_of(container.resources.requests)

    def _shares(self, pod: Pod, wanted: Amounts) -> dict[str, Amounts]:
        """Return the share of each container of a pod in the pod's memory."""
        return shares_of(pod, wanted, lambda each, _: self._requested(pod, each) or None, _less)

    # -- removal -----------------------------------------------------------------------------

    def remove(self, pod_uid: str, container: str) -> Steps[None]:
        """Take a container's memory back; that of a pod as a whole with its last container."""
        blocks = self.state.blocks(pod_uid, container)
        whole = self.state.of_pod(pod_uid)
        if blocks is None and whole is None:
            return
        yield self._set(self.state.without(pod_uid, container))
        if whole is not None and pod_uid in self.state.entries:
            return
        machine: MachineState = self.state.machine
        for block in (blocks or ()) if whole is None else whole:
            machine = release(machine, block)
        yield self._set(self.state.with_machine(machine))
        if whole is not None:
            yield self._set(self.state.without_pod(pod_uid))

    # -- hints -------------------------------------------------------------------------------

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        """Return the NUMA nodes that could give a container its memory; None without preference."""
        if not is_guaranteed(pod) or left_alone(pod, self.features):
            return None
        try:
            wanted = self._requested(pod, container)
        except ManagerError:
            return None
        present = self.state.blocks(pod.uid, container.name)
        if present is not None:
            return _same_again(present, wanted)
        return self._hints(pod, wanted)

    def pod_topology_hints(self, pod: Pod) -> Hints:
        """Return the NUMA nodes that could give a pod its memory; None without preference.

        The first container with memory decides, although it is compared with the sums of the pod.
        """
        if not is_guaranteed(pod) or left_alone(pod, self.features):
            return None
        try:
            wanted = self._requested_by_pod(pod)
        except ManagerError:
            return None
        if managed_as_a_whole(pod, self.features):
            try:
                self._check_shared_pool(pod, wanted)
            except ManagerError:
                return {kind: [] for kind in sorted(wanted)}
        for container in containers_of(pod):
            present = self.state.blocks(pod.uid, container.name)
            if present is not None:
                return _same_again(present, wanted)
        return self._hints(pod, wanted)

    def _requested_by_pod(self, pod: Pod) -> Amounts:
        if managed_as_a_whole(pod, self.features):
            whole = pod.spec.resources
            amounts = {} if whole is None else amounts_of(whole.requests)
            return {kind: size for kind, size in amounts.items() if size > 0}
        return requested_by_pod(pod)

    def _hints(self, pod: Pod, wanted: Amounts) -> dict[str, list[TopologyHint]]:
        """The same list for every resource; an empty answer means that nothing fits.

        Upstream: calculateHints.
        """
        machine = self.state.machine
        nodes = tuple(sorted(machine))
        table = choices(nodes)
        reuse = self._reuse.get(pod.uid, {})
        single = 0
        groups: list[tuple[int, int]] = []
        grouped = 0
        for node in nodes:
            state = machine[node]
            if len(state.cells) > 1:
                grouped |= 1 << node
            if state.assignments:
                if len(state.cells) == 1:
                    single |= 1 << node
                else:
                    groups.append((1 << node, mask_of(state.cells)))
        # By choice: whether it has the amount at all, and whether the amount is free.
        able = [True] * len(table)
        fits = [True] * len(table)
        for kind in sorted(wanted):
            size = wanted[kind]
            tables = [self._table(node, kind) for node in nodes]
            for good, amounts, more in (
                (able, [each.allocatable for each in tables], {}),
                (fits, [each.free for each in tables], reuse),
            ):
                sums = [0] * (len(table) + 1)  # the last one is that of nothing
                for at, choice in enumerate(table):
                    total = sums[at] = sums[choice.rest] + amounts[choice.first]
                    if total < size and total + more.get((choice.mask, kind), 0) < size:
                        good[at] = False
        smallest = len(nodes)
        found: list[Choice] = []
        for at, choice in enumerate(table):
            if not able[at]:
                continue
            mask, count = choice.mask, choice.size
            smallest = min(smallest, count)
            if not fits[at]:
                continue
            if count == 1:
                if mask & grouped:
                    continue
            elif mask & single or any(mask & node and mask != group for node, group in groups):
                continue
            found.append(choice)
        if not found:
            return {}
        hints = [each.preferred if each.size == smallest else each.plain for each in found]
        return dict.fromkeys(sorted(wanted), hints)


def _count(total: Amounts, more: Amounts) -> None:
    for kind, size in more.items():
        total[kind] = total.get(kind, 0) + size


def _less(amounts: Amounts, taken: Amounts) -> Amounts:
    return {kind: max(size - taken.get(kind, 0), 0) for kind, size in amounts.items()}


def _same_again(blocks: Blocks, wanted: Amounts) -> Hints:
    """The nodes that it has already; no preference when the sizes differ."""
    if len(blocks) != len(wanted):
        return None
    hints: dict[str, list[TopologyHint]] = {kind: [] for kind in sorted(wanted)}
    for block in blocks:
        if wanted.get(block.kind) != block.size:
            return None
        hints[block.kind].append(TopologyHint(mask_of(block.nodes), True))
    return hints


def best_of(hints: Sequence[TopologyHint]) -> TopologyHint:
    """A preferred one before the others, then the narrowest."""
    best = hints[0]
    for hint in hints[1:]:
        if hint.preferred != best.preferred:
            best = hint if hint.preferred else best
        elif narrower(hint.mask or 0, best.mask or 0):
            best = hint
    return best


def amounts_of(requests: Mapping[str, Quantity]) -> Amounts:
    """Memory and huge pages in bytes. Raises ManagerError for what is no whole number."""
    found = {}
    for name, quantity in requests.items():
        if name == MEMORY or name.startswith(HUGE_PAGES):
            value = quantity.as_int64()
            if value is None:
                raise ManagerError("[memorymanager] failed to represent quantity as int64")
            found[name] = value
    return found


def requested_by_pod(pod: Pod) -> Amounts:
    """Return the largest amount that a pod needs at any moment. Raises ManagerError.

    Only kinds that app containers ask for: others are forgotten (kubernetes/kubernetes#140814).
    """
    largest: Amounts = {}
    sidecars: Amounts = {}
    for container in pod.spec.init_containers:
        for kind, size in amounts_of(container.resources.requests).items():
            if is_sidecar(container):
                sidecars[kind] = sidecars.get(kind, 0) + size
            else:
                largest[kind] = max(largest.get(kind, 0), sidecars.get(kind, 0) + size)
    total: Amounts = {}
    for container in pod.spec.containers:
        for kind, size in amounts_of(container.resources.requests).items():
            total[kind] = total.get(kind, 0) + size
    return {
        kind: max(size + sidecars.get(kind, 0), largest.get(kind, 0))
        for kind, size in total.items()
    }
