"""The kubelet's main loop: one task that takes what sources say, and what is left over, one after the other.

Points: `kubelet.sync-loop` (before each turn), `kubelet.allocation.add` (before a pod is admitted),
`kubelet.sync-loop.refused` (after one was refused under pressure), `kubelet.housekeeping`, `kubelet.resync` (the
next periodic sync of a pod that another client ended). When several channels have something, which one is taken is
a choice "select", as it is Go's. Upstream: syncLoopIteration and the handlers of pkg/kubelet/kubelet.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.log import DEBUG, INFO
from controlplane.api.pod_resources import CPU, MEMORY, pod_requests
from controlplane.client.loops.event_recorder import reference
from controlplane.kubelet.allocation.manager import (
    POD_RESIZED,
    POD_TERMINATED,
    POD_UPDATED,
    PODS_ADDED,
    PODS_REMOVED,
)
from controlplane.kubelet.eviction.manager import EVICTED
from controlplane.kubelet.loops.carrying_out import carry_out
from controlplane.kubelet.node import admission
from controlplane.kubelet.node.admission import WITH_STATUS
from controlplane.kubelet.node.metrics import ADMISSION_REJECTIONS, rejection
from controlplane.kubelet.pod.pod_config import ADD, RECONCILE, REMOVE
from controlplane.kubelet.pod.static_pods import is_mirror
from controlplane.kubelet.pod.status import TERMINAL
from controlplane.kubelet.pod.status_manager import differs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.kubelet.loops.pod_workers import PodWorkers
    from controlplane.kubelet.loops.resources import NodeResources
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod.pod_config import PodUpdate

HOUSEKEEPING_PERIOD_S = 2
REFUSAL_NS = 100_000_000
"""Duration of the rejection of a pod under pressure.

