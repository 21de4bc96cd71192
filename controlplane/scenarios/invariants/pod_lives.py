"""Invariants of pods on their nodes: from what a status tells to when an object may go.

Upstream: pkg/kubelet/status/status_manager.go, pkg/kubelet/pod_workers.go and
pkg/kubelet/allocation/allocation_manager.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import ENDED, PODS, note, stored_pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controlplane.api.object import Object
    from controlplane.kubelet.loops.host import Host
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "FORCED",
    "deferred_resizes_do_not_fit",
    "deleted_pods_go",
    "ended_pods_stay_ended",
    "objects_outlast_their_mounts",
    "statuses_tell_what_runs",
]

FORCED: Final = "pods deleted by force"
"""Note: the uids of pods that a user deletes without a grace period, so that nothing is waited for."""
MIRROR: Final = "kubernetes.io/config.mirror"
PENDING: Final = "PodResizePending"


def _on(run: Run, nodes: tuple[str, ...]) -> Iterator[tuple[Object[Any], Host]]:
    """The stored pods on these nodes, without those that show static pods, each with its node's machine."""
    for pod in run.objects(PODS):
        node = pod.tree["spec"].get("nodeName")
        if node in nodes and MIRROR not in (pod.metadata.get("annotations") or {}):
            yield pod, run.cluster.machines[node]


def ended_pods_stay_ended(after: str) -> Invariant:
    """A pod that was stored as succeeded or failed is never stored otherwise."""

    def check(run: Run) -> str | None:
        ended = note(run, "phases of ended pods")
        for pod in run.objects(PODS):
            phase = (pod.tree.get("status") or {}).get("phase")
            before = ended.get(pod.uid)
            if before is not None and before != phase:
                return f"{pod.key} ({pod.uid}) had {before.lower()}, and is {phase} again"
            if phase in ENDED:
                ended[pod.uid] = phase
        return None

    return Invariant("a pod that has ended stays so", check, (after,), looks_at=stored_pods)


def deleted_pods_go(*nodes: str) -> Invariant:
    """At rest no pod of these nodes is being deleted."""

    def check(run: Run) -> str | None:
        for pod, _ in _on(run, nodes):
            if pod.metadata.get("deletionTimestamp") and not pod.metadata.get("finalizers"):
                return f"{pod.key} is being deleted, and stays"
        return None

    return Invariant("a deleted pod goes", check)


def statuses_tell_what_runs(*nodes: str) -> Invariant:
    """At rest a status tells of those containers as running that run on the node."""

    def check(run: Run) -> str | None:
        for pod, host in _on(run, nodes):
            status = pod.tree.get("status") or {}
            told = {
                each["name"]: each.get("containerID")
                for field in ("initContainerStatuses", "containerStatuses")
                for each in status.get(field) or ()
                if "running" in (each.get("state") or {})
            }
            sandbox = host.sandboxes.get(pod.uid)
            runs = {} if sandbox is None else {c.name: c.container_id for c in sandbox.running()}
            for name in sorted(told.keys() | runs.keys()):
                if told.get(name) != runs.get(name):
                    said = "tells" if name in told else "does not tell"
                    return f"the status of {pod.key} {said} that container {name} runs"
        return None

    return Invariant("a status tells what runs", check)


def deferred_resizes_do_not_fit(*nodes: str) -> Invariant:
    """At rest no resize is deferred that fits beside what is allocated to the other pods of the node.

    Pods with CPUs of their own, or with devices, are left out: their managers may refuse them for other reasons. So are
    pods that have what they ask for: a kubelet that dies between the allocation and its report leaves the condition
    behind, and the next one takes it over and does not look at it again (HandlePodAdditions of
    pkg/kubelet/kubelet.go queues only what differs from its allocation).
    """

    def check(run: Run) -> str | None:
        from controlplane.api.pod_resources import GUARANTEED, pod_qos, pod_requests
        from controlplane.kubelet.node.admission import amount, together

        for pod, host in _on(run, nodes):
            promises = host.promises
            if promises is None or not _is_deferred(pod) or pod_qos(pod.view) == GUARANTEED:
                continue
            if not pod_requests(pod.view).keys() <= {"cpu", "memory"}:
                continue
            allocatable, allocated = promises()
            others = together([each for each in allocated if each.uid != pod.uid])
            wanted = together([pod.view])
            if wanted == together([each for each in allocated if each.uid == pod.uid]):
                continue
            if all(
                others[name] + wanted[name] <= amount(name, allocatable[name])
                for name in wanted
                if name in allocatable
            ):
                return f"the resize of {pod.key} is deferred, and fits"
        return None

    return Invariant("a deferred resize does not fit", check)


def _is_deferred(pod: Object[Any]) -> bool:
    return any(
        each["type"] == PENDING and each.get("reason") == "Deferred"
        for each in (pod.tree.get("status") or {}).get("conditions") or ()
    )


def objects_outlast_their_mounts(after: str, driver: str) -> Invariant:
    """A volume that is mounted for a pod when it has ended is unmounted before the pod's object goes.

    Not so for pods deleted by force. A mount that is under way when the kubelet looks may still succeed afterwards,
    upstream too: `WaitForUnmount` of pkg/kubelet/volumemanager sees what is mounted, or may be.
    """

    def check(run: Run) -> str | None:
        known = note(run, "mounts of pods that have ended")
        disk = run.cluster.csi_drivers[driver].driver
        if disk is None:  # the driver has not begun
            return None
        stored = {pod.uid: pod for pod in run.objects(PODS)}
        for uid in [uid for uid in known if uid not in stored]:
            name, volumes = known.pop(uid)
            left = sorted(volumes & _mounted(disk.published, uid))
            if left and uid not in run.notes.get(FORCED, ()):
                return f"{name} is gone, and {left[0]} is mounted for it"
        for uid, pod in stored.items():
            if uid not in known and (pod.tree.get("status") or {}).get("phase") in ENDED:
                known[uid] = pod.key, _mounted(disk.published, uid)
        return None

    return Invariant(
        "an object outlasts the mounts of its pod", check, (after,), looks_at=stored_pods
    )


def _mounted(published: Mapping[str, Any], uid: str) -> set[str]:
    """Return the volumes that are mounted for a pod."""
    return {
        volume for volume, places in published.items() if any(uid in target for _, target in places)
    }
