"""The eviction manager: a pass each ten seconds that would find something, and at most one pod that goes by it.

Points: `kubelet.eviction-manager` (before a pass, and before the next look at a pod that goes),
`kubelet.eviction-manager.stats` (the active pods are known, what they use is not yet read),
`kubelet.eviction-manager.evict` (it is decided that a pod goes). Of pods that rank alike, and of thresholds
that are met, which one comes first is a choice "eviction". The task is started when there first is
something to find. Upstream: pkg/kubelet/eviction/eviction_manager.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.log import INFO
from controlplane.api.times import SECOND
from controlplane.client.loops.event_recorder import reference
from controlplane.kubelet.eviction import ranking
from controlplane.kubelet.eviction.manager import EVICTED, PERIOD_S
from controlplane.kubelet.eviction.stats import PodStats, observe, stats_of, uses_anything
from controlplane.kubelet.node import node_status
from controlplane.kubelet.node.metrics import EVICTIONS
from controlplane.kubelet.pod.preemption import is_critical

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.kubelet.eviction.ranking import Eviction
    from controlplane.kubelet.eviction.stats import Observations
    from controlplane.kubelet.loops.pod_workers import PodWorkers
    from controlplane.kubelet.loops.resources import NodeResources
    from controlplane.kubelet.loops.shared import Shared

CLEAN_UP_S = 30
"""The longest wait of the next pass for a pod that terminates; it looks each second."""
POINT = "kubelet.eviction-manager"


class Evictions:
    """The eviction manager's task, and what wakes it."""

    def __init__(
        self,
        shared: Shared,
        workers: PodWorkers,
        resources: NodeResources,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the node comes under pressure, or is no longer."""
        self._shared = shared
        self._workers = workers
        self._settings = resources.settings.eviction
        self._manager = resources.eviction
        self._metrics = resources.metrics
        self._changed = changed
        self._woken = shared.ctx.condition()
        self._asked = False
        self._runs = False
        self._using: dict[str, None] = {}
        """Pods, by uid, that may use something."""
        self._short = self._manager.finds_other(self._observe({}))
        """The node lacks a resource even if no pod uses any of it."""
        self._last = shared.started
        """The time of the last pass."""

    # ------------------------------------------------------------------ what wakes it

    def look_at(self, pod: Pod) -> None:
        """A pod is wanted so: what it uses may have changed."""
        if uses_anything(pod):
            self._using[pod.uid] = None
        self.look_again()

    def look_again(self) -> None:
        """A container may have been started, or have stopped: is the next pass worth it?"""
        if self._asked or not (self._using or self._short or self._manager.must_reclaim):
            return
        stats = self._stats()
        if not self._worth_it(stats):
            return
        self._asked = True
        if self._runs:
            self._woken.notify_all()
        else:
            self._runs = True
            self._shared.ctx.spawn(self.run, name="eviction-manager")

    def _worth_it(self, stats: dict[str, PodStats]) -> bool:
        """Return whether a pass would see other thresholds met, or find a pod that goes."""
        if self._manager.finds_other(self._observe(stats)):
            return True
        active = self._active()
        if self._manager.must_reclaim and not all(is_critical(pod) for pod in active):
            return True
        return bool(ranking.over_limit(active, lambda pod: stats.get(pod.uid)))

    # ------------------------------------------------------------------ the task

    async def run(self, ctx: Context) -> None:
        """Pass for ever, leaving out what would find nothing."""
        while True:
            at = self._next_pass(ctx.now)
            if at is None:
                await self._woken.wait(idle=True, point=POINT)
                continue
            if at > ctx.now:
                await self._woken.wait(at - ctx.now, point=POINT)
                if ctx.now < at:
                    continue
            else:
                await ctx.point(POINT)
            while await self._pass(ctx):
                await ctx.region(POINT)

    def _next_pass(self, now: int) -> int | None:
        """Return the time of the next pass that finds something: ten seconds, or several times that, after the last."""
        due = self._manager.due(self._shared.epoch + now)
        at = now if self._asked else None if due is None else max(now, due - self._shared.epoch)
        if at is None:
            return None
        period = PERIOD_S * SECOND
        return self._last + max(1, -(-(at - self._last) // period)) * period

    async def _pass(self, ctx: Context) -> bool:
        """One pass; whether a pod went, and is cleaned up or late: then the next one comes at once."""
        shared, manager = self._shared, self._manager
        active = self._active()
        await ctx.region(f"{POINT}.stats")
        self._asked = False
        self._last = ctx.now
        stats = self._stats()
        observed = self._observe(stats)
        before = manager.conditions
        met = manager.synchronize(observed, shared.now())
        shared.under_pressure = manager.conditions
        if set(before) != set(manager.conditions):
            ctx.log("kubelet.pressure", level=INFO, data={"conditions": list(manager.conditions)})
            self._changed()
        going = ranking.over_limit(active, lambda pod: stats.get(pod.uid))
        if not going and met:
            at = ctx.choose("eviction", len(met), "thresholds that are met") if met[1:] else 0
            reason = met[at]
            told = f"Attempting to reclaim {reason.resource}"
            about = node_status.reference(shared.node.name)
            shared.event(about, "Warning", "EvictionThresholdMet", told)
            ties = ranking.candidates(active, reason.resource, lambda pod: stats.get(pod.uid))
            if ties:
                at = ctx.choose("eviction", len(ties), "pods of one rank") if ties[1:] else 0
                going = [
                    ranking.eviction(
                        ties[at],
                        reason,
                        (reason, *met),
                        observed,
                        stats.get(ties[at].uid),
                        self._settings.max_grace_s,
                    )
                ]
        for each in going:
            await self._evict(ctx, each)
        if going:
            await self._wait_for(ctx, [each.pod for each in going])
        self._last = ctx.now
        return bool(going)

    async def _evict(self, ctx: Context, going: Eviction) -> None:
        """End a pod, and wait until its containers are gone or it takes too long."""
        pod = going.pod
        await ctx.region(f"{POINT}.evict")
        told = {"signal": going.signal, "message": going.message}
        ctx.log("kubelet.evicted", level=INFO, obj=f"Pod/{pod.key}", uid=pod.uid, data=told)
        self._shared.event(reference(pod), "Warning", EVICTED, going.message)
        self._metrics.add(EVICTIONS, eviction_signal=going.signal)
        await self._workers.kill(ctx, pod, going.status, going.condition, going.grace_s)

    async def _wait_for(self, ctx: Context, pods: list[Pod]) -> None:
        """Until nothing is left of these pods, for half a minute at most."""
        for _ in range(CLEAN_UP_S):
            await ctx.sleep(SECOND, point=POINT)
            if all(self._gone(pod) for pod in pods):
                return

    def _gone(self, pod: Pod) -> bool:
        worker = self._workers.get(pod.uid)
        return worker is None or worker.finished

    # ------------------------------------------------------------------ what it sees

    def _active(self) -> list[Pod]:
        """The pods that could go: those that count, and that the kubelet has begun to run."""
        return [
            pod for pod in self._workers.active_pods() if self._workers.get(pod.uid) is not None
        ]

    def _stats(self) -> dict[str, PodStats]:
        """Return the usage of each running pod, by uid; of a pod whose object is gone the last one."""
        found = {}
        for uid, sandbox in self._shared.host.sandboxes.items():
            worker = self._workers.get(uid)
            pod = self._shared.pods.get(uid) or (None if worker is None else worker.pod)
            seen = None if pod is None else stats_of(pod, sandbox)
            if seen is not None:
                found[uid] = seen
        return found

    def _observe(self, stats: dict[str, PodStats]) -> Observations:
        capacity = self._shared.node.status.capacity
        return observe(capacity, self._settings.kept_back, stats.values())
