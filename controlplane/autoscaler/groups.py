"""Node groups, the nodes they would add, and options for a scale-up.

Upstream: `cloudprovider/cloud_provider.go`, `expander/expander.go`, `utils/gpu/gpu.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.quantity import Quantity

GPU_RESOURCES: Final = (
    "nvidia.com/gpu",
    "habana.ai/gaudi",
    "gpu.intel.com/xe",
    "amd.com/gpu",
    "microsoft.com/directx",
)
"""Extended resources of the vendors of GPUs, the default one first."""
ZERO: Final = Quantity.new(0)
UPCOMING: Final = "cluster-autoscaler.k8s.io/upcoming-node"
"""Annotation of a node of the simulation that is not there yet."""
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")


@dataclass(frozen=True, slots=True)
class Template:
    """The node that a group would add, with the pods expected on it from the start."""

    node: Node
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The own settings of a group; None where the autoscaler's own value holds. Times in nanoseconds."""

    utilization_threshold: float | None = None
    gpu_utilization_threshold: float | None = None
    unneeded_time: int | None = None
    unready_time: int | None = None
    provision_time: int | None = None
    startup_time: int | None = None
    ignore_daemon_sets_utilization: bool | None = None
    zero_or_max: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine of a group as the provider knows it; `state` is Running, Creating or Deleting."""

    id: str
    state: str = "Running"
    error_class: str = ""
    error_code: str = ""
    error_message: str = ""

    @property
    def failed(self) -> bool:
        """True if the provider reports an error for it."""
        return bool(self.error_class or self.error_code or self.error_message)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A group of alike nodes: bounds, target size, members."""

    id: str
    min_size: int = 0
    max_size: int = 0
    target: int = 0
    template: Template | None = None
    instances: tuple[Instance, ...] = ()
    options: GroupOptions = field(default_factory=GroupOptions)

    @property
    def room(self) -> int:
        """Number of nodes that the group may still add."""
        return max(0, self.max_size - self.target)


@dataclass(frozen=True, slots=True)
class Option:
    """A possible scale-up: a group, the number of nodes, and the pods that these would hold."""

    group: str
    node_count: int
    pods: tuple[Pod, ...] = ()
    similar: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cloud:
    """The state of the cloud provider: groups in its order, and the group of each node by the node's name.

    With a `scheme` the provider knows its instances by that beginning of their ids; nodes with another are not its.
    """

    groups: tuple[NodeGroup, ...] = ()
    members: Mapping[str, str] = field(default_factory=dict)
    gpu_label: str = ""
    scheme: str = ""

    def lacks(self, node: Node) -> bool:
        """Return whether the instance of a node is not there any more."""
        if node.metadata.name in self.members:
            return False
        return not self.scheme or node.spec.provider_id.startswith(self.scheme)

    def group(self, name: str) -> NodeGroup | None:
        """Return the group of this id."""
        return next((each for each in self.groups if each.id == name), None)

    def group_of(self, node: Node) -> NodeGroup | None:
        """Return the group of a node, None for a node that the autoscaler does not manage."""
        name = self.members.get(node.metadata.name)
        return None if name is None else self.group(name)

    def registered(self, group: NodeGroup, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes that stand for an instance of a group, without those that are only expected."""
        known = {each.id: None for each in group.instances}
        return [
            node
            for node in nodes
            if node.spec.provider_id in known
            and node.metadata.annotations.get(UPCOMING) not in _TRUE
        ]


def gpu_resource(node: Node, label: str) -> str:
    """Return the resource of the GPU of a node, or an empty text for a node that has none.

    A node has one by the provider's label, or by what it can allocate.
    """
    for name in GPU_RESOURCES:
        amount = node.status.allocatable.get(name)
        if amount is not None and not amount.is_zero():
            return name
    return GPU_RESOURCES[0] if label in node.metadata.labels else ""
