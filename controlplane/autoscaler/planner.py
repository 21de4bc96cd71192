"""Which nodes are unneeded, for how long, and which of them are to be deleted.

Upstream: `core/scaledown/{planner/planner,unneeded/nodes,unremovable/nodes}.go`,
`processors/nodes/scale_down_set_processor.go`. Unneeded nodes are looked at in order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.autoscaler.drain import Draining
from controlplane.autoscaler.groups import Cloud, NodeGroup
from controlplane.autoscaler.nodes import keeps_out_of_scale_down, readiness
from controlplane.autoscaler.options import Options
from controlplane.autoscaler.pods import recreatable
from controlplane.autoscaler.quotas import Tracker
from controlplane.autoscaler.removal import Placement, Removable, Unremovable, try_removal
from controlplane.autoscaler.simulation import Simulation
from controlplane.autoscaler.utilization import Utilization, eligible
from controlplane.scheduler.cycle.binding import with_node_name


@dataclass(frozen=True, slots=True)
class Ongoing:
    """Deletions under way: names of empty and of drained nodes, numbers by group, pods evicted lately."""

    empty: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    by_group: Mapping[str, int] = field(default_factory=dict)
    evicted: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Unneeded:
    """An unneeded node, since when, and how long it must be so before it goes."""

    removable: Removable
    since: int
    threshold: int


@dataclass(frozen=True, slots=True)
class Deletions:
    """Nodes to delete: those without pods that move, and those to drain first."""

    empty: tuple[Node, ...] = ()
    drained: tuple[Node, ...] = ()


class Planner:
    """Follows unneeded nodes from one round to the next."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._placement = Placement()
        self._injection = Placement()
        self._unneeded: dict[str, Unneeded] = {}
        self._recheck: dict[str, int] = {}
        self._unremovable: dict[str, Unremovable] = {}
        self._interval = options.unneeded_time or 1
        self._updated: int | None = None
        self.utilization: dict[str, Utilization] = {}

    @property
    def unneeded(self) -> list[Unneeded]:
        """Unneeded nodes in order of their names."""
        return [self._unneeded[name] for name in sorted(self._unneeded)]

    @property
    def unremovable(self) -> list[Unremovable]:
        """Nodes that cannot go, in order of their names."""
        return [self._unremovable[name] for name in sorted(self._unremovable)]

    def waits(self, now: int, calm: int, changed: int) -> bool:
        """Return whether time alone may let a node go: one is unneeded, or was kept before the last change.

        Nothing is deleted before the time `calm`.
        """
        if any(now <= max(calm, each.since + each.threshold) for each in self._unneeded.values()):
            return True
        verdicts = (until - self._options.recheck_unremovable for until in self._recheck.values())
        return any(at <= changed for at in verdicts)

    def forget(self) -> None:
        """Forget which nodes were unneeded."""
        self._unneeded = {}

    def update(
        self,
        simulation: Simulation,
        cloud: Cloud,
        draining: Draining,
        candidates: Iterable[str],
        destinations: Iterable[str],
        ongoing: Ongoing,
    ) -> None:
        """Find the unneeded nodes among candidates; the simulation stays as it was."""
        now = draining.now
        if self._updated is not None:
            self._interval = max(1, min(self._interval, now - self._updated))
        self._updated = now
        simulation.fork()
        self._inject(simulation, ongoing.evicted)
        busy = (*ongoing.empty, *ongoing.drained)
        left = {name: None for name in destinations if name not in busy}
        names = [name for name in candidates if name not in busy]
        self._categorize(simulation, cloud, draining, names, left)
        self._placement.drop_old()
        self._injection.drop_old()
        simulation.revert()

    def _inject(self, simulation: Simulation, evicted: Sequence[Pod]) -> None:
        pods = [with_node_name(pod, "") for pod in recreatable(evicted)]
        self._injection.place(simulation, pods, stop=True)

    def _categorize(
        self,
        simulation: Simulation,
        cloud: Cloud,
        draining: Draining,
        candidates: Sequence[str],
        destinations: dict[str, None],
    ) -> None:
        now, budgets = draining.now, draining.budgets
        self._unremovable = {}
        self._recheck = {
            name: until
            for name, until in self._recheck.items()
            if until > now and simulation.get(name) is not None
        }
        found = eligible(
            simulation, cloud, self._options, candidates, now, self._recheck.__contains__
        )
        for name, reason in found.refused:
            self._unremovable[name] = Unremovable(name, reason)
        self.utilization = found.utilization
        removable, atomic = list[Removable](), 0
        most = self._most()
        for name in found.names:
            if len(removable) - atomic >= most:
                break
            tried = try_removal(simulation, self._placement, name, destinations, draining)
            if isinstance(tried, Unremovable):
                self._recheck[name] = now + self._options.recheck_unremovable
                self._unremovable[name] = tried
                continue
            removable.append(tried if budgets.at_once(tried.pods) else tried.at_risk())
            destinations.pop(name, None)
            budgets.remove(tried.pods)
            group = cloud.group_of(tried.node)
            atomic += group is not None and group.options.zero_or_max
        self._note(cloud, removable, now)

    def _most(self) -> int:
        """The number of nodes that is enough to keep deletions going."""
        each = self._options.parallelism
        longest = max(self._options.unneeded_time, self._interval)
        return min(len(self._unneeded) + 2 * each, each * (longest // self._interval) + each)

    def _note(self, cloud: Cloud, removable: Iterable[Removable], now: int) -> None:
        updated: dict[str, Unneeded] = {}
        for each in removable:
            name, group = each.node.metadata.name, cloud.group_of(each.node)
            ready = readiness(each.node).ready
            threshold = self._options.removal_time_of(group, ready) if group is not None else 0
            before = self._unneeded.get(name)
            since = now if before is None else before.since
            updated[name] = Unneeded(each, since, threshold)
        self._unneeded = updated

    # -- deletion ----------------------------------------------------------------------------------

    def to_delete(self, simulation: Simulation, cloud: Cloud, ongoing: Ongoing) -> Deletions:
        """Return the nodes that have been unneeded for long enough and that no limit keeps."""
        nodes = [placed.node for placed in simulation.nodes()]
        tracker = Tracker(cloud, self._options.limits, nodes, least=True)
        sizes = {group.id: group.target for group in cloud.groups}
        empty, drained = list[Removable](), list[Removable]()
        ordered = sorted(self.unneeded, key=lambda each: bool(each.removable.pods))
        for each in ordered:
            reason = self._kept(each, cloud, ongoing, sizes, tracker)
            if reason:
                self._refuse(each.removable, reason)
            else:
                (drained if each.removable.pods else empty).append(each.removable)
        drained.sort(key=lambda each: each.risky)
        chosen = self._whole_groups([*empty, *drained], cloud, nodes)
        return self._without_waiting(chosen)

    def _without_waiting(self, chosen: Iterable[Removable]) -> Deletions:
        empty, drained = list[Node](), list[Node]()
        for each in chosen:
            if each.on_completion:
                self._refuse(each, "BlockedByOnCompletionPod")
            else:
                (drained if each.pods else empty).append(each.node)
        return Deletions(tuple(empty), tuple(drained))

    def _refuse(self, removable: Removable, reason: str) -> None:
        name = removable.node.metadata.name
        self._unremovable[name] = Unremovable(name, reason)

    def _kept(
        self,
        unneeded: Unneeded,
        cloud: Cloud,
        ongoing: Ongoing,
        sizes: dict[str, int],
        tracker: Tracker,
    ) -> str:
        node = unneeded.removable.node
        if keeps_out_of_scale_down(node):
            return "ScaleDownDisabledAnnotation"
        assert self._updated is not None
        if unneeded.threshold > 0 and unneeded.since + unneeded.threshold >= self._updated:
            ready = readiness(node).ready
            return "NotUnneededLongEnough" if ready else "NotUnreadyLongEnough"
        group = cloud.group_of(node)
        if group is None:
            return "NotAutoscaled"
        if sizes[group.id] - ongoing.by_group.get(group.id, 0) <= group.min_size:
            return "NodeGroupMinSizeReached"
        if tracker.consume(group, node, 1).exceeded:
            return "MinimalResourceLimitExceeded"
        sizes[group.id] -= 1
        return ""

    def _whole_groups(
        self, candidates: Sequence[Removable], cloud: Cloud, nodes: Sequence[Node]
    ) -> list[Removable]:
        """Keep nodes of groups that go only as a whole where all of the group are there; those come last."""
        kept: list[Removable] = []
        by_group: dict[str, tuple[NodeGroup, list[Removable]]] = {}
        for each in candidates:
            group = cloud.group_of(each.node)
            if group is None:
                self._refuse(each, "NotAutoscaled")
            elif group.options.zero_or_max:
                by_group.setdefault(group.id, (group, []))[1].append(each)
            else:
                kept.append(each)
        for group, members in by_group.values():
            whole = (group.target, len(cloud.registered(group, nodes)))
            if len(members) in whole:
                kept.extend(members)
                continue
            for each in members:
                self._refuse(each, "AtomicScaleDownFailed")
        return kept
