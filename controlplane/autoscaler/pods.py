"""Kinds of pods, and which of them count as the same for scheduling.

Upstream: `utils/{drain/drain,pod/pod,utils}.go`, `core/scaleup/equivalence/groups.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from controlplane.api.containers import Container
from controlplane.api.pod import CONFIG_MIRROR, CONFIG_SOURCE, Pod, PodSpec
from controlplane.controllers.common.ownership import controller_of
from controlplane.sharing.replacing import replaced

DAEMON_SET_POD: Final = "cluster-autoscaler.kubernetes.io/daemonset-pod"
_MOST_SPECS: Final = 10
"""Specs of one controller that are told apart; pods with others stand alone."""


def is_daemon_set_pod(pod: Pod) -> bool:
    """Return whether a pod is of a DaemonSet, or annotated as such."""
    owner = controller_of(pod)
    if owner is not None and owner.kind == "DaemonSet":
        return True
    return pod.metadata.annotations.get(DAEMON_SET_POD) == "true"


def is_mirror_pod(pod: Pod) -> bool:
    """Return whether a pod stands for a static one."""
    return CONFIG_MIRROR in pod.metadata.annotations


def is_static_pod(pod: Pod) -> bool:
    """Return whether a kubelet took a pod from elsewhere than the API server."""
    return pod.metadata.annotations.get(CONFIG_SOURCE, "api") != "api"


def is_unschedulable(pod: Pod, since: int = 0) -> bool:
    """Return whether the scheduler noted that no node fits a pod, at a time or later."""
    return any(
        each.type == "PodScheduled"
        and each.status == "False"
        and each.reason == "Unschedulable"
        and (each.last_transition_time or 0) >= since
        for each in pod.status.conditions
    )


def recreatable(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that something makes again elsewhere: neither static nor of a DaemonSet."""
    return [
        pod
        for pod in pods
        if not (is_static_pod(pod) or is_mirror_pod(pod) or is_daemon_set_pod(pod))
    ]


def scheduling_spec(spec: PodSpec) -> PodSpec:
    """Return a spec without what differs from pod to pod: environment, host name, projected volumes."""
    projected = [each.name for each in spec.volumes if each.projected is not None]
    return replaced(
        spec,
        hostname="",
        volumes=tuple(each for each in spec.volumes if each.projected is None),
        containers=_bare(spec.containers, projected),
        init_containers=_bare(spec.init_containers, projected),
    )


def _bare(containers: Sequence[Container], projected: Sequence[str]) -> tuple[Container, ...]:
    return tuple(
        replaced(
            each,
            env=(),
            volume_mounts=tuple(
                mount for mount in each.volume_mounts if mount.name not in projected
            ),
        )
        for each in containers
    )


def same_for_scheduling(left: Pod, right: Pod) -> bool:
    """Return whether two pods have equal labels and, for scheduling, equal specs."""
    return left.metadata.labels == right.metadata.labels and scheduling_spec(
        left.spec
    ) == scheduling_spec(right.spec)


def equivalence_groups(pods: Iterable[Pod]) -> list[tuple[Pod, ...]]:
    """Group the pods of one controller that count as the same; groups in order of their first pod."""
    groups: list[list[Pod]] = []
    known: dict[str, list[list[Pod]]] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is None or is_daemon_set_pod(pod):
            groups.append([pod])
            continue
        own = known.setdefault(owner.uid, [])
        group = next((each for each in own if same_for_scheduling(pod, each[0])), None)
        if group is not None:
            group.append(pod)
            continue
        group = [pod]
        groups.append(group)
        if len(own) < _MOST_SPECS:
            own.append(group)
    return [tuple(each) for each in groups]
