"""The kubelet's main loop: one task that takes what sources say, and what is left over, one after the other.

Points: `kubelet.sync-loop` (before each turn), `kubelet.allocation.add` (before a pod is admitted),
`kubelet.housekeeping`. When several channels have something, which one is taken is a choice "select",
as it is Go's. Upstream: syncLoopIteration and the handlers of pkg/kubelet/kubelet.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.log import DEBUG, INFO
from controlplane.client.loops.clientset import NODES, Client
from controlplane.client.loops.event_recorder import reference
from controlplane.client.loops.guarded import attempted
from controlplane.kubelet import admission, preemption
from controlplane.kubelet.pod_config import ADD, RECONCILE, REMOVE
from controlplane.kubelet.status import TERMINAL
from controlplane.kubelet.status import Condition as PodCondition
from controlplane.kubelet.status_manager import differs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.kubelet.loops.pod_workers import PodWorkers
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod_config import PodUpdate

HOUSEKEEPING_PERIOD_S = 2


class SyncLoop:
    """The handlers, and the task that calls them."""

    def __init__(self, shared: Shared, workers: PodWorkers) -> None:
        self._shared = shared
        self._workers = workers

    async def run(self, ctx: Context) -> None:
        """Turn for ever."""
        shared = self._shared
        client = Client(ctx, shared.server)
        while True:
            config = bool(shared.updates)
            housekeeping = shared.housekeeping_due and shared.config.seen_all_sources()
            if not config and not housekeeping:
                await shared.news.wait(idle=True, point="kubelet.sync-loop")
                continue
            if config and housekeeping:
                config = not ctx.choose("select", 2, "kubelet sync loop")
            if config:
                await self._take(ctx, client, shared.updates.popleft())
            else:
                shared.housekeeping_due = False
                self._clean_up()
            await ctx.region("kubelet.sync-loop")

    async def _take(self, ctx: Context, client: Client, update: PodUpdate) -> None:
        if update.operation == ADD:
            await self._additions(ctx, client, update.pods)
        elif update.operation == REMOVE:
            self._removals(update.pods)
        elif update.operation == RECONCILE:
            self._reconciliations(update.pods)
        else:
            for pod in update.pods:
                self._shared.pods.put(pod)
                self._workers.update(pod)
                self._shared.repair_statuses()

    # ------------------------------------------------------------------ pods that come

    async def _additions(self, ctx: Context, client: Client, pods: Sequence[Pod]) -> None:
        """Admit pods by their age; the order of those of one second is nobody's promise."""
        shared = self._shared
        for pod in _by_age(ctx, pods):
            shared.pods.put(pod)
            known = self._workers.get(pod.uid)
            asked_to_end = known is not None and known.terminating
            if not asked_to_end and pod.status.phase not in TERMINAL:
                await ctx.region("kubelet.allocation.add")
                decided = await self._decided(client, pod)
                if not decided.admitted:
                    self._reject(ctx, pod, decided)
                    continue
                for victim in decided.victims:
                    await self._evict(ctx, victim)
            ctx.log("kubelet.admitted", level=DEBUG, obj=f"Pod/{pod.key}", uid=pod.uid)
            self._workers.update(pod)

    async def _decided(self, client: Client, pod: Pod) -> admission.Admission:
        """What the handlers say; if only labels are wrong, the node is read afresh once."""
        shared = self._shared
        others = [
            each
            for each in shared.pods.all()
            if each.uid != pod.uid and self._workers.is_active(each)
        ]
        disk = shared.ctx.disk
        decided = admission.admit(pod, shared.node, others, disk=disk)
        if decided.admitted or decided.reason != admission.NODE_AFFINITY:
            return decided
        found = await attempted(client.get(NODES, "", shared.node.name))
        if found is None:
            return decided
        shared.node = found.view
        return admission.admit(pod, shared.node, others, disk=disk)

    def _reject(self, ctx: Context, pod: Pod, decided: admission.Admission) -> None:
        """A pod that this node cannot run fails for good."""
        shared = self._shared
        told = {"reason": decided.reason, "message": decided.message}
        ctx.log("kubelet.rejected", level=INFO, obj=f"Pod/{pod.key}", uid=pod.uid, data=told)
        shared.event(reference(pod), "Warning", decided.reason, decided.message)
        status = {**(pod.tree.get("status") or {}), **admission.rejection_status(pod, decided)}
        if shared.statuses.set(pod, status):
            shared.status_changed()

    async def _evict(self, ctx: Context, victim: Pod) -> None:
        """Kill a pod so that a more important one fits, and wait for it."""
        status = preemption.PREEMPTED_STATUS
        about = reference(victim)
        self._shared.event(about, "Warning", status["reason"], status["message"])
        condition = PodCondition(**preemption.PREEMPTED_CONDITION)
        await self._workers.kill(ctx, victim, status, condition)

    # ------------------------------------------------------------------ pods that change or go

    def _removals(self, pods: Sequence[Pod]) -> None:
        shared = self._shared
        for pod in pods:
            shared.pods.remove(pod)
            if shared.config.seen_all_sources():
                self._workers.remove(pod.uid)
        shared.tidy_up()

    def _reconciliations(self, pods: Sequence[Pod]) -> None:
        """Only statuses changed: others wrote them, or our own come back."""
        shared = self._shared
        for pod in pods:
            shared.pods.put(pod)
            known = shared.statuses.get(pod.uid)
            if known is not None and differs(pod.tree.get("status") or {}, known):
                shared.repair_statuses()
            worker = self._workers.get(pod.uid)
            ended = pod.status.phase in TERMINAL and worker is not None and worker.active
            if ended or pod.spec.readiness_gates:
                self._workers.update(pod)

    # ------------------------------------------------------------------ housekeeping

    def _clean_up(self) -> None:
        """What nobody wants any more is stopped, or forgotten. Upstream: HandlePodCleanups."""
        shared, workers = self._shared, self._workers
        for uid in workers.uids():
            found = workers.get(uid)
            if found is None or uid in shared.pods:
                continue
            if found.finished:
                workers.forget(uid)
            elif not found.terminating:
                workers.remove(uid)
        shared.statuses.keep_only(pod.uid for pod in shared.pods.all())
        for uid in list(shared.host.sandboxes):
            if uid not in shared.pods and workers.get(uid) is None:
                del shared.host.sandboxes[uid]


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
