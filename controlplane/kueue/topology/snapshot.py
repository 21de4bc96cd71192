"""A flavor's domains with free capacity and usage, as one scheduling cycle sees and changes them.

Follows `TASFlavorSnapshot` of `pkg/cache/scheduler/tas_flavor_snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.api.constraints import Toleration
from controlplane.api.tree import Tree, metadata_of
from controlplane.kueue import names
from controlplane.kueue.gates import Gates
from controlplane.kueue.topology import elastic, replacement
from controlplane.kueue.topology.assignment import (
    Assignment,
    add_to,
    assignment_of,
    domain_id,
    take_from,
    with_pods,
)
from controlplane.kueue.topology.board import Board, times_in
from controlplane.kueue.topology.level_search import LevelSearch
from controlplane.kueue.topology.matching import Exclusions, PodRules, feasible, pod_rules
from controlplane.kueue.topology.placement import Placed, place
from controlplane.kueue.topology.requests import (
    PodSetRequest,
    has_levels,
    leader_and_workers,
    parameters,
)
from controlplane.kueue.topology.tree import Leaf, TopologyTree
from controlplane.kueue.workload.info import DomainRequests

Amounts = Mapping[str, int]
Assumed = dict[str, dict[str, int]]
"""Requests that this search has given to domains already."""


@dataclass(frozen=True)
class Placement:
    """The result for one pod set; `failure` says why there is no assignment."""

    assignment: Assignment | None = None
    failure: str = ""
    flavor: str = ""


@dataclass(frozen=True)
class _Task:
    """One pod set to place under the conditions of a search."""

    request: PodSetRequest
    leader: PodSetRequest | None
    assumed: Assumed
    empty: bool
    workload: Tree | None
    within: str = ""
    """Only lowest domains inside this one count; empty means all."""


class FlavorSnapshot:
    """Free capacity and usage by lowest domain, and the search for places.

    Args:
        topology: Name of the Topology.
        tree: Domains, shared with other snapshots.
        tolerations: Those of the flavor.
        gates: Kueue's feature gates.
    """

    __slots__ = (
        "_board", "_gates", "_matches", "_remaining", "free", "tolerations", "topology", "tree",
        "used",
    )  # fmt: skip

    def __init__(
        self,
        topology: str,
        tree: TopologyTree,
        tolerations: Sequence[Toleration],
        gates: Gates,
    ) -> None:
        self.topology = topology
        self.tree = tree
        self.tolerations = tuple(tolerations)
        self.free: dict[str, dict[str, int]] = {
            name: dict(leaf.capacity) for name, leaf in tree.leaves.items()
        }
        self.used: dict[str, dict[str, int]] = {}
        self._remaining: dict[str, dict[str, int]] = {}
        self._gates = gates
        self._matches: dict[tuple[str, str], tuple[list[tuple[Leaf, int]], Exclusions]] = {}
        self._board = Board(
            tree,
            by_affinity=gates.enabled("TASRespectNodeAffinityPreferred"),
            mixed=gates.enabled("TASProfileMixed"),
        )

    # -- usage -------------------------------------------------------------------------------------

    def take_free(self, domain: str, usage: Amounts) -> None:
        """Take what other pods use off a domain's capacity."""
        take_from(self.free[domain], usage)
        self._remaining.pop(domain, None)

    def add_amounts(self, domain: str, usage: Amounts) -> None:
        """Add usage of admitted workloads; a domain that no longer exists is passed over."""
        if domain in self.free:
            add_to(self.used.setdefault(domain, {}), usage)
            self._remaining.pop(domain, None)

    def add_usage(self, requests: Iterable[DomainRequests]) -> None:
        """Add what a workload takes on this flavor."""
        for each in requests:
            self.add_amounts(domain_id(each.values), with_pods(each.total(), each.count))

    def remove_usage(self, requests: Iterable[DomainRequests]) -> None:
        """Take it off again."""
        for each in requests:
            domain = domain_id(each.values)
            if domain in self.free:
                take_from(self.used.setdefault(domain, {}), with_pods(each.total(), each.count))
                self._remaining.pop(domain, None)

    def remaining(self, domain: str) -> dict[str, int]:
        """Free capacity less usage. Not to be changed."""
        found = self._remaining.get(domain)
        if found is None:
            found = dict(self.free[domain])
            take_from(found, self.used.get(domain, {}))
            self._remaining[domain] = found
        return found

    def fits(self, requests: Iterable[DomainRequests]) -> bool:
        """Return whether each of the domains exists and has room for its pods."""
        return all(
            domain_id(each.values) in self.free
            and times_in(each.single_pod, self.remaining(domain_id(each.values)))[0] >= each.count
            for each in requests
        )

    def has_level(self, topology: Tree | None) -> bool:
        """Return whether the topology has all levels that a topology request names."""
        return has_levels(topology, self.tree.levels)

    # -- search ------------------------------------------------------------------------------------

    def find(
        self,
        requests: Sequence[PodSetRequest],
        workload: Tree | None = None,
        *,
        simulate_empty: bool = False,
        assumed: Assumed | None = None,
    ) -> dict[str, Placement]:
        """Find places for pod sets; each sees what those before it were given.

        Args:
            requests: The pod sets in order; those of a group are placed together.
            workload: The Workload; with unhealthy nodes only their pods get another place.
            simulate_empty: Search as if no workload had been admitted.
            assumed: Requests given to domains so far by other flavors; added to.

        Returns:
            A placement by pod set; the search ends with the first failure.
        """
        result: dict[str, Placement] = {}
        assumed = {} if assumed is None else assumed
        failed_nodes = [
            each.get("name", "")
            for each in ((workload or {}).get("status") or {}).get("unhealthyNodes") or ()
        ]
        for group in _groups(requests):
            if failed_nodes:
                found = self._replace_all(group, failed_nodes[0], assumed, workload or {})
            else:
                found = self._place_group(group, assumed, simulate_empty, workload)
            result.update(found)
            if any(each.failure for each in found.values()):
                return result
        return result

    def _place_group(
        self, group: Sequence[PodSetRequest], assumed: Assumed, empty: bool, workload: Tree | None
    ) -> dict[str, Placement]:
        leader, workers = leader_and_workers(group)
        if self._gates.enabled("ElasticJobsViaWorkloadSlicesWithTAS"):
            scaled = self._scale(leader, workers, assumed, empty, workload)
            if scaled is not None:
                return scaled
        placed = self._search(_Task(workers, leader, assumed, empty, workload))
        found = {}
        for each in group:
            assignment = None
            if each is workers:
                assignment = placed.workers
            elif each is leader:
                assignment = placed.leader
            found[each.name] = Placement(assignment, placed.failure)
            if assignment is not None:
                assume(assumed, assignment, each)
        return found

    def _replace_all(
        self, group: Sequence[PodSetRequest], node: str, assumed: Assumed, workload: Tree
    ) -> dict[str, Placement]:
        """Replace a failed node in each pod set of a group."""
        found: dict[str, Placement] = {}
        keeps = self._gates.enabled("SkipReassignmentForPodOwnedWorkloads")
        for each in group:
            current = _current_assignment(workload, each.name)
            if current is None:
                continue
            if keeps and _is_of_one_pod(workload):
                found[each.name] = Placement(current)
                continue
            found[each.name], added = self._replace(each, current, node, assumed, workload)
            if added is None:
                break
            assume(assumed, added, each)
        return found

    def _replace(
        self,
        request: PodSetRequest,
        current: Assignment,
        node: str,
        assumed: Assumed,
        workload: Tree,
    ) -> tuple[Placement, Assignment | None]:
        """The mended assignment, and the part of it that is new (None on failure)."""
        rest, pods = replacement.without_node(current, node)
        request = replace(request, count=pods)
        stale = replacement.stale_domain(self.tree, rest)
        if stale is not None:
            text = "Cannot replace the node, because the existing topologyAssignment is invalid"
            return Placement(failure=f"{text}, as it contains the stale domain {stale}"), None
        within = replacement.required_domain(self.tree, request, rest)
        task = _Task(replacement.narrowed(request, within), None, assumed, False, workload, within)
        placed = self._search(task)
        if placed.workers is None:
            return Placement(failure=placed.failure), None
        if not placed.workers.domains:
            text = f"cannot find replacement assignment for unhealthy node: {node}"
            return Placement(failure=text), None
        return Placement(replacement.merged(self.tree, placed.workers, rest)), placed.workers

    def _scale(
        self,
        leader: PodSetRequest | None,
        workers: PodSetRequest,
        assumed: Assumed,
        empty: bool,
        workload: Tree | None,
    ) -> dict[str, Placement] | None:
        """Keep the pods of the slice before and place only what is new; None if that does not apply."""
        plan = elastic.plan(self.tree, leader, workers)
        if plan is None:
            return None
        found: dict[str, Placement] = {}
        for request, kept in plan.kept:
            assume(assumed, kept, request)
        own = plan.workers
        if plan.more:
            task = _Task(
                replace(workers, count=plan.more, previous=None),
                plan.leader_to_place, assumed, empty, workload,
            )  # fmt: skip
            placed = self._search(task)
            if placed.workers is None:
                return {workers.name: Placement(failure=placed.failure)}
            own = replacement.merged(self.tree, placed.workers, own)
            assume(assumed, placed.workers, workers)
            if plan.leader_to_place is not None and placed.leader is not None:
                assume(assumed, placed.leader, plan.leader_to_place)
                found[plan.leader_to_place.name] = Placement(placed.leader)
        found[workers.name] = Placement(own)
        if leader is not None and leader.previous is not None:
            found[leader.name] = Placement(leader.previous)
        return found

    def _search(self, task: _Task) -> Placed:
        """Fill the board for one pod set and choose domains."""
        request = task.request
        wanted, problem = parameters(request, 1 if task.leader else 0, self.tree.levels)
        rules: PodRules | None = None
        if not problem:
            rules, problem = pod_rules(
                request,
                self.tolerations,
                nodes=self.tree.ends_at_nodes,
                preferred=self._gates.enabled("TASRespectNodeAffinityPreferred"),
            )
        if wanted is None or rules is None:
            return Placed(failure=problem)
        self._board.clear()
        candidates, excluded = self._candidates(task, rules)
        for leaf, score in candidates:
            self._board.of(leaf.domain).affinity = score
            self._count(leaf, task, excluded)
        self._board.roll_up(wanted)
        search = LevelSearch(self._board, wanted, self.topology, excluded)
        return place(search, balanced=self._gates.enabled("TASBalancedPlacement"))

    def _candidates(
        self, task: _Task, rules: PodRules
    ) -> tuple[Sequence[tuple[Leaf, int]], Exclusions]:
        """The lowest domains that suit a pod set, with their scores.

        They are remembered by workload and pod set. As upstream, remembered ones have lost their
        scores: those lie in the figures that each search clears.
        """
        leaves = self.tree.leaves.values()
        if not self.tree.ends_at_nodes:
            return [(leaf, 0) for leaf in leaves], Exclusions(total=len(leaves))
        uid = str(metadata_of(task.workload or {}).get("uid") or "")
        remembers = bool(uid) and self._gates.enabled("TASCacheNodeMatchResults")
        key = uid, task.request.name
        if remembers and key in self._matches:
            found, excluded = self._matches[key]
            return [(leaf, 0) for leaf, _ in found], excluded.copy()
        excluded = Exclusions()
        found = feasible(leaves, rules, excluded)
        if remembers:
            self._matches[key] = found, excluded.copy()
        return found, excluded

    def _count(self, leaf: Leaf, task: _Task, excluded: Exclusions) -> None:
        """Enter how many pods, and whether the leader, fit into a lowest domain."""
        domain = leaf.domain
        path = domain_id(domain.values)
        if task.within and path != task.within and not path.startswith(f"{task.within},"):
            excluded.domain += 1
            return
        room: Amounts = self.free[domain.id] if task.empty else self.remaining(domain.id)
        given = task.assumed.get(domain.id)
        if given is not None:
            room = dict(room)
            take_from(room, given)
        state = self._board.of(domain)
        requests = with_pods(task.request.single_pod, 1)
        state.pods, limit = times_in(requests, room)
        if state.pods == 0 and limit:
            excluded.count_resource(limit)
        state.pods_with_leader = state.pods
        if task.leader is not None:
            needed = with_pods(task.leader.single_pod, 1)
            if times_in(needed, room)[0] > 0:
                state.leaders = 1
                room = dict(room)
                take_from(room, needed)
                state.pods_with_leader = times_in(requests, room)[0]