Until the node's next status the scheduler does not know of the pressure, and controllers make another pod at once: if
a
rejection took no time, there would be no next status.
"""
REJECTED_HAVE_NO_WORKER = "136508"
CONFIG, PLEG, PROBES, HOUSEKEEPING = "config", "pleg", "probes", "housekeeping"
"""The channels of the loop."""


class SyncLoop:
    """The handlers, and the task that calls them."""

    def __init__(self, shared: Shared, workers: PodWorkers, resources: NodeResources) -> None:
        self._shared = shared
        self._workers = workers
        self._resources = resources
        self._allocation = resources.allocation
        self._rejected: dict[str, None] = {}

    async def run(self, ctx: Context) -> None:
        """Turn for ever."""
        shared = self._shared
        while True:
            channels = self._with_news()
            if not channels:
                await shared.news.wait(idle=True, point="kubelet.sync-loop")
                continue
            at = ctx.choose("select", len(channels), "kubelet sync loop") if channels[1:] else 0
            channel = channels[at]
            if channel == CONFIG:
                update = shared.updates.popleft()
                if ctx.noting:
                    self._note(ctx, update.operation, update.source, update.pods)
                await self._take(ctx, update)
                # Only now, so that pods of the first list that were not reached yet do not count as gone.
                if update.source not in shared.ready:
                    shared.ready[update.source] = None
                    self._resources.source_ready()
            elif channel == PLEG:
                uid = shared.relisted.popleft()
                pod = shared.pods.get(uid)
                if ctx.noting and pod is not None:
                    self._note(ctx, PLEG.upper(), "", (pod,))
                self._sync_again(uid)
            elif channel == PROBES:
                uid = next(iter(shared.probed))
                del shared.probed[uid]
                self._sync_again(uid)
            else:
                shared.housekeeping_due = False
                await self._clean_up(ctx)
            await ctx.region("kubelet.sync-loop")

    def _note(self, ctx: Context, operation: str, source: str, pods: Sequence[Pod]) -> None:
        """Note what the loop takes up, pod by pod."""
        for pod in pods:
            data = {"operation": operation, **({"source": source} if source else {})}
            version = pod.metadata.resource_version
            rv = int(version) if version.isdecimal() else None
            ctx.note("kubelet.heard", obj=f"Pod/{pod.key}", uid=pod.uid, rv=rv, data=data)

    def _with_news(self) -> list[str]:
        """The channels that something can be taken from."""
        shared = self._shared
        filled = {
            CONFIG: bool(shared.updates),
            PLEG: bool(shared.relisted),
            PROBES: bool(shared.probed),
            HOUSEKEEPING: shared.housekeeping_due and shared.sources_ready(),
        }
        return [name for name, full in filled.items() if full]

    def _sync_again(self, uid: str) -> None:
        """Something about a pod's containers changed. Upstream: HandlePodSyncs."""
        pod = self._shared.pods.get(uid)
        if pod is not None:
            self._sync(pod)

    async def _take(self, ctx: Context, update: PodUpdate) -> None:
        if update.operation == ADD:
            await self._additions(ctx, update.pods)
        elif update.operation == REMOVE:
            await self._removals(ctx, update.pods)
        elif update.operation == RECONCILE:
            await self._reconciliations(ctx, update.pods)
        else:
            await self._updates(ctx, update.pods)

    def _sync(self, pod: Pod, *, create: bool = False) -> None:
        """Notify a pod's worker, with the pod's allocation of this moment.

        Fix gate 136508 (open upstream). A pod that was rejected has no worker; an update that the API server
        made before it knew of the rejection gave it one, which terminated it, and while it did, the pod
        counted. The proposal tells no worker of such a pod until its object has failed.
        """
        if pod.uid in self._rejected and pod.status.phase not in TERMINAL:
            if self._shared.fixes.fixed(REJECTED_HAVE_NO_WORKER):
                return
        mirror = self._shared.pods.mirror(pod)
        self._workers.update(self._allocation.allocated_pod(pod), mirror, create=create)

    def _mirror_changed(self, mirror: Pod) -> None:
        """A mirror came, changed or went: the worker of the static pod behind it sees it with its next sync."""
        shared = self._shared
        static = shared.pods.named(mirror.key)
        if static is None:
            shared.tidy_up()
        else:
            self._workers.update(self._allocation.allocated_pod(static), mirror)

    # ------------------------------------------------------------------ pods that come

    async def _additions(self, ctx: Context, pods: Sequence[Pod]) -> None:
        """Admit pods by their age; the order of those of one second is not defined."""
        shared, resources = self._shared, self._resources
        waiting: list[str] = []
        for pod in _by_age(ctx, pods):
            shared.pods.put(pod)
            if is_mirror(pod):
                self._mirror_changed(pod)
                if shared.statuses.renew(shared.pods.translated(pod.uid)):
                    shared.status_changed()
                continue
            known = self._workers.get(pod.uid)
            asked_to_end = known is not None and known.terminating
            if not asked_to_end and pod.status.phase not in TERMINAL:
                await ctx.region("kubelet.allocation.add")
                async with resources.mutex:
                    decided = await carry_out(
                        ctx, shared.host, self._allocation.add_pod(pod), resources
                    )
                resources.reassign()
                if not decided.admitted:
                    self._reject(ctx, pod, decided.reason, decided.message)
                    if decided.reason == EVICTED:
                        await ctx.sleep(REFUSAL_NS, point="kubelet.sync-loop.refused")
                    continue
                if self._allocation.differs(pod):
                    waiting.append(pod.uid)
            ctx.log("kubelet.admitted", level=DEBUG, obj=f"Pod/{pod.key}", uid=pod.uid)
            self._sync(pod, create=True)
        for pod in pods:
            self._allocation.conditions.load(pod.uid, pod.status.conditions)
        if waiting:
            async with resources.mutex:
                for uid in waiting:
                    self._allocation.push(uid)
                await resources.retry(ctx, PODS_ADDED)

    def _reject(self, ctx: Context, pod: Pod, reason: str, message: str) -> None:
        """A pod that this node cannot run fails for good."""
        shared = self._shared
        told = {"reason": reason, "message": message}
        ctx.log("kubelet.rejected", level=INFO, obj=f"Pod/{pod.key}", uid=pod.uid, data=told)
        self._resources.metrics.add(ADMISSION_REJECTIONS, reason=rejection(reason))
        shared.event(reference(pod), "Warning", reason, message)
        self._rejected[pod.uid] = None
        rejected = admission.rejection_status(pod, reason, message)
        if shared.statuses.set(pod, {**(pod.tree.get("status") or {}), **rejected}):
            shared.status_changed()

    # ------------------------------------------------------------------ pods that change or go

    async def _updates(self, ctx: Context, pods: Sequence[Pod]) -> None:
        shared, resources = self._shared, self._resources
        for pod in pods:
            before = shared.pods.get(pod.uid)
            shared.pods.put(pod)
            if is_mirror(pod):
                self._mirror_changed(pod)
                continue
            if before is not None and _asks_for(before) != _asks_for(pod):
                await ctx.region("kubelet.allocation.update")
                async with resources.mutex:
                    if await carry_out(ctx, shared.host, self._allocation.update(pod)):
                        await resources.retry(ctx, POD_UPDATED)
            self._sync(pod)
            shared.repair_statuses()

    async def _removals(self, ctx: Context, pods: Sequence[Pod]) -> None:
        shared, resources = self._shared, self._resources
        for pod in pods:
            shared.pods.remove(pod)
            if is_mirror(pod):
                self._mirror_changed(pod)
                continue
            self._rejected.pop(pod.uid, None)
            self._allocation.remove_pod(pod.uid)
            resources.resizing.forget(pod.uid)
            if shared.sources_ready():
                self._workers.remove(pod.uid)
        async with resources.mutex:
            await resources.retry(ctx, PODS_REMOVED)
        resources.reassign()
        shared.tidy_up()

    async def _reconciliations(self, ctx: Context, pods: Sequence[Pod]) -> None:
        """Only statuses changed: others wrote them, or our own come back."""
        shared, resources = self._shared, self._resources
        trigger = ""
        ended: list[Pod] = []
        for pod in pods:
            before = shared.pods.get(pod.uid)
            shared.pods.put(pod)
            known = shared.statuses.get(shared.pods.translated(pod.uid))
            if known is not None and differs(pod.tree.get("status") or {}, known):
                shared.repair_statuses()
            if is_mirror(pod):
                continue
            worker = self._workers.get(pod.uid)
            over = pod.status.phase in TERMINAL and worker is not None and worker.active
            by_others = over and (known or {}).get("phase") not in TERMINAL
            leaves = pod.uid in self._rejected and pod.metadata.deletion_timestamp is not None
            if by_others:
                ended.append(pod)
            elif over or leaves or pod.spec.readiness_gates:
                self._sync(pod)
            if self._allocation.pending and before is not None and not trigger:
                trigger = self._room_made(before, pod)
        if trigger:
            async with resources.mutex:
                await resources.retry(ctx, trigger)
        for pod in ended:
            wait = self._workers.until_next_sync()
            if wait:
                ctx.spawn(self._sync_later, pod.uid, wait, name="resync")
            elif pod.uid in shared.pods:
                self._sync(pod)

    async def _sync_later(self, ctx: Context, uid: str, wait: int) -> None:
        """Sync a pod that another client ended at its next periodic sync.

        Only then does the worker learn of it: HandlePodReconcile tells workers of readiness alone. Until then the pod
        does not count as active (`PodWorkers._counts`), though its containers run: race here14.
        """
        await ctx.sleep_until(ctx.now + wait, point="kubelet.resync")
        pod = self._shared.pods.get(uid)
        if pod is not None:
            self._sync(pod)

    def _room_made(self, before: Pod, pod: Pod) -> str:
        """Return why pending resizes are worth another try: a pod ended, or needs less than before; "" if neither."""
        if pod.status.phase in TERMINAL and before.status.phase not in TERMINAL:
            return POD_TERMINATED
        was, now = (
            pod_requests(self._allocation.allocated_pod(each), WITH_STATUS)
            for each in (before, pod)
        )
        for name in (CPU, MEMORY):
            if name in was and (name not in now or now[name] < was[name]):
                return POD_RESIZED
        return ""

    # ------------------------------------------------------------------ housekeeping

    async def _clean_up(self, ctx: Context) -> None:
        """Stop or forget the pods that are wanted no more, and start those that are wanted anew.

        Upstream: HandlePodCleanups. Mirror pods without a static pod are deleted by name.
        """
        shared, workers = self._shared, self._workers
        again: list[str] = []
        for uid in workers.uids():
            found = workers.get(uid)
            wanted = uid in shared.pods
            if found is None or (wanted and not workers.to_be_restarted(uid)):
                continue
            if found.finished:
                workers.forget(uid)
                if wanted:
                    again.append(uid)
            elif not found.terminating and not wanted:
                workers.remove(uid)
        shared.statuses.keep_only(pod.uid for pod in shared.pods.all())
        for uid in list(shared.host.sandboxes):
            if uid not in shared.pods and workers.get(uid) is None:
                del shared.host.sandboxes[uid]
        if shared.volumes is not None:
            shared.volumes.look_again()
        for mirror in shared.pods.orphaned_mirrors():
            if not workers.static_pod_terminates(mirror.key):
                if not await workers.mirrors.delete(ctx, mirror):
                    shared.tidy_up()
        for uid in again:
            pod = shared.pods.get(uid)
            if pod is not None:
                self._sync(pod, create=True)


def _asks_for(pod: Pod) -> tuple[Any, ...]:
    """Return the requests of a pod's spec."""
    spec = pod.tree["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return spec.get("resources"), *(each.get("resources") for each in containers)


def _by_age(ctx: Context, pods: Sequence[Pod]) -> list[Pod]:
    """Pods by creation; of those that are equally old, which one is next is a choice "admission"."""
    left = sorted(pods, key=_created)
    found: list[Pod] = []
    while left:
        ties = sum(_created(pod) == _created(left[0]) for pod in left)
        at = ctx.choose("admission", ties, "pods of the same second") if ties > 1 else 0
        found.append(left.pop(at))
    return found


def _created(pod: Pod) -> int:
    return pod.metadata.creation_timestamp or 0


async def housekeeping(ctx: Context, shared: Shared) -> None:
    """Every two seconds, leaving out the passes that would find nothing."""
    while True:
        await shared.untidy.wait(idle=True, point="kubelet.housekeeping")
        await ctx.sleep_until(shared.next_tick(HOUSEKEEPING_PERIOD_S), point="kubelet.housekeeping")
        shared.housekeeping_due = True
        shared.news.notify_all()
