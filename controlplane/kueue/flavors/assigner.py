"""The search for flavors of a workload.

Follows `FlavorAssigner` of `pkg/scheduler/flavorassigner/flavorassigner.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from controlplane.api.tree import Tree
from controlplane.kueue.amounts import (
    PODS,
    FlavorResource,
    Quotas,
    Requests,
    add,
    amount_text,
    quantity_text,
    requests_of,
    sub,
    summed,
)
from controlplane.kueue.cache.cluster_queue import NEVER
from controlplane.kueue.cache.quota import ResourceGroup
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.flavors.assignment import (
    IGNORE_UNDECLARED,
    Assignment,
    FlavorAssignment,
    PodSetAssignment,
    Status,
)
from controlplane.kueue.flavors.attempts import Attempt, merge_attempts
from controlplane.kueue.flavors.matching import check_flavor
from controlplane.kueue.flavors.modes import (
    BEST,
    EXCEEDS_MAX_QUOTA,
    NO_MATCHING_FLAVOR,
    TOPOLOGY_PLACEMENT_FAILED,
    WAITING_FOR_QUOTA,
    WORST,
    Fine,
    Mode,
    Possibility,
    Quality,
    graver,
    is_preferred,
    should_try_next,
)
from controlplane.kueue.flavors.topology import (
    find_places,
    take_places,
    topology_requests,
    unhealthy_nodes,
)
from controlplane.kueue.gates import Gates
from controlplane.kueue.topology.assignment import assignment_of
from controlplane.kueue.topology.workloads import first_failure
from controlplane.kueue.workload.info import Info, PodSetResources, next_flavor, pod_sets
from controlplane.kueue.workload.variants import allowed_flavors


class Oracle(Protocol):
    """Tells what preemption could do."""

    def simulate(
        self, queue: ClusterQueueSnapshot, info: Info, pair: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """The possible outcome of preemption for an amount, and the height of borrowing after it."""


@dataclass
class _PodSet:
    """A pod set on its way: its place in the workload, requests, and assignment."""

    index: int
    requests: Requests
    assigned: PodSetAssignment


@dataclass
class _Found:
    """The flavors of one resource group; None when none was tried."""

    flavors: dict[str, FlavorAssignment] | None
    status: Status
    attempts: list[Attempt]


@dataclass(frozen=True)
class FlavorAssigner:
    """The conditions of a search.

    Args:
        info: The workload.
        queue: Its ClusterQueue in the cycle's snapshot.
        flavors: All flavors by name.
        oracle: Asked about preemption.
        gates: Kueue's feature gates.
        fair_sharing: True if fair sharing is on.
        quota_check: Strategy for resources without quota.
        replaced: The workload slice that this one replaces, None if none.
        cycle: The number of the scheduling cycle.
        begins_anew: Begin with the first flavor when none is left where the last search stopped.
    """

    info: Info
    queue: ClusterQueueSnapshot
    flavors: Mapping[str, Tree]
    oracle: Oracle
    gates: Gates
    fair_sharing: bool = False
    quota_check: str = ""
    replaced: Info | None = None
    cycle: int = 0
    begins_anew: bool = False

    def assign(self, counts: Sequence[int] = ()) -> Assignment:
        """Search flavors for all pod sets.

        Args:
            counts: Pods per pod set, all of them if empty.
        """
        assignment = Assignment(
            self.queue.generation,
            self.cycle,
            self.info.hash,
            ignore_undeclared=self._ignores_undeclared(),
            replaced=self.replaced,
        )
        for group in self._groups(counts):
            if not self._assign_group(assignment, group):
                self._explain(assignment)
                return assignment
        if assignment.mode() is not Mode.NO_FIT and self.gates.enabled("TopologyAwareScheduling"):
            self._place(assignment)
        self._explain(assignment)
        return assignment

    def _ignores_undeclared(self) -> bool:
        return self.quota_check == IGNORE_UNDECLARED and self.gates.enabled("QuotaCheckStrategy")

    def _explain(self, assignment: Assignment) -> None:
        if self.gates.enabled("UnadmittedWorkloadsObservability"):
            assignment.resolve_no_fit_reason(self.queue)

    # -- pod sets ----------------------------------------------------------------------------------

    def _groups(self, counts: Sequence[int]) -> list[list[_PodSet]]:
        """Pod sets that must get the same flavors together, in order of appearance."""
        groups: dict[str, list[_PodSet]] = {}
        for at, each in enumerate(self.info.total_requests):
            pod_set = each.scaled_to(counts[at]) if counts else each
            key = (self._spec(at).get("topologyRequest") or {}).get("podSetGroupName")
            groups.setdefault(str(at) if key is None else key, []).append(
                self._pod_set(at, pod_set)
            )
        return list(groups.values())

    def _spec(self, at: int) -> Tree:
        return pod_sets(self.info.obj)[at]

    def _pod_set(self, at: int, pod_set: PodSetResources) -> _PodSet:
        requests = pod_set.requests
        if self.queue.group_of(PODS) is not None:
            requests = requests_of({**requests, PODS: pod_set.count})
        assigned = PodSetAssignment(pod_set.name, pod_set.count, requests)
        if self.gates.enabled("TopologyAwareScheduling"):
            assigned.flavors = {
                resource: FlavorAssignment(flavor, Mode.FIT)
                for resource, flavor in pod_set.flavors.items()
            }
            assigned.delayed_topology = pod_set.delayed_topology
            if pod_set.topology is not None:
                known = self.info.obj["status"]["admission"]["podSetAssignments"][at]
                assigned.topology = assignment_of(known["topologyAssignment"])
        return _PodSet(at, requests, assigned)

    def _assign_group(self, assignment: Assignment, group: list[_PodSet]) -> bool:
        """Search flavors for a group of pod sets; return whether all of them got some."""
        requests = summed(each.requests for each in group)
        considered: dict[str, Attempt] = {}
        flavors: dict[str, FlavorAssignment] | None = {
            resource: each
            for pod_set in group
            for resource, each in pod_set.assigned.flavors.items()
        }
        status = Status()
        for resource, amount in requests.items():
            covering = self.queue.group_of(resource)
            if covering is None and (amount == 0 or self._ignores_undeclared()):
                continue
            if flavors is None or resource in flavors:
                continue
            found = self._find(group, requests, resource, covering, assignment.usage)
            observed = self.gates.enabled("UnadmittedWorkloadsObservability")
            merge_attempts(considered, found.attempts, resource, covering, observed=observed)
            if found.status.error or not found.flavors:
                flavors, status = None, found.status
                break
            flavors |= found.flavors
            status.texts.extend(found.status.texts)
        attempts = tuple(considered[name] for name in sorted(considered))
        complete = True
        for pod_set in group:
            assigned = pod_set.assigned
            assigned.flavors = self._own_flavors(pod_set, flavors or {})
            assigned.status = Status(list(status.texts), status.error)
            assigned.attempts = attempts
            assignment.append(pod_set.requests, assigned)
            if status.error or (pod_set.requests and not assigned.flavors):
                complete = False
        return complete

    def _own_flavors(
        self, pod_set: _PodSet, flavors: Mapping[str, FlavorAssignment]
    ) -> dict[str, FlavorAssignment]:
        if pod_set.requests:
            return {name: each for name, each in flavors.items() if name in pod_set.requests}
        topology = self._spec(pod_set.index).get("topologyRequest") or {}
        if topology.get("podSetGroupName") is not None:
            known = self.queue.topologies
            return {name: each for name, each in flavors.items() if each.name in known}
        return {}

    # -- flavors -----------------------------------------------------------------------------------

    def _find(
        self,
        group: list[_PodSet],
        requests: Requests,
        resource: str,
        covering: ResourceGroup | None,
        used: Quotas,
    ) -> _Found:
        """Search a flavor for all requested resources of the group that covers one of them.

        Gate here4 (proposed here; not reported): upstream goes on after the flavor where the last cycle stopped, also
        when the queue has lost flavors since. Past their end none is looked at, no reason is found against the
        workload, and it is admitted with no flavor and no usage. The repair begins with the first flavor then.
        """
        if covering is None:
            return _Found(None, Status([f"resource {resource} unavailable in ClusterQueue"]), [])
        wanted = {name: amount for name, amount in requests.items() if name in covering.resources}
        found = _Found(None, Status(), [])
        fungible = self.gates.enabled("FlavorFungibility")
        best = WORST
        last = -1
        start = next_flavor(self.info.last_assignment, group[0].index, resource, self.gates)
        if self.begins_anew and start >= len(covering.flavors):
            start = 0
        for at in range(start, len(covering.flavors)):
            last = at
            name = covering.flavors[at]
            if text := self._skipped(name, group, resource):
                found.status.texts.append(text)
                continue
            specs = [self._spec(each.index) for each in group]
            matched = check_flavor(name, self.flavors, specs, self.queue, covering, self.gates)
            if not matched.fits():
                found.status.texts.extend(matched.texts)
                found.attempts.append(self._mismatch(name, matched))
                if matched.error:
                    found.status.error = matched.error
                    return found
                continue
            quality, assigned = self._try(name, group, wanted, used, found)
            if not fungible:
                if quality.mode > best.mode:
                    found.flavors, best = assigned, quality
                    if quality.mode is Fine.FIT:
                        return _Found(assigned, Status(), found.attempts)
                continue
            stop = not should_try_next(quality, self.queue.fungibility)
            if stop or is_preferred(quality, best, self.queue.fungibility):
                found.flavors, best = assigned, quality
            if stop:
                break
        if fungible:
            for each in (found.flavors or {}).values():
                each.tried = -1 if last == len(covering.flavors) - 1 else last
            if best.mode is Fine.FIT:
                return _Found(found.flavors, Status(), found.attempts)
        return found

    def _mismatch(self, flavor: str, status: Status) -> Attempt:
        observed = self.gates.enabled("UnadmittedWorkloadsObservability")
        reason = NO_MATCHING_FLAVOR if observed else ""
        return Attempt(flavor, Mode.NO_FIT, texts=tuple(status.texts), reason=reason)

    def _skipped(self, flavor: str, group: list[_PodSet], resource: str) -> str:
        """Return why a flavor is not looked at, or an empty text."""
        if self._restricted():
            nominated = self.info.nomination or {}
            names = [self._spec(each.index).get("name", "") for each in group]
            if all(nominated.get(name, {}).get(resource) != flavor for name in names):
                return (
                    f"skipping flavor {flavor} as it is not found in the nomination mapping "
                    f"for resource {resource}"
                )
        if self.gates.enabled("ConcurrentAdmission"):
            allowed = allowed_flavors(self.info.obj)
            if allowed is not None and flavor not in allowed:
                return (
                    f"skipping flavor {flavor} due to WorkloadAllowedResourceFlavorAnnotation "
                    "annotation"
                )
        return ""

    def _restricted(self) -> bool:
        return bool(self.info.nomination) and (
            self.gates.enabled("RecomputeAssignmentUponPreemptionTargetsOverlap")
            or (
                self.gates.enabled("TopologyAwareScheduling")
                and self.gates.enabled("TASRecomputeAssignmentWithinSchedulingCycle")
            )
        )

    def _try(
        self,
        flavor: str,
        group: list[_PodSet],
        wanted: Requests,
        used: Quotas,
        found: _Found,
    ) -> tuple[Quality, dict[str, FlavorAssignment]]:
        """Try a flavor for all wanted resources; texts and the attempt are added to `found`."""
        worst = BEST
        assigned: dict[str, FlavorAssignment] = {}
        borrow, texts, reason = 0, list[str](), ""
        for resource, amount in wanted.items():
            value = amount
            if self.replaced is not None and self.gates.enabled("ElasticJobsViaWorkloadSlices"):
                value, text = self._beyond_replaced(flavor, group, resource, amount)
                if text:
                    worst = WORST
                    found.status.texts.append(text)
                    texts.append(text)
                    reason = graver(reason, NO_MATCHING_FLAVOR)
            pair = FlavorResource(flavor, resource)
            mode, height, text, why = self._fits(pair, used.get(pair, 0), value)
            if text:
                texts.append(text)
                found.status.texts.append(text)
                reason = graver(reason, why)
            borrow = max(borrow, height)
            quality = Quality(mode, height)
            if is_preferred(worst, quality, self.queue.fungibility):
                worst = quality
            if worst.mode is not Fine.NO_FIT:
                assigned[resource] = FlavorAssignment(flavor, mode.mode(), borrow=height)
        observed = self.gates.enabled("UnadmittedWorkloadsObservability")
        found.attempts.append(
            Attempt(
                flavor,
                worst.mode.mode(),
                borrow,
                worst.mode.possibility(),
                tuple(sorted(texts)),
                reason if observed else "",
            )
        )
        return worst, assigned

    def _beyond_replaced(
        self, flavor: str, group: list[_PodSet], resource: str, amount: int
    ) -> tuple[int, str]:
        """The amount that a replaced slice does not hold yet; a text if it has another flavor."""
        assert self.replaced is not None
        for each in group:
            before = self.replaced.total_requests[each.index]
            original = before.flavors.get(resource, "")
            if original != flavor:
                return amount, (
                    f"could not assign {flavor} flavor since the original workload is assigned: "
                    f"{original}"
                )
            amount -= before.requests.get(resource, 0)
        return amount, ""

    def _fits(self, pair: FlavorResource, assumed: int, amount: int) -> tuple[Fine, int, str, str]:
        """Mode, height of borrowing, text and reason for an amount of a flavor's resource."""
        queue = self.queue
        available, greatest = queue.available(pair), queue.potential(pair)
        value = add(assumed, amount)
        name = pair.resource
        if value > greatest:
            text = (
                f"insufficient quota for {name} in flavor {pair.flavor}, previously considered "
                f"podsets requests ({amount_text(name, assumed)}) + current podset request "
                f"({quantity_text(name, amount)}) > maximum capacity ({amount_text(name, greatest)})"
            )
            return Fine.NO_FIT, 0, text, EXCEEDS_MAX_QUOTA
        height, more_above = queue.lowest_fitting_subtree(pair, value)
        if value <= available:
            return Fine.FIT, height, "", ""
        text = (
            f"insufficient unused quota for {name} in flavor {pair.flavor}, "
            f"{amount_text(name, sub(value, available))} more needed"
        )
        if queue.quota(pair).nominal >= value or more_above or self._may_borrow_by_preemption():
            possibility, after = self.oracle.simulate(queue, self.info, pair, value)
            return Fine(possibility + 1), after, text, ""
        return Fine.NO_FIT, height, text, WAITING_FOR_QUOTA

    def _may_borrow_by_preemption(self) -> bool:
        preemption = self.queue.preemption
        return not preemption.borrowing_forbidden() or (
            self.fair_sharing and preemption.reclaim_within_cohort != NEVER
        )

    # -- topology ----------------------------------------------------------------------------------

    def _place(self, assignment: Assignment) -> None:
        """Find topology domains; what finds none now may find some after preemption."""
        requests = topology_requests(assignment, self.info, self.queue, self.gates)
        workload = self.info.obj
        if assignment.mode() is Mode.FIT:
            result = find_places(self.queue, requests, workload, self.gates)
            failure = first_failure(result)
            if failure is None:
                take_places(assignment, self.info, self.queue, result)
            else:
                failed = assignment.pod_set(failure[0])
                if failed is not None:
                    failed.status.texts.append(failure[1].failure)
                assignment.set_pod_set_mode(failure[0], Mode.PREEMPT)
        if assignment.mode() is Mode.PREEMPT and not unhealthy_nodes(workload):
            result = find_places(self.queue, requests, workload, self.gates, simulate_empty=True)
            failure = first_failure(result)
            if failure is None:
                for each in requests.values():
                    for request in each:
                        assignment.set_pod_set_mode(request.name, Mode.PREEMPT)
            else:
                self._mark_failed(assignment, failure[0], failure[1].flavor)
                assignment.set_pod_set_mode(failure[0], Mode.NO_FIT)

    def _mark_failed(self, assignment: Assignment, pod_set: str, flavor: str) -> None:
        failed = assignment.pod_set(pod_set)
        if failed is None or not self.gates.enabled("UnadmittedWorkloadsObservability"):
            return
        at = next((i for i, each in enumerate(failed.attempts) if each.flavor == flavor), None)
        if at is not None:
            marked = replace(
                failed.attempts[at], mode=Mode.NO_FIT, reason=TOPOLOGY_PLACEMENT_FAILED
            )
            failed.attempts = (*failed.attempts[:at], marked, *failed.attempts[at + 1 :])
