"""NodeDeclaredFeatures: what a pod needs of the kubelet, the node must declare.

Upstream: `pkg/scheduler/framework/plugins/nodedeclaredfeatures`, component-helpers
`nodedeclaredfeatures`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.column_forms import NodeLocalFilter
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    PreFilterPlugin,
    PreFilterResult,
    Status,
    unresolvable,
)

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

_LACKING = unresolvable("node(s) didn't match Pod's required features").by(
    names.NODE_DECLARED_FEATURES
)
_KEY = "PreFilterNodeDeclaredFeatures"

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
_KNOWN = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
)
"""All declared features, sorted."""


def required_features(pod: Pod) -> tuple[str, ...]:
    """Features that the pod's spec implies, sorted."""
    spec = pod.spec
    out: list[str] = []
    if any(
        rule.action == "RestartAllContainers"
        for container in (*spec.init_containers, *spec.containers)
        for rule in container.restart_policy_rules
    ):
        out.append(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        out.append(USER_NAMESPACES_HOST_NETWORK)
    return tuple(out)


class NodeDeclaredFeatures(PreFilterPlugin, NodeLocalFilter, EnqueueExtensions):
    """Refuses nodes that lack a required feature."""

    name = names.NODE_DECLARED_FEATURES

    def __init__(self, handle: Handle) -> None:
        self._enabled = handle.feature("NodeDeclaredFeatures")

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Infer the features; most pods need none."""
        features = required_features(pod)
        if not features or not self._enabled:
            return None, SKIP
        state.write(_KEY, features)
        return None, None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node that does not declare all of them."""
        assert node.node is not None
        declared = node.node.status.declared_features
        return None if all(f in declared for f in state.data[_KEY]) else _LACKING

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """The features."""
        key: tuple[str, ...] = state.data[_KEY]
        return key

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A node comes or declares other features; the pod needs others."""
        return [
            ev.ClusterEventWithHint(
                ev.event_of(ev.NODE, ev.ADD | ev.UPDATE_NODE_DECLARED_FEATURE), _node_changed
            ),
            ev.ClusterEventWithHint(ev.event_of(ev.POD, ev.UPDATE), _pod_changed),
        ]

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """A bit for each declared feature that upstream knows."""
        required = required_features(pod)
        bits = "".join("1" if name in required else "0" for name in _KNOWN)
        return ((signers.FEATURES, signers.text(bits)),)


def _node_changed(_pod: Pod, old: Node | None, new: Node) -> ev.Hint:
    if old is None or old.status.declared_features != new.status.declared_features:
        return ev.Hint.QUEUE
    return ev.Hint.SKIP


def _pod_changed(pod: Pod, old: Pod, new: Pod) -> ev.Hint:
    if new.uid == pod.uid and required_features(old) != required_features(new):
        return ev.Hint.QUEUE
    return ev.Hint.SKIP
