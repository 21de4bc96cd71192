"""The outcome of the search for flavors: per pod set and resource a flavor, and how it fits.

Follows `Assignment` of `pkg/scheduler/flavorassigner/flavorassigner.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.kueue.amounts import FlavorResource, Quotas, Requests, add, quantity_text
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.flavors.attempts import Attempt, considered_text
from controlplane.kueue.flavors.modes import NO_MATCHING_FLAVOR, Mode, graver, severity
from controlplane.kueue.gates import Gates
from controlplane.kueue.topology.encoding import encoded
from controlplane.kueue.workload.info import Info, LastAssignment, Usage

BLOCK_UNDECLARED: Final = "BlockUndeclared"
IGNORE_UNDECLARED: Final = "IgnoreUndeclared"


@dataclass
class FlavorAssignment:
    """The flavor of a resource. Pod sets of a group share it; its mode may still change."""

    name: str
    mode: Mode
    tried: int = 0
    """The index to go on from next time, -1 after the last flavor."""
    borrow: int = 0


@dataclass
class Status:
    """Why something does not fit: texts, or an error."""

    texts: list[str] = field(default_factory=list)
    error: str = ""

    def fits(self) -> bool:
        """Return whether nothing speaks against it."""
        return not self.error and not self.texts

    def message(self) -> str:
        """The error, or all texts in order."""
        return self.error or ", ".join(sorted(self.texts))


@dataclass
class PodSetAssignment:
    """The assignment of one pod set. `requests` are those of all its pods."""

    name: str
    count: int
    requests: Requests
    flavors: dict[str, FlavorAssignment] = field(default_factory=dict)
    status: Status = field(default_factory=Status)
    attempts: tuple[Attempt, ...] = ()
    topology: Any = None
    """Topology domains (`controlplane.kueue.topology.assignment.Assignment`), None without."""
    delayed_topology: str | None = None

    def mode(self) -> Mode:
        """The worst mode of its flavors."""
        if self.status.fits():
            return Mode.FIT
        if self.status.error or not self.flavors:
            return Mode.NO_FIT
        return min(each.mode for each in self.flavors.values())

    def set_mode(self, mode: Mode) -> None:
        """Change the mode of all its flavors."""
        for each in self.flavors.values():
            each.mode = mode

    def to_tree(self, gates: Gates) -> Tree:
        """The entry of `status.admission.podSetAssignments`."""
        tree: Tree = {"name": self.name, "count": self.count}
        if self.flavors:
            tree["flavors"] = {name: each.name for name, each in sorted(self.flavors.items())}
            tree["resourceUsage"] = {
                name: quantity_text(name, self.requests.get(name, 0))
                for name in sorted(self.flavors)
            }
        if self.topology is not None:
            tree["topologyAssignment"] = encoded(self.topology, gates)
        if self.delayed_topology is not None:
            tree["delayedTopologyRequest"] = self.delayed_topology
        return tree


class Assignment:
    """The flavors of a workload's pod sets.

    Args:
        generation: The ClusterQueue's generation in which it was made.
        cycle: The number of the scheduling cycle.
        hash: The workload's scheduling hash.
        ignore_undeclared: True if resources without quota are allowed.
        replaced: The workload that this one replaces (elastic jobs), None if none.
    """

    def __init__(
        self,
        generation: int,
        cycle: int,
        hash: str,  # noqa: A002 - the word of the field
        *,
        ignore_undeclared: bool = False,
        replaced: Info | None = None,
    ) -> None:
        self.pod_sets: list[PodSetAssignment] = []
        self.borrowing = 0
        self.usage: Quotas = {}
        self.tas_usage: Mapping[str, Any] = {}
        self.no_fit_reason = ""
        self.replaced = replaced
        self._generation, self._cycle, self._hash = generation, cycle, hash
        self._tried: list[dict[str, int]] = []
        self._ignore_undeclared = ignore_undeclared
        self._mode: Mode | None = None

    @property
    def last_state(self) -> LastAssignment:
        """How far the search came."""
        return LastAssignment(tuple(self._tried), self._generation, self._cycle, self._hash)

    @property
    def total(self) -> Usage:
        """Quota and topology domains that it takes."""
        return Usage(self.usage, {}, self.tas_usage)

    def pod_set(self, name: str) -> PodSetAssignment | None:
        """The part of a pod set."""
        return next((each for each in self.pod_sets if each.name == name), None)

    def append(self, requests: Requests, assigned: PodSetAssignment) -> None:
        """Add a pod set and what it takes."""
        self.pod_sets.append(assigned)
        tried = {}
        for resource, each in assigned.flavors.items():
            self.borrowing = max(self.borrowing, each.borrow)
            pair = FlavorResource(each.name, resource)
            amount = requests.get(resource, 0) - self._replaced_amount(assigned.name, resource)
            self.usage[pair] = add(self.usage.get(pair, 0), amount)
            tried[resource] = each.tried
        self._tried.append(tried)

    def _replaced_amount(self, pod_set: str, resource: str) -> int:
        if self.replaced is None:
            return 0
        for each in self.replaced.total_requests:
            if each.name == pod_set:
                return each.requests.get(resource, 0)
        return 0

    # -- mode --------------------------------------------------------------------------------------

    def mode(self) -> Mode:
        """The worst mode of its pod sets; remembered until something changes it."""
        if not self.pod_sets:
            return Mode.NO_FIT
        if self._mode is None:
            self._mode = min(each.mode() for each in self.pod_sets)
        return self._mode

    def set_mode(self, mode: Mode) -> None:
        """Change the mode of everything."""
        self._mode = mode
        for each in self.pod_sets:
            each.set_mode(mode)

    def set_pod_set_mode(self, name: str, mode: Mode) -> None:
        """Change the mode of a pod set; it becomes that of the whole."""
        found = self.pod_set(name)
        if found is not None:
            found.set_mode(mode)
            self._mode = mode

    def set_error(self, pod_set: PodSetAssignment, error: str) -> None:
        """Note an error of a pod set."""
        pod_set.status.error = error
        self._mode = None

    # -- texts -------------------------------------------------------------------------------------

    def message(self) -> str:
        """Why it does not fit at once."""
        parts = []
        for each in self.pod_sets:
            if each.status.fits():
                continue
            if each.status.error:
                return f"failed to assign flavors to pod set {each.name}: {each.status.error}"
            parts.append(f"couldn't assign flavors to pod set {each.name}: {each.status.message()}")
        return "; ".join(parts)

    def considered(self) -> str:
        """The flavors that were looked at, for events."""
        return considered_text((each.name, each.attempts) for each in self.pod_sets)

    def resolve_no_fit_reason(self, queue: ClusterQueueSnapshot) -> None:
        """Decide the reason of the condition when nothing fits."""
        if self.mode() is not Mode.NO_FIT:
            return
        overall = ""
        for each in self.pod_sets:
            if each.mode() is Mode.NO_FIT:
                overall = graver(overall, _no_fit_reason(each.attempts, queue))
        self.no_fit_reason = overall

    # -- amounts -----------------------------------------------------------------------------------

    def total_requests_for(self, info: Info) -> Quotas:
        """Usage of each flavor with the counts of this assignment."""
        usage: Quotas = {}
        for at, each in enumerate(info.total_requests):
            own = self.pod_sets[at]
            count = own.count
            if self.replaced is not None:
                count = each.count - self.replaced.total_requests[at].count
            for resource, amount in each.scaled_to(count).requests.items():
                flavor = own.flavors.get(resource)
                if amount == 0 or (flavor is None and self._ignore_undeclared):
                    continue
                if flavor is None:
                    raise AssignmentError(f"pod set {own.name}: no flavor for {resource}")
                pair = FlavorResource(flavor.name, resource)
                usage[pair] = add(usage.get(pair, 0), amount)
        return usage

    def pairs_needing_preemption(self) -> tuple[FlavorResource, ...]:
        """The flavors and resources for which others would have to go."""
        pairs = {
            FlavorResource(each.name, resource): None
            for pod_set in self.pod_sets
            for resource, each in pod_set.flavors.items()
            if each.mode is Mode.PREEMPT
        }
        return tuple(pairs)

    def to_trees(self, gates: Gates) -> list[Tree]:
        """`status.admission.podSetAssignments`."""
        return [each.to_tree(gates) for each in self.pod_sets]


class AssignmentError(ValueError):
    """An assignment that upstream could not go on with."""


def _no_fit_reason(attempts: Iterable[Attempt], queue: ClusterQueueSnapshot) -> str:
    """The gravest reason over resource groups, of each the least grave over its flavors."""
    known = list(attempts)
    if not known:
        return NO_MATCHING_FLAVOR
    least: dict[int, str] = {}
    for at, each in enumerate(known):
        if each.mode is not Mode.NO_FIT:
            continue
        groups = [i for i, group in enumerate(queue.groups) if each.flavor in group.flavors]
        for group in groups or [-1 - at]:
            if group not in least or severity(each.reason) < severity(least[group]):
                least[group] = each.reason
    gravest = ""
    for reason in least.values():
        gravest = graver(gravest, reason)
    return gravest
