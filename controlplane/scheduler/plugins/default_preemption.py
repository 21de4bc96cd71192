"""DefaultPreemption: make room for a pod by removing less important ones.

Upstream: `pkg/scheduler/framework/plugins/defaultpreemption`, `pkg/scheduler/framework/preemption`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.args import DefaultPreemptionArgs
from controlplane.scheduler.framework.deferred_resize import AWAIT_VICTIMS
from controlplane.scheduler.framework.fit_error import Diagnosis, fit_error_message
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    Code,
    EnqueueExtensions,
    Filters,
    NodeToStatus,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION, NominatingInfo
from controlplane.scheduler.framework.preemption_task import PreemptionTask
from controlplane.scheduler.plugins.preemption import (
    NO_VICTIMS,
    Candidate,
    DryRun,
    Known,
    LowestPriorities,
    SameStatuses,
    compile_budgets,
    dry_run,
    select_candidate,
)
from controlplane.scheduler.state.pod_groups import group_of
from controlplane.sharing.memory import IdentityCache

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.scheduling import PodGroup
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.plugins.group_preemption import Fits
    from controlplane.scheduler.state.node_info import NodeInfo

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
WAITING = "waiting for the preemption for this pod to be finished"
GROUP_WAITING = "waiting for the preemption for this pod group to be finished"
LIMITED = "not eligible due to placement-based pod group scheduling limitation"
BY_GROUP = "not eligible due to workload aware preemption enabled"
CLUSTER = "cluster"
"""The name of the place of victims of a group, where a node is named else."""
_PREFIX = "preemption: "
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"


class DefaultPreemption(PostFilterPlugin, PreEnqueuePlugin, EnqueueExtensions):
    """Finds the least harmful set of victims; evicting them is left to the caller."""

    name = names.DEFAULT_PREEMPTION
    reads: tuple[str, ...] = ("pod_disruption_budgets",)

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self.args = args
        self._handle = handle
        self._async = handle.feature("SchedulerAsyncPreemption")
        self._for_groups = handle.feature("WorkloadAwarePreemption")
        self._by_placement = handle.feature("TopologyAwareWorkloadScheduling")
        if self._for_groups or self._by_placement:
            self.reads = (*self.reads, "pod_groups")
        self._watches_last = handle.fixes.fixed("134730")
        self._clears = handle.fixes.fixed("106816")
        self._cancels_always = handle.fixes.fixed("111773")
        self._refuses_stand_in = handle.fixes.variant("138324") == "no-stand-in"
        self._lowest = LowestPriorities()
        self._known: IdentityCache[Known] = IdentityCache("preemption by spec")
        self.attempts = 0
        """preemption_attempts_total."""
        self.preempting: dict[str, None] = {}
        """UIDs of pods whose victims are being evicted."""
        self.last_victims: dict[str, tuple[str, str]] = {}
        """Preemptor UID -> (namespace, name) of the victim whose eviction comes last."""

    # -- queue ---------------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod while its victims are being evicted."""
        if not self._async:
            return None
        key = group_of(pod)
        if key is not None and self._for_groups:
            group = self._handle.listers.pod_groups.get(*key)
            if group is None or not self.is_running(group.metadata.uid):
                return None
            return unresolvable(GROUP_WAITING).by(self.name)
        return unresolvable(WAITING).by(self.name) if self.is_running(pod.uid) else None

    def is_running(self, uid: str) -> bool:
        """Return whether evictions for the pod, or the group, are under way.

        Gate 134730 (issue 134249). The delete event of the last victim must not be missed. Unfixed,
        the preemptor counts as done before that victim's deletion is asked for; an attempt in
        between finds it alive and starts a second preemption. Fixed, the evictions are under way
        until the last victim is gone or terminating.
        """
        if uid not in self.preempting:
            return False
        last = self.last_victims.get(uid)
        if last is None:
            return True
        victim = self._handle.listers.pods.get(*last)
        return victim is not None and victim.metadata.deletion_timestamp is None

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """Only so that a gated preemptor is looked at when a pod goes."""
        event = ev.event_of(ev.POD, ev.DELETE)
        return [ev.ClusterEventWithHint(event, lambda _pod, _old, _new: ev.Hint.SKIP)]

    # -- post filter ---------------------------------------------------------------------------

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Choose victims on one node; on success the pod is nominated to it.

        Gate 106816 (issue 85677). Unfixed, a pod for which no victims are found keeps the nomination
        that it has, perhaps to a node that is full or gone, and with it the room there. Fixed, the
        nomination is taken back.
        """
        self.attempts += 1
        refused = self._left_to_group(pod)
        if refused is not None:
            return None, refused
        result, status = self._preempt(state, pod, statuses, filters)
        if status is not None and status.message:
            status = Status(status.code, (_PREFIX + status.message,), status.plugin)
        return result, status

    def _left_to_group(self, pod: Pod) -> Status | None:
        """Return why room for a pod of a group is not made pod by pod; None: it is."""
        key = group_of(pod)
        if key is None:
            return None
        if self._by_placement:
            group = self._handle.listers.pod_groups.get(*key)
            if group is None:
                return unschedulable(_PREFIX + "pod group for pod not found")
            if group.spec.scheduling_constraints is not None:
                return unschedulable(_PREFIX + LIMITED)
        return unschedulable(_PREFIX + BY_GROUP) if self._for_groups else None

    def pod_group_post_filter(
        self, group: PodGroup, pods: Sequence[Pod], fits: Fits, now: int
    ) -> Effects[Status | None]:
        """Choose victims anywhere so that the whole group fits; None: they are about to be evicted.

        Nodes of the snapshot are changed on the way: the caller restores them.
        """
        from controlplane.scheduler.plugins.group_preemption import (
            GroupPreemptor,
            select_victims,
            units,
        )

        snapshot, listers = self._handle.snapshot, self._handle.listers
        preemptor = GroupPreemptor(group, tuple(pods))
        victims, status = yield from select_victims(
            preemptor,
            snapshot.node_info_map,
            units(snapshot.node_info_list, listers.pod_groups, now),
            compile_budgets(list(listers.pod_disruption_budgets.list())),
            fits,
            snapshot.note_trial,
            self._handle.choose_order,
        )
        if status is None:
            task = PreemptionTask(pods[0], CLUSTER, tuple(victims), (), group, tuple(pods))
            self._start(task, preemptor.priority)
        return status

    def _preempt(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> tuple[PostFilterResult | None, Status | None]:
        # By name: upstream a recreated pod stands in for the one that failed (D2), and may preempt
        # once more in its own cycle, before it is held back.
        preemptor: Pod | None = self._handle.listers.pods.get(pod.namespace, pod.name)
        if preemptor is None or (self._refuses_stand_in and preemptor.uid != pod.uid):
            return None, error(f'pod "{pod.name}" not found')
        eligible, why = self.may_preempt(state, preemptor, statuses)
        if not eligible:
            return None, unschedulable(why)
        snapshot = self._handle.snapshot
        if not len(snapshot):
            return None, error("no nodes available")
        found = self.find_candidates(state, preemptor, statuses, filters)
        if not found.candidates:
            if found.errors:
                return None, error(found.errors[0])
            found.statuses.absent = unresolvable(NOT_HELPFUL)
            message = fit_error_message(len(snapshot), Diagnosis(found.statuses))
            cleared = PostFilterResult(CLEAR_NOMINATION) if self._clears else None
            return cleared, unschedulable(message)
        best = select_candidate(found.candidates, state.now, self._handle.choose_order)
        self._prepare(best, preemptor)
        nominating = NominatingInfo(override=True, nominated_node_name=best.node_name)
        return PostFilterResult(nominating), None

    def may_preempt(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> tuple[bool, str]:
        """Return whether the pod may preempt now, and the reason if not; plugins built on this one ask the cycle."""
        return self.is_eligible(pod, statuses)

    def is_eligible(self, pod: Pod, statuses: NodeToStatus) -> tuple[bool, str]:
        """Return whether the pod may preempt now, and the reason if not."""
        if pod.spec.preemption_policy == "Never":
            return False, NEVER
        nominated = pod.status.nominated_node_name
        if self._handle.deferred.repeats == AWAIT_VICTIMS and self._handle.preempts_for_resizes:
            nominated = nominated or pod.spec.node_name
        if not nominated:
            return True, ""
        if statuses.get(nominated).code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return True, ""
        node = self._handle.snapshot.get(nominated)
        priority = pod.spec.priority or 0
        for info in () if node is None else node.pods:
            if (info.pod.spec.priority or 0) < priority and _terminates_by_preemption(info.pod):
                return False, TERMINATING
        return True, ""

    def potential_nodes(self, statuses: NodeToStatus) -> list[NodeInfo]:
        """Nodes where removing pods may help, in the order of the snapshot."""
        codes = dict.fromkeys(statuses.with_code(Code.UNSCHEDULABLE))
        every_other = statuses.absent.code == Code.UNSCHEDULABLE
        nodes = [
            info
            for info in self._handle.snapshot.node_info_list
            if info.name in codes or (every_other and info.name not in statuses.statuses)
        ]
        if len(nodes) > 1:
            nodes = self._handle.choose_order("scheduler.preemption.nodes", nodes)
        return nodes

    def find_candidates(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> DryRun:
        """Try preemption on potential nodes, from an offset that upstream draws at random.

        Gate 111773. The workers have a context, derived from the scheduler's. Unfixed, it is
        cancelled only when enough candidates end the search early, and else stays with its parent
        for ever. Fixed, it ends with the search.
        """
        lowest = self._lowest.anywhere(self._handle.snapshot)
        if lowest >= (pod.spec.priority or 0) and statuses.absent.code != Code.UNSCHEDULABLE:
            # No pod to preempt anywhere: every potential node would give the same status.
            count = statuses.count_code(Code.UNSCHEDULABLE)
            if count and not self._cancels_always:
                self._handle.context.with_cancel()
            return DryRun(statuses=SameStatuses(NO_VICTIMS, count))
        nodes = self.potential_nodes(statuses)
        if not nodes:
            return DryRun()
        offset = 0
        if len(nodes) > 1:
            offset = self._handle.choose_offset("scheduler.preemption.offset", len(nodes))
        context = self._handle.context.with_cancel()
        found = self.dry_run(state, pod, nodes, offset, self.candidates_wanted(len(nodes)), filters)
        if found.enough or self._cancels_always:
            context.cancel()
        return found

    def dry_run(
        self,
        state: CycleState,
        pod: Pod,
        nodes: Sequence[NodeInfo],
        offset: int,
        wanted: int,
        filters: Filters,
    ) -> DryRun:
        """Victims per node, from `offset` on, until enough candidates are found."""
        budgets = list(self._handle.listers.pod_disruption_budgets.list())
        known = None if budgets else self._known_of(state, pod, filters)
        return dry_run(filters, state, pod, nodes, budgets, offset, wanted, known)

    def _known_of(self, state: CycleState, pod: Pod, filters: Filters) -> Known | None:
        """Return the results of earlier preemptors with this spec; None where they depend on more."""
        if pod.spec.node_name or filters.keeps_track(state) or not filters.follow_spec(state):
            return None
        found = self._known.get(pod.spec)
        return self._known.put(pod.spec, {}) if found is None else found

    def candidates_wanted(self, nodes: int) -> int:
        """Return the number of candidates that ends the search."""
        wanted = nodes * self.args.min_candidate_nodes_percentage // 100
        return min(max(wanted, self.args.min_candidate_nodes_absolute), nodes)

    # -- eviction ------------------------------------------------------------------------------

    def _prepare(self, best: Candidate, preemptor: Pod) -> None:
        task = PreemptionTask(preemptor, best.node_name, tuple(best.victims), ())
        self._start(task, preemptor.spec.priority or 0)

    def _start(self, task: PreemptionTask, priority: int) -> None:
        """Hand over what is to be evicted: victims that terminate already are left alone."""
        victims = tuple(pod for pod in task.victims if pod.metadata.deletion_timestamp is None)
        if self._async:
            if not victims:
                return
            self.preempting[task.uid] = None
        nominated = tuple(
            info.pod
            for info in self._handle.nominated_pods(task.node_name)
            if (info.pod.spec.priority or 0) < priority
        )
        self._handle.preemptions.append(
            attrs.evolve(
                task,
                victims=victims,
                nominated=nominated,
                plugin=self.name,
                inline=not self._async,
            )
        )

    def evict_last(self, task: PreemptionTask) -> None:
        """The eviction of the task's last victim begins."""
        if not self._watches_last:
            self.preempting.pop(task.uid, None)
            return
        last = task.victims[-1]
        self.last_victims[task.uid] = (last.namespace, last.name)

    def finish(self, task: PreemptionTask) -> None:
        """All evictions were requested, or one failed (then activate the preemptor)."""
        self.preempting.pop(task.uid, None)
        self.last_victims.pop(task.uid, None)


def _terminates_by_preemption(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    return any(
        condition.type == "DisruptionTarget"
        and condition.status == "True"
        and condition.reason == PREEMPTION_BY_SCHEDULER
        for condition in pod.status.conditions
    )


def preemption_plugin(plugins: Sequence[Plugin]) -> DefaultPreemption | None:
    """The DefaultPreemption among some plugins."""
    return next((p for p in plugins if isinstance(p, DefaultPreemption)), None)
