"""Which pods of a node move when it is removed, and which keep it.

Upstream: `simulator/drain.go`, `simulator/drainability`, `utils/drain/drain.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from controlplane.api.pod import Pod
from controlplane.autoscaler.budgets import RemainingBudgets
from controlplane.autoscaler.options import SECOND, DeleteOptions
from controlplane.autoscaler.pods import is_daemon_set_pod, is_mirror_pod
from controlplane.controllers.common.ownership import controller_of

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_LONG: Final = 30 * SECOND
"""Time after the grace period from which a pod that terminates is passed over."""
_GRACE: Final = 30
"""Default grace period of a pod, in seconds."""
_REPLICATED: Final = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")


class Outcome(Enum):
    """The verdict of a rule about a pod."""

    MOVES = "moves"
    BLOCKS = "blocks"
    SKIPPED = "skipped"
    WAITS = "waits"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a rule; reason and message say why a pod blocks."""

    outcome: Outcome
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Controllers:
    """Controllers by kind, then by namespace and name; the value is the number of replicas, None if unset."""

    replicas: Mapping[str, Mapping[tuple[str, str], int | None]] = field(default_factory=dict)

    def get(self, kind: str, namespace: str, name: str) -> tuple[bool, int | None]:
        """Return whether a controller is there, and its replicas."""
        known = self.replicas.get(kind, {})
        key = (namespace, name)
        return key in known, known.get(key)


@dataclass(frozen=True, slots=True)
class Draining:
    """The input of the rules."""

    options: DeleteOptions
    budgets: RemainingBudgets
    controllers: Controllers | None
    now: int


@dataclass(frozen=True, slots=True)
class Moves:
    """The pods of a node by what becomes of them; with a pod that blocks, those before it."""

    pods: tuple[Pod, ...] = ()
    daemon_set_pods: tuple[Pod, ...] = ()
    on_completion: tuple[Pod, ...] = ()
    blocking: Pod | None = None
    verdict: Verdict | None = None


Rule = Callable[[Draining, Pod], Verdict | None]
_MOVES: Final = Verdict(Outcome.MOVES)
_SKIPPED: Final = Verdict(Outcome.SKIPPED)
_WAITS: Final = Verdict(Outcome.WAITS)


def pods_to_move(pods: Iterable[Pod], draining: Draining) -> Moves:
    """Sort the pods of a node; the first that blocks ends the search."""
    moving, daemons, waiting = list[Pod](), list[Pod](), list[Pod]()
    rules = _rules(draining.options)
    for pod in pods:
        verdict = _judged(rules, draining, pod)
        if verdict is None or verdict.outcome is Outcome.MOVES:
            (daemons if is_daemon_set_pod(pod) else moving).append(pod)
        elif verdict.outcome is Outcome.WAITS:
            waiting.append(pod)
        elif verdict.outcome is Outcome.BLOCKS:
            return Moves(tuple(moving), tuple(daemons), tuple(waiting), pod, verdict)
    return Moves(tuple(moving), tuple(daemons), tuple(waiting))


def _judged(rules: Sequence[Rule], draining: Draining, pod: Pod) -> Verdict | None:
    for rule in rules:
        verdict = rule(draining, pod)
        if verdict is not None:
            return verdict
    return None


def _blocks(reason: str, message: str) -> Verdict:
    return Verdict(Outcome.BLOCKS, reason, message)


def _mirror(_draining: Draining, pod: Pod) -> Verdict | None:
    return _SKIPPED if is_mirror_pod(pod) else None


def terminates_for_long(pod: Pod, now: int) -> bool:
    """Return whether a pod should have been gone for a while."""
    since = pod.metadata.deletion_timestamp
    if since is None:
        return False
    grace = pod.spec.termination_grace_period_seconds
    return since + (_GRACE if grace is None else grace) * SECOND + _LONG < now


def _long_terminating(draining: Draining, pod: Pod) -> Verdict | None:
    return _SKIPPED if terminates_for_long(pod, draining.now) else None


@dataclass(frozen=True, slots=True)
class _Kind:
    """The names of a kind of controller: that of messages, and that of the API."""

    said: str
    resource: str
    missing: str
    group: str = ""
    counted: bool = False


_KINDS: Final[Mapping[str, _Kind]] = {
    "ReplicationController": _Kind(
        "replication controller", "replicationcontroller", "is not available, err", counted=True
    ),
    "DaemonSet": _Kind("daemonset", "daemonset.apps", "is not present, err", "apps"),
    "Job": _Kind("job", "job.batch", "is not available: err"),
    "ReplicaSet": _Kind(
        "replication controller", "replicaset.apps", "is not available, err", counted=True
    ),
    "StatefulSet": _Kind("statefulset", "statefulset.apps", "is not available: err", "apps"),
}


