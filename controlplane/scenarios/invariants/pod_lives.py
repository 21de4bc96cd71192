"""Invariants of pods on their nodes: from what a status tells to when an object may go.

Upstream: pkg/kubelet/status/status_manager.go, pkg/kubelet/pod_workers.go and
pkg/kubelet/allocation/allocation_manager.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import ENDED, PODS, note, stored_pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.quantity import Quantity
    from controlplane.kubelet.loops.host import Host
    from controlplane.kubelet.loops.process import Process
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "ENDED_BY_OTHERS",
    "FORCED",
    "deferred_resizes_do_not_fit",
    "deleted_pods_go",
    "ended_pods_stay_ended",
    "is_to_go",
    "objects_outlast_their_mounts",
    "objects_outlast_their_workers",
    "resize_fits",
    "statuses_are_sent",
    "statuses_tell_what_runs",
    "what_runs_has_its_volumes",
]

FORCED: Final = "pods deleted by force"
"""Note: the uids of pods that a user deletes without a grace period, so that nothing is waited for."""
ENDED_BY_OTHERS: Final = "pods whose phase users wrote"
"""Note: the uids of pods of which a user writes that they have ended."""
WRITTEN_BACK: Final = 1_000_000_000
"""The virtual nanoseconds between a kubelet's reading of a pod and its writing, at most."""
MIRROR: Final = "kubernetes.io/config.mirror"
PENDING: Final = "PodResizePending"


def _on(run: Run, nodes: tuple[str, ...]) -> Iterator[tuple[Object[Any], Host]]:
    """The stored pods on these nodes, without those that show static pods, each with its node's machine."""
    for pod in run.objects(PODS):
        node = pod.tree["spec"].get("nodeName")
        if node in nodes and MIRROR not in (pod.metadata.get("annotations") or {}):
            yield pod, run.cluster.machines[node]


def is_to_go(pod: Object[Any]) -> bool:
    """Return whether a pod is being deleted, and its node is given time for that."""
    marked = pod.metadata.get("deletionTimestamp")
    return bool(marked) and pod.metadata.get("deletionGracePeriodSeconds") != 0


def ended_pods_stay_ended(after: str) -> Invariant:
    """A pod that was stored as succeeded or failed is never stored otherwise.

    The phase that a client other than the kubelet wrote can be lost to a kubelet that has read the pod and not yet
    written it: its patch names no version (syncPod of pkg/kubelet/status/status_manager.go).
    """

    def check(run: Run) -> str | None:
        ended, by_others = note(run, "phases of ended pods"), run.notes.get(ENDED_BY_OTHERS, ())
        for pod in run.objects(PODS):
            phase = (pod.tree.get("status") or {}).get("phase")
            before, since = ended.get(pod.uid, (None, 0))
            if before is not None and before != phase:
                if pod.uid not in by_others or run.world.now - since > WRITTEN_BACK:
                    return f"{pod.key} ({pod.uid}) had {before.lower()}, and is {phase} again"
                del ended[pod.uid]
            elif phase in ENDED and before is None:
                ended[pod.uid] = phase, run.world.now
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

    A kubelet that dies between the allocation and its report leaves the condition behind, and the next one takes it
    over and does not look at it again (HandlePodAdditions of pkg/kubelet/kubelet.go queues only what differs from its
    allocation): pods that have what they ask for are left out.
    """

    def check(run: Run) -> str | None:
        for pod, host in _on(run, nodes):
            promises = host.promises
            if promises is not None and _is_deferred(pod) and resize_fits(pod.view, *promises()):
                return f"the resize of {pod.key} is deferred, and fits"
        return None

    return Invariant("a deferred resize does not fit", check)


def resize_fits(pod: Pod, allocatable: Mapping[str, Quantity], allocated: Sequence[Pod]) -> bool:
    """Return whether what a pod asks for fits beside the allocations of others, and is not its allocation already.

    Not of pods with CPUs of their own, or with devices: their managers may refuse them for other reasons.
    """
    from controlplane.api.pod_resources import GUARANTEED, pod_qos, pod_requests
    from controlplane.kubelet.node.admission import amount, together

    if pod_qos(pod) == GUARANTEED or not pod_requests(pod).keys() <= {"cpu", "memory"}:
        return False
    others = together([each for each in allocated if each.uid != pod.uid])
    wanted = together([pod])
    if wanted == together([each for each in allocated if each.uid == pod.uid]):
        return False
    return all(
        others[name] + wanted[name] <= amount(name, allocatable[name])
        for name in wanted
        if name in allocatable
    )


def _is_deferred(pod: Object[Any]) -> bool:
    return any(
        each["type"] == PENDING and each.get("reason") == "Deferred"
        for each in (pod.tree.get("status") or {}).get("conditions") or ()
    )


def objects_outlast_their_mounts(after: str, driver: str) -> Invariant:
    """A volume that is mounted for a pod when it has ended is unmounted before the pod's object goes.

    Of pods that were to go before, and not by force: what has no node or has ended, the API server deletes at once. A
    mount that is under way, or whose answer was lost, is not waited for, upstream neither: `PodHasMountedVolumes` of
    pkg/kubelet/volumemanager/cache counts what is mounted for certain.
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
            phase = (pod.tree.get("status") or {}).get("phase")
            if uid not in known and is_to_go(pod) and phase in ENDED:
                known[uid] = pod.key, _mounted(disk.published, uid) & _known_mounts(run, pod)
        return None

    return Invariant(
        "an object outlasts the mounts of its pod", check, (after,), looks_at=stored_pods
    )


