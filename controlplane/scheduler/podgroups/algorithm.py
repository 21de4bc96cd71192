"""Trying a pod group as a whole: member by member on one snapshot, in each placement, and once victims are gone.

Upstream: `podGroupCycle` and what it calls, of `pkg/scheduler/schedule_one_podgroup.go`.

Nothing is assumed in the cache here: members are counted in the snapshot until all have been tried. But plugins
reserve, nominations go and come back, Permit makes siblings ready, and preemptions begin: others see these.

Points, besides those of a pod's own cycle: `scheduler.group.try` before each member, `scheduler.group.reserve`
before Reserve, `scheduler.group.revert` before each member is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from controlplane.decisions import Point
from controlplane.scheduler.cycle import binding
from controlplane.scheduler.cycle.attempt import Attempt, ScheduleResult
from controlplane.scheduler.cycle.scheduling import (
    Search,
    eviction_failed,
    schedule,
    single_node_failure,
)
from controlplane.scheduler.framework.effects import Evictions
from controlplane.scheduler.framework.interface import Code, Status, StatusError
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.framework.placements import (
    Assignments,
    Placement,
    generate,
    total_scores,
)
from controlplane.scheduler.plugins.default_preemption import preemption_plugin
from controlplane.scheduler.podgroups.model import (
    AWAITS_PREEMPTION,
    REJECTED,
    Group,
    GroupResult,
    GroupStatus,
    Member,
    failed,
)

if TYPE_CHECKING:
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.queue.scheduling_queue import PriorityQueue

_TRY: Final = Point("scheduler.group.try")
_UNNOMINATE: Final = Point("scheduler.cycle.unnominate")
_RESERVE: Final = Point("scheduler.group.reserve")
_PERMIT: Final = Point("scheduler.cycle.permit")
_REVERT: Final = Point("scheduler.group.revert")

NO_PLUGIN = "default preemption plugin is not registered, workload aware preemption is disabled"
CONSTRAINED = (
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)


@attrs.frozen
class Trial:
    """The search and the queue that a group is tried with."""

    search: Search
    queue: PriorityQueue
    group: Group

    # -- the cycle -----------------------------------------------------------------------------

    def run(self) -> Effects[GroupResult]:
        """Try the group; where it does not fit, perhaps make room for it. The snapshot is up to date."""
        snapshot = self.search.snapshot
        result = yield from self.algorithm()
        snapshot.end_trials()
        handle = self.group.framework.handle
        if not handle.feature("WorkloadAwarePreemption"):
            return result
        if result.status is None or result.status.code != Code.UNSCHEDULABLE:
            return result
        status = yield from self._preempt()
        if status is None:
            result.awaits_preemption = True
        elif status.code == Code.ERROR:
            result.status = status
        else:
            reasons = (*result.status.reasons, status.message)
            result.status = attrs.evolve(result.status, reasons=reasons)
        return result

    def algorithm(self, *, post_filters: bool = True) -> Effects[GroupResult]:
        """Try the group once, in every placement where there may be several."""
        if self.group.framework.handle.feature("TopologyAwareWorkloadScheduling"):
            return (yield from self._in_placements(post_filters=post_filters))
        return (yield from self._member_by_member(post_filters=post_filters))

    def _preempt(self) -> Effects[GroupStatus | None]:
        """Make room for the group anywhere in the cluster; None: victims are being evicted."""
        group, framework = self.group, self.group.framework
        handle = framework.handle
        plugin = preemption_plugin(framework.all_plugins)
        if plugin is None:
            return GroupStatus(Code.UNSCHEDULABLE, "", (NO_PLUGIN,))
        found = handle.listers.pod_groups.get(*group.key)
        if found is None:
            missing = f'podgroup.scheduling.k8s.io "{group.key[1]}" not found'
            return failed(f"failed to get pod group object: {missing}")
        constraints = found.spec.scheduling_constraints
        if constraints is not None and constraints.topology:
            return GroupStatus(Code.UNSCHEDULABLE, "", (CONSTRAINED,))
        restore = handle.snapshot.back_up()
        last: list[GroupStatus] = []

        def fits() -> Effects[Status | None]:
            result = yield from self.algorithm(post_filters=False)
            if result.status is None:
                return None
            last[:] = [result.status]
            return Status(result.status.code, (result.status.message,))

        try:
            pods = [info.pod for info in group.infos]
            status = yield from plugin.pod_group_post_filter(found, pods, fits, group.started)
        finally:
            restore()
        if status is not None:
            return last[0] if status.code == Code.ERROR and last else GroupStatus.of(status)
        problem = yield Evictions()
        return failed(problem) if problem else None

    # -- one trial -----------------------------------------------------------------------------

    def _member_by_member(self, *, post_filters: bool) -> Effects[GroupResult]:
        """Try every member where the others would be. Permit says whether enough of them have a node."""
        result = GroupResult(status=REJECTED)
        preempting = False
        for info in self.group.infos:
            yield _TRY
            member = yield from self._try(info, post_filters=post_filters)
            result.members.append(member)
            failure = member.attempt.failure
            if not member.placed:
                assert failure is not None
                if failure.is_rejected:
                    continue
                text = f"failed to schedule other pod from a pod group: {failure.message}"
                result.status, result.awaits_preemption = failed(text), False
                break
            preempting = preempting or member.needs_preemption
            if member.permit is None:
                result.status = AWAITS_PREEMPTION if preempting else None
                result.awaits_preemption = preempting
        for member in reversed(result.members):
            if member.placed:
                yield _REVERT
                yield from self._revert(member.attempt)
        return result

    def _try(self, info: QueuedPodInfo, *, post_filters: bool) -> Effects[Member]:
        """Find a node for a member and count it there, as its siblings are to see it."""
        attempt = self.group.attempt(info, self.queue.scheduling_cycle, post_filters=post_filters)
        member = Member(attempt)
        yield from schedule(self.search, attempt)
        if attempt.framework.handle.preemptions:
            problem = yield Evictions()
            if problem:
                attempt.failure = eviction_failed(attempt.failure, problem)
        failure = attempt.failure
        if failure is not None:
            nominating = failure.nominating
            if nominating is None or not nominating.nominated_node_name:
                return member
            # Siblings have to see it where it will be once its victims are gone.
            attempt.result = ScheduleResult(nominating.nominated_node_name, 0, 0)
            member.needs_preemption = True
        status = yield from self._place(attempt)
        if status is not None and status.code != Code.WAIT:
            attempt.info = info
            attempt.failure = single_node_failure(attempt, status)
            member.needs_preemption = False
            return member
        member.permit = status
        member.placed = True
        return member

    def _place(self, attempt: Attempt) -> Effects[Status | None]:
        """Assume, Reserve and Permit, in the snapshot. What refuses undoes it; `attempt.info` has the node."""
        framework, state = attempt.framework, attempt.state
        pod = binding.with_node_name(attempt.pod, attempt.node_name)
        attempt.info = attempt.info.for_assume(pod)
        self.search.snapshot.assume_pod(attempt.info.pod_info)
        yield _UNNOMINATE
        self.queue.delete_nominated_pod_if_exists(pod)
        yield _RESERVE
        status = framework.run_reserve(state, pod, attempt.node_name)
        if status is not None:
            yield from self._revert(attempt)
            return status
        if framework.plugins.permit:
            yield _PERMIT
        status, _ = framework.run_permit(state, pod, attempt.node_name)
        yield from binding.activated(self.queue, attempt)
        if status is not None and status.code != Code.WAIT:
            yield from self._revert(attempt)
        return status

    def _revert(self, attempt: Attempt) -> Effects[None]:
        """Give back what a member was given, its nomination included."""
        pod = attempt.pod
        yield from attempt.framework.run_unreserve(attempt.state, pod, attempt.node_name)
        self.search.snapshot.forget_pod(pod)
        nominated = pod.status.nominated_node_name
        if nominated:
            yield _UNNOMINATE
            override = NominatingInfo(override=True, nominated_node_name=nominated)
            self.queue.add_nominated_pod(pod, override)

    # -- placements ----------------------------------------------------------------------------

    def _in_placements(self, *, post_filters: bool) -> Effects[GroupResult]:
        """Try the group in every placement; of those that can hold it the best one counts."""
        group, search = self.group, self.search
        plugins = group.framework.plugins
        nodes = search.snapshot.node_info_list
        try:
            placements = generate(plugins.placement_generate, group.key, nodes)
        except StatusError as none:
            return GroupResult(status=GroupStatus.of(none.status))
        first: GroupResult | None = None
        able: list[tuple[Placement, GroupResult]] = []
        for placement in placements:
            if len(placement.nodes) != len(nodes):
                search.placement = placement.nodes
            result = yield from self._member_by_member(post_filters=post_filters)
            search.placement = None
            if result.status is not None and result.status.code == Code.ERROR:
                return result
            first = first or result
            if result.status is None or result.awaits_preemption:
                able.append((placement, result))
        assert first is not None
        if not able:
            why = "" if first.status is None else first.status.error
            text = f"0/{len(placements)} placements are available, first placement status: {why}"
            first.status = GroupStatus(Code.UNSCHEDULABLE, "", (text,))
            return first
        if len(able) == 1:
            return able[0][1]
        return self._best(able)

    def _best(self, able: Sequence[tuple[Placement, GroupResult]]) -> GroupResult:
        """The result with the highest score; chance decides between equal ones."""
        group, framework = self.group, self.group.framework
        if len(able) > 1:
            able = framework.handle.choose_order("scheduler.group.results", list(able))
        assigned = [
            Assignments(
                placement,
                [member.attempt.pod for member in result.members if member.attempt.node_name],
            )
            for placement, result in able
        ]
        try:
            totals = total_scores(
                framework.plugins.placement_score,
                framework.placement_weights,
                group.key,
                assigned,
            )
        except StatusError as broken:
            return GroupResult(status=GroupStatus.of(broken.status))
        best = [at for at, total in enumerate(totals) if total == max(totals)]
        chosen = 0
        if len(best) > 1:
            chosen = framework.handle.choose_offset("scheduler.group.best", len(best))
        return able[best[chosen]][1]