def _replica_count(draining: Draining, pod: Pod) -> Verdict | None:
    owner = controller_of(pod)
    if draining.controllers is None or owner is None or owner.api_version.count("/") > 1:
        return None
    name = owner.kind
    if is_daemon_set_pod(pod) and name not in ("ReplicationController", "DaemonSet"):
        return None
    kind = _KINDS.get(name)
    group = owner.api_version.rpartition("/")[0]
    if kind is None or (kind.group and kind.group != group):
        return None
    there, replicas = draining.controllers.get(name, pod.metadata.namespace, owner.name)
    if not there:
        why = f'{kind.resource} "{owner.name}" not found'
        text = f"{kind.said} for {pod.key} {kind.missing}: {why}"
        return _blocks("ControllerNotFound", text)
    least = draining.options.min_replicas
    if kind.counted and replicas is not None and replicas < least:
        text = f"{kind.said} for {pod.key} has too few replicas spec: {replicas} min: {least}"
        return _blocks("MinReplicasReached", text)
    return None


def _daemon_set(_draining: Draining, pod: Pod) -> Verdict | None:
    return _MOVES if is_daemon_set_pod(pod) else None


def _annotated(pod: Pod, value: str) -> bool:
    return pod.metadata.annotations.get(SAFE_TO_EVICT) == value


def _safe(_draining: Draining, pod: Pod) -> Verdict | None:
    return _MOVES if _annotated(pod, "true") else None


def _terminal(_draining: Draining, pod: Pod) -> Verdict | None:
    policy, phase = pod.spec.restart_policy, pod.status.phase
    ended = phase == "Failed" or (policy in ("Never", "OnFailure") and phase == "Succeeded")
    return _MOVES if ended else None


def _on_completion(_draining: Draining, pod: Pod) -> Verdict | None:
    return _WAITS if _annotated(pod, "on-completion") else None


def _replicated(draining: Draining, pod: Pod) -> Verdict | None:
    owner = controller_of(pod)
    if owner is not None and (not draining.options.custom_controllers or owner.kind in _REPLICATED):
        return None
    return _blocks("NotReplicated", f"{pod.key} is not replicated")


def _system(draining: Draining, pod: Pod) -> Verdict | None:
    if pod.metadata.namespace != "kube-system" or draining.budgets.allowed_for(pod):
        return None
    created = pod.metadata.creation_timestamp
    if created is not None and draining.now > created + draining.options.system_pod_timeout:
        return _MOVES
    kinds = "non-daemonset, non-mirrored, non-pdb-assigned kube-system pod"
    return _blocks("UnmovableKubeSystemPod", f"{kinds} present: {pod.metadata.name}")


def _not_safe(_draining: Draining, pod: Pod) -> Verdict | None:
    if not _annotated(pod, "false"):
        return None
    text = f"pod annotated as not safe to evict present: {pod.metadata.name}"
    return _blocks("NotSafeToEvictAnnotation", text)


def _local_storage(_draining: Draining, pod: Pod) -> Verdict | None:
    safe = pod.metadata.annotations.get(SAFE_VOLUMES, "").split(",")
    for volume in pod.spec.volumes:
        local: Any = volume.host_path is not None or (
            volume.empty_dir is not None and volume.empty_dir.medium != "Memory"
        )
        if local and volume.name not in safe:
            text = f"pod with local storage present: {pod.metadata.name}"
            return _blocks("LocalStorageRequested", text)
    return None


def _budget(draining: Draining, pod: Pod) -> Verdict | None:
    if all(allowed > 0 for allowed in draining.budgets.allowed_for(pod)):
        return None
    return _blocks("NotEnoughPdb", f"not enough pod disruption budget to move {pod.key}")


def _rules(options: DeleteOptions) -> list[Rule]:
    ruled: list[tuple[Rule, bool]] = [
        (_mirror, True),
        (_long_terminating, True),
        (_replica_count, options.custom_controllers),
        (_daemon_set, True),
        (_safe, True),
        (_terminal, True),
        (_on_completion, True),
        (_replicated, True),
        (_system, options.system_pods),
        (_not_safe, True),
        (_local_storage, options.local_storage),
        (_budget, True),
    ]
    return [rule for rule, used in ruled if used]