def _known_mounts(run: Run, pod: Object[Any]) -> set[str]:
    """Return the volumes of which the kubelet of a pod knows that they are mounted for it."""
    host = run.cluster.machines.get(pod.tree["spec"].get("nodeName", ""))
    process = None if host is None else host.process
    volumes = None if process is None else process.shared.volumes
    return set() if volumes is None else volumes.state.known_mounts(pod.uid)


def _mounted(published: Mapping[str, Any], uid: str) -> set[str]:
    """Return the volumes that are mounted for a pod."""
    return {
        volume for volume, places in published.items() if any(uid in target for _, target in places)
    }


def what_runs_has_its_volumes(driver: str, *nodes: str) -> Invariant:
    """A container runs only while all volumes of its pod are published, on nodes whose claims are all this driver's.

    Upstream: WaitForAttachAndMount comes before the containers, and a volume is unmounted once none can run any more
    (pkg/kubelet/volumemanager/populator, ShouldPodContainersBeTerminating).
    """

    def check(run: Run) -> str | None:
        from controlplane.kubelet.pod.references import volumes_of

        disk, claims = run.cluster.csi_drivers[driver].driver, note(run, "claims of pods")
        for node in nodes:
            host = run.cluster.machines[node]
            if disk is None or host.process is None:
                continue
            targets: list[str] | None = None
            for uid, sandbox in host.sandboxes.items():
                worker = host.process.workers.get(uid)
                if worker is None or not sandbox.running():
                    continue
                if uid not in claims:
                    volumes = volumes_of(worker.pod)
                    claims[uid] = sum("persistentVolumeClaim" in each for each in volumes)
                wanted = claims[uid]
                if not wanted:
                    continue
                if targets is None:
                    published = disk.published.values()
                    targets = [target for places in published for _, target in places]
                if sum(uid in target for target in targets) < wanted:
                    return f"{node}: {worker.pod.key} runs, and not all of its volumes are mounted"
        return None

    return Invariant("what runs has its volumes", check, (driver, *nodes))


def objects_outlast_their_workers(after: str, *nodes: str) -> Invariant:
    """The object of a pod that is to go stays until its worker has finished, unless it was deleted by force.

    Of pods whose deletion the same process saw begin. Upstream: canBeDeleted of
    pkg/kubelet/status/status_manager.go, PodIsFinished of pod_workers.go.
    """

    def check(run: Run) -> str | None:
        going = note(run, "pods on nodes that are to go")
        stored = {pod.uid for pod in run.objects(PODS)}
        for uid in [uid for uid in going if uid not in stored]:
            name, host, process = going.pop(uid)
            if uid in run.notes.get(FORCED, ()) or host.process is not process or process is None:
                continue
            worker = process.workers.get(uid)
            if worker is not None and not worker.finished:
                return f"{name} ({uid}) is gone, and its worker is {worker.phase}"
        for pod, host in _on(run, nodes):
            if is_to_go(pod) and pod.uid not in going:
                going[pod.uid] = (pod.key, host, host.process)
        return None

    return Invariant(
        "an object outlasts the worker of its pod", check, (after,), looks_at=stored_pods
    )


def statuses_are_sent(*nodes: str) -> Invariant:
    """A status that the kubelet counts as sent is the stored one, except where other clients write statuses.

    A status that is taken for sent and was not waits for the full pass of ten seconds, which is there to repair what
    others overwrote. Upstream: needsUpdate and apiStatusVersions of pkg/kubelet/status/status_manager.go.
    """

    def looks_at(run: Run) -> Any:
        found = []
        for node in nodes:
            process = run.cluster.machines[node].process
            unsent = () if process is None else process.shared.statuses.unsent()
            found.append((process, [(each.uid, each.version) for each in unsent]))
        return found

    def check(run: Run) -> str | None:
        last = note(run, "statuses to be sent")
        for node in nodes:
            process = run.cluster.machines[node].process
            before, uids = last.get(node, (None, ()))
            now = () if process is None else [e.uid for e in process.shared.statuses.unsent()]
            last[node] = process, now
            if process is None or process is not before or not run.world.alive(node):
                continue
            by_others = run.notes.get(ENDED_BY_OTHERS, ())
            stored = {pod.uid: pod for pod in run.objects(PODS) if pod.uid not in by_others}
            for uid in uids:
                if uid not in now and uid in stored and not _is_shown(process, stored[uid]):
                    return f"the status of {stored[uid].key} counts as sent, and was not"
        return None

    return Invariant("a status that counts as sent was sent", check, nodes, looks_at=looks_at)


def _is_shown(process: Process, pod: Object[Any]) -> bool:
    """Return whether the API server has what the kubelet says of a pod, but for an end that is not said yet."""
    from controlplane.kubelet.pod.status_manager import differs, merged

    known = process.shared.statuses.get(pod.uid)
    if known is None:
        return True
    shown = pod.tree.get("status") or {}
    return not all(differs(shown, merged(shown, known, held=held)) for held in (False, True))
