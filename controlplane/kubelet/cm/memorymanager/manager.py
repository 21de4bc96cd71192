"""The memory manager: a policy with its state, the active pods, and the NUMA nodes of each container.

Upstream: pkg/kubelet/cm/memorymanager/memory_manager.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import HUGE_PAGES, MEMORY
from controlplane.api.quantity import Quantity, parse
from controlplane.api.validation import quote
from controlplane.decisions import Write
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.memorymanager.policy_static import NAME as STATIC
from controlplane.kubelet.cm.memorymanager.policy_static import Affinity, StaticPolicy
from controlplane.kubelet.cm.memorymanager.state import FILE, Blocks, MemoryState, restore
from controlplane.kubelet.cm.requests import is_sidecar
from controlplane.kubelet.cm.resource_manager import KubeletView, NonePolicy, ResourceManager
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.machine import NUMANode

NONE: Final = "None"
BEST_EFFORT: Final = "BestEffort"
STALE_REMOVED: Final = "kubelet.memory_manager.stale_state_removed"
"""The point between removing stale state, under the lock, and taking the lock again."""

_ZERO: Final = parse("0")


@attrs.frozen
class MemoryReservation:
    """Memory that is reserved for the system on a NUMA node, by resource."""

    numa_node: int
    limits: Mapping[str, Quantity]


class MemoryManager(ResourceManager[MemoryState]):
    """Operations are decisions: see `controlplane.decisions`."""

    STALE_REMOVED = STALE_REMOVED

    def __init__(
        self,
        nodes: Sequence[NUMANode],
        policy: str,
        affinity: Affinity,
        view: KubeletView,
        *,
        reservation: Mapping[str, Quantity] | None = None,
        reserved_memory: Sequence[MemoryReservation] = (),
    ) -> None:
        """`reservation` is kept back by node allocatable. Raises ManagerError."""
        super().__init__(view)
        self.policy: NonePolicy[MemoryState] | StaticPolicy
        if policy == NONE:
            self.policy = NonePolicy(NONE, MemoryState(NONE))
        elif policy == STATIC:
            check_reservation(nodes, reservation or {}, reserved_memory)
            reserved = system_reserved(nodes, reserved_memory)
            self.policy = StaticPolicy(
                nodes, reserved, affinity, view.features, view.metrics, view.fixes
            )
        elif policy == BEST_EFFORT:
            raise ManagerError(
                f"policy {quote(BEST_EFFORT)} is not available for platform {quote('linux')}"
            )
        else:
            raise ManagerError(f"unknown policy: {quote(policy)}")

    @property
    def assigned(self) -> Mapping[str, Mapping[str, Blocks]]:
        """The assigned memory by pod uid and container."""
        return self.state.entries

    def start(self, text: str | None) -> Steps[None]:
        """Begin with the checkpoint file, None when there is none. Raises ManagerError."""
        with_pods = self.features.enabled("PodLevelResourceManagers")
        if text is None:
            state = MemoryState(self.policy.name, pods={} if with_pods else None)
            yield Write(FILE, state)
        else:
            state = restore(text, self.policy.name, pod_entries=with_pods)
        yield from self.policy.start(state)

    def add_container(self, pod: Pod, container: str, container_id: str) -> Steps[None]:
        """A container was made: the init containers before it have ended and lose their memory."""
        self.containers.add(pod.uid, container, container_id)
        for init in pod.spec.init_containers:
            if init.name == container:
                break
            if not is_sidecar(init):
                yield from self.remove(pod.uid, init.name)

    def numa_nodes(self, pod_uid: str, container: str) -> tuple[int, ...]:
        """The NUMA nodes that a container is bound to; none means all."""
        blocks = self.state.blocks(pod_uid, container) or ()
        return tuple(sorted({node for block in blocks for node in block.nodes}))


def check_reservation(
    nodes: Sequence[NUMANode],
    reservation: Mapping[str, Quantity],
    reserved: Sequence[MemoryReservation],
) -> None:
    """Check that the reservations of the NUMA nodes add up to that of the node. Raises ManagerError."""
    known = dict.fromkeys(node.id for node in nodes)
    total: dict[str, Quantity] = {}
    for each in reserved:
        if each.numa_node not in known:
            raise ManagerError(
                f"the reserved memory configuration references a NUMA node {each.numa_node} that "
                "does not exist on this machine"
            )
        for name, quantity in each.limits.items():
            total[name] = quantity + total[name] if name in total else quantity
    for name in sorted({**total, **reservation}):
        if name != MEMORY and not name.startswith(HUGE_PAGES):
            continue
        mine, node = _ZERO + total.get(name, _ZERO), _ZERO + reservation.get(name, _ZERO)
        if mine != node:
            raise ManagerError(
                f"the total amount {quote(str(mine))} of type {quote(name)} is not equal to the "
                f"value {quote(str(node))} determined by Node Allocatable feature"
            )


def system_reserved(
    nodes: Sequence[NUMANode], reserved: Sequence[MemoryReservation]
) -> dict[int, dict[str, int]]:
    """Bytes by NUMA node and resource; of several entries for a node the last counts."""
    found: dict[int, dict[str, int]] = {node.id: {} for node in nodes}
    for each in reserved:
        found[each.numa_node] = {}
        for name, quantity in each.limits.items():
            value = quantity.as_int64()
            if value is None:
                raise ManagerError("could not represent quantity as int64")
            found[each.numa_node][name] = value
    return found