def assume(assumed: Assumed, assignment: Assignment, request: PodSetRequest) -> None:
    """Enter what an assignment takes."""
    for domain, usage in assignment.usage(request.single_pod).items():
        add_to(assumed.setdefault(domain, {}), usage)


def _groups(requests: Sequence[PodSetRequest]) -> list[list[PodSetRequest]]:
    """The requests by group, in order of first appearance."""
    found: dict[str, list[PodSetRequest]] = {}
    for at, each in enumerate(requests):
        found.setdefault(str(at) if each.group is None else each.group, []).append(each)
    return list(found.values())


def _current_assignment(workload: Tree, pod_set: str) -> Assignment | None:
    admission = (workload.get("status") or {}).get("admission") or {}
    for each in admission.get("podSetAssignments") or ():
        if each.get("name", "") == pod_set:
            placed = each.get("topologyAssignment")
            return None if placed is None else assignment_of(placed)
    return None


def _is_of_one_pod(workload: Tree) -> bool:
    """Return whether the Workload belongs to one plain pod, which cannot move."""
    meta = metadata_of(workload)
    owners: list[Tree] = meta.get("ownerReferences") or []
    if len(owners) != 1 or (meta.get("annotations") or {}).get(names.IS_GROUP_WORKLOAD) == "true":
        return False
    owner: Tree = owners[0]
    return (owner.get("kind"), owner.get("apiVersion")) == ("Pod", "v1")
