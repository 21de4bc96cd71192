"""One loop of the autoscaler: from the state of the cluster to what it asks of provider and API.

Upstream: `core/static_autoscaler.go` (RunOnce), `core/podlistprocessor`, `processors/scaledowncandidates`,
`core/scaledown/actuation/softtaint.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from controlplane.api.apps import DaemonSet
from controlplane.api.go_sort import sort_slice
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.policy import PodDisruptionBudget
from controlplane.autoscaler.backoff import Backoff
from controlplane.autoscaler.budgets import RemainingBudgets
from controlplane.autoscaler.deletions import Batch, within_budget
from controlplane.autoscaler.drain import Controllers, Draining, pods_to_move
from controlplane.autoscaler.expander import Market
from controlplane.autoscaler.groups import UPCOMING, Cloud, Template
from controlplane.autoscaler.nodes import (
    DELETION_CANDIDATE,
    marked_for_deletion,
    readiness,
)
from controlplane.autoscaler.options import HOUR, MINUTE, SECOND, Options
from controlplane.autoscaler.planner import Ongoing, Planner, Unneeded
from controlplane.autoscaler.pods import is_daemon_set_pod, is_unschedulable, recreatable
from controlplane.autoscaler.quotas import Quota
from controlplane.autoscaler.removal import Placement, Unremovable
from controlplane.autoscaler.scaleup import (
    Outcome,
    Remaining,
    Situation,
    scale_up,
    scale_up_to_minimum,
)
from controlplane.autoscaler.simulation import Placed, Simulation, fresh
from controlplane.autoscaler.state import ClusterState, Told
from controlplane.autoscaler.status import StatusWriter
from controlplane.autoscaler.templates import Templates
from controlplane.autoscaler.utilization import Utilization
from controlplane.decisions import Decision, immediate
from controlplane.scheduler.cycle.binding import with_node_name
from controlplane.scheduler.state.listers import Listers
from controlplane.sharing.replacing import replaced

_NEW_FOR: Final = 2 * SECOND
"""Age up to which all pods count as new: the scheduler may still place them."""


BEGUN: Final = immediate(lambda _batches: True)
"""Deletions that begin somewhere else."""


_SCHEDULER_TAKES: Final = MINUTE
"""The time after a change for which a pod that has a place by now is expected to be bound."""
_ENOUGH_REMOVALS: Final = 4
"""Removals of instances that did not register, without a new node, after which the next one is not awaited."""


class Provider(Protocol):
    """A cloud provider. Calls are decisions, as they go to another process; their result is an error or ""."""

    def cloud(self) -> Cloud:
        """Return the groups as they are now."""

    def increase(self, group: str, size: int) -> Decision[Any, str]:
        """Ask for more nodes."""

    def decrease(self, group: str, size: int) -> Decision[Any, str]:
        """Ask for fewer of the nodes that are still to come."""

    def delete(self, group: str, names: Sequence[str]) -> Decision[Any, str]:
        """Delete nodes or instances."""


class CapacityRequests(Protocol):
    """Requests for capacity, where they are handled."""

    def refresh(self, now: int) -> Decision[Any, None]:
        """Take note of what is over."""

    def pods(
        self, unschedulable: Sequence[Pod], simulation: Simulation, now: int
    ) -> Decision[Any, list[Pod]]:
        """Return the pods to help, with those of a request; put booked pods into the simulation."""

    def claims(self, pod: Pod) -> bool:
        """Return whether a pod is one of a request."""

    def provision(self, situation: Situation) -> Decision[Any, Outcome]:
        """Find capacity for the request whose pods were added."""


@dataclass(frozen=True, slots=True)
class View:
    """The cluster at the start of a loop; the time in nanoseconds."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    now: int
    daemon_sets: Sequence[DaemonSet] = ()
    budgets: Sequence[PodDisruptionBudget] = ()
    controllers: Controllers = field(default_factory=Controllers)
    ongoing: Ongoing = field(default_factory=Ongoing)


@dataclass(frozen=True, slots=True)
class Loop:
    """The outcome of a loop: batches to delete, nodes to mark as candidates or not, the status and events."""

    deletions: tuple[Batch, ...] = ()
    marked: tuple[str, ...] = ()
    unmarked: tuple[str, ...] = ()
    scale_up: Outcome | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Told, ...] = ()
    started: bool = False
    """True if the deletions have begun."""


class Autoscaler:
    """Decides loop by loop; keeps the state of groups, unneeded nodes and times of the last changes."""

    def __init__(
        self,
        options: Options,
        provider: Provider,
        market: Callable[[], Market],
        now: int,
        begin: Callable[[Sequence[Batch]], Decision[Any, bool]] = BEGUN,
        listers: Listers | None = None,
        requests: CapacityRequests | None = None,
        quotas: Callable[[], Sequence[Quota]] = tuple,
        buffers: Callable[[], Decision[Any, list[Pod]]] | None = None,
    ) -> None:
        """Begin without a loop.

        `begin` starts deletions, and returns whether it could; `market` and `quotas` are asked in each scale-up,
        `buffers` for the pods of CapacityBuffers in each loop.
        """
        self._buffers = buffers
        self._quotas = quotas
        self._requests = requests
        self._requests_next = False
        self._options = options
        self._provider = provider
        self._market = market
        self._templates: Mapping[str, Template] = {}
        self._sources = Templates()
        self._simulation = Simulation(listers)
        self._placement = Placement()
        self._planner = Planner(options)
        self._writer = StatusWriter()
        self._previous: dict[str, None] = {}
        self._candidates: dict[str, int] = {}
        self._looked = 0
        self._last_up = self._last_delete = self._last_failure = now - HOUR
        self._begin = begin
        self._pending = False
        self._fruitless = self._registered = 0
        self._hopeful = self._too_new = False
        self._events: list[Told] = []
        self.state = ClusterState(
            options,
            Backoff(*options.backoff),
            provider.decrease,
            lambda group: group in self._templates,
        )

    def run_once(self, view: View) -> Decision[Any, Loop]:
        """Return what one loop asks for."""
        self._events = []
        loop = yield from self._decide(view)
        status = self._writer.status(self.state, self._candidates, self._looked, view.now)
        events = (*self.state.events, *self._events)
        self.state.events = []
        return replace(loop, status=status, events=events)

    @property
    def unneeded(self) -> list[Unneeded]:
        """Nodes that are not needed."""
        return self._planner.unneeded

    @property
    def unremovable(self) -> list[Unremovable]:
        """Nodes that cannot go, with the reasons."""
        return self._planner.unremovable

    def utilization(self, name: str) -> Utilization | None:
        """Return the utilization of a node, as the last look at it found."""
        return self._planner.utilization.get(name)

    def forget(self) -> None:
        """Forget which nodes were unneeded."""
        self._planner.forget()

    def waits(self, now: int, changed: int) -> bool:
        """Return whether time alone will lead to something: what was asked for is due, nodes are to go later.

        `changed` is when pods, nodes or budgets last changed: verdicts from before may turn out otherwise.
        """
        options = self._options
        calm = max(
            self._last_up + options.delay_after_add,
            self._last_failure + options.delay_after_failure,
            self._last_delete + options.delay_after_delete,
        )
        if self._too_new or (self._hopeful and now <= changed + _SCHEDULER_TAKES):
            return True
        settles = self._fruitless < _ENOUGH_REMOVALS
        return (settles and self.state.waits(now, pending=self._pending)) or (
            options.scale_down_enabled and self._planner.waits(now, calm, changed)
        )

    def _decide(self, view: View) -> Decision[Any, Loop]:
        cloud, now = self._provider.cloud(), view.now
        self._hopeful = self._too_new = False
        if self._requests is not None:
            yield from self._requests.refresh(now)
        allocated = [pod for pod in view.pods if _allocated(pod) and self._counts(pod)]
        self._simulation.set_cluster(view.nodes, allocated)
        self._templates = self._sources.update(
            self._simulation, cloud, view.nodes, view.daemon_sets, now
        )
        yield from self.state.update(cloud, view.nodes, now)
        if len(self.state.total.registered) > self._registered:
            self._fruitless = 0
        self._registered = len(self.state.total.registered)
        yield from self._remove_unregistered(cloud, now)
        if not self.state.healthy:
            self._planner.forget()
            self._events.append(Told("Warning", "ClusterUnhealthy", "Cluster is unhealthy"))
            return Loop()
        yield from self._remove_failed()
        if (yield from self._fixed_sizes(cloud, now)):
            return Loop()
        nodes = self._with_upcoming(view, now)
        present = [placed.node for placed in self._simulation.nodes()]
        pods = yield from self._to_help(view)
        outcome, cooling = yield from self._scaled_up(view, pods, present)
        loop = yield from self._scaled_down(view, nodes, cooling)
        if self._options.enforce_min_size:
            outcome = yield from scale_up_to_minimum(self._situation(present, now))
            self._note_scale_up(outcome, now)
        return replace(loop, scale_up=outcome)

    def _counts(self, pod: Pod) -> bool:
        return pod.spec.priority is None or pod.spec.priority >= self._options.expendable_cutoff

    # -- what is wrong -----------------------------------------------------------------------------

    def _remove_unregistered(self, cloud: Cloud, now: int) -> Decision[Any, None]:
        for group in cloud.groups:
            late = now - self._options.provision_time_of(group)
            names = [
                each.name
                for each in self.state.unregistered
                if cloud.members.get(each.name) == group.id and each.since < late
            ][: max(0, group.target - group.min_size)]
            if not names:
                continue
            error = yield from self._provider.delete(group.id, names)
            self.state.forget_instances(group.id)
            for name in names:
                self._events.append(
                    Told(
                        "Warning",
                        "DeleteUnregisteredFailed",
                        f"Failed to remove node {name}: {error}",
                    )
                    if error
                    else Told("Normal", "DeleteUnregistered", f"Removed unregistered node {name}")
                )
            if error:
                return
            self._fruitless += 1

    def _remove_failed(self) -> Decision[Any, None]:
        removed = False
        for group, names in self.state.created_with_errors().items():
            if not (yield from self._provider.delete(group, names)):
                self.state.forget_instances(group)
                removed = True
        if removed:
            self.state.recalculate(self._provider.cloud())

    def _fixed_sizes(self, cloud: Cloud, now: int) -> Decision[Any, bool]:
        fixed = False
        for group in cloud.groups:
            wrong = self.state.wrong_sizes.get(group.id)
            if wrong is None or wrong.current >= wrong.expected:
                continue
            if wrong.since + self._options.provision_time_of(group) < now:
                yield from self._provider.decrease(group.id, wrong.expected - wrong.current)
                fixed = True
        return fixed

    # -- scale-up ----------------------------------------------------------------------------------

    def _with_upcoming(self, view: View, now: int) -> list[Node]:
        """Put expected nodes in; return the nodes without those that are registered and not started."""
        starting: dict[str, None] = {}
        for group, count in self.state.upcoming(now).items():
            template = self._templates.get(group)
            for at in range(count if template is not None else 0):
                assert template is not None
                suffix = f"upcoming-{at}"
                name = f"{template.node.metadata.name}-{suffix}"
                self._simulation.put(_expected(fresh(template, name, suffix)))
            for name in self.state.not_started_in(group):
                starting[name] = None
                self._simulation.drop(name)
        return [node for node in view.nodes if node.metadata.name not in starting]

    def _to_help(self, view: View) -> Decision[Any, list[Pod]]:
        """Return the pods that no node of the cluster, present or expected, has a place for."""
        buffered = [] if self._buffers is None else (yield from self._buffers())
        pods = [pod for pod in view.pods if _unschedulable(pod) and self._counts(pod)]
        pods.extend(buffered)
        for name in view.ongoing.drained:
            placed = self._simulation.get(name)
            moving = [
                pod
                for pod in (placed.pods if placed is not None else ())
                if pod.metadata.deletion_timestamp is None
            ]
            pods.extend(with_node_name(pod, "") for pod in recreatable(moving))
        sort_slice(pods, lambda left, right: (left.spec.priority or 0) > (right.spec.priority or 0))
        placed_now = {pod.uid for pod, _ in self._placement.place(self._simulation, pods)}
        self._placement.drop_old()
        self._hopeful = bool(placed_now.difference(pod.uid for pod in buffered))
        left = [pod for pod in pods if pod.uid not in placed_now and not is_daemon_set_pod(pod)]
        if self._requests is not None:
            left = yield from self._requests.pods(left, self._simulation, view.now)
        delay = self._options.new_pod_delay
        old = [pod for pod in left if (pod.metadata.creation_timestamp or 0) + delay < view.now]
        self._too_new = len(old) < len(left)
        return old

    def _scaled_up(
        self, view: View, pods: Sequence[Pod], present: Sequence[Node]
    ) -> Decision[Any, tuple[Outcome, bool]]:
        """Return what the scale-up came to, and whether scale-down waits for it."""
        self._pending = bool(pods)
        if not pods:
            return Outcome("NotNeeded"), False
        requested, others = self._split(pods)
        if not requested:
            obstacle = self._obstacle(view, pods)
            if obstacle is not None:
                return obstacle, obstacle.result == "InCooldown"
        situation = self._situation(present, view.now)
        if self._requests is not None and requested and (self._requests_next or not others):
            outcome = yield from self._requests.provision(situation)
        else:
            outcome = yield from scale_up(situation, others)
        self._requests_next = bool(requested) and not (self._requests_next or not others)
        self._note_scale_up(outcome, view.now)
        return outcome, False

    def _split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Return the pods of a request for capacity, which take turns with all others, and these."""
        if self._requests is None:
            return [], list(pods)
        claims = self._requests.claims
        return [pod for pod in pods if claims(pod)], [pod for pod in pods if not claims(pod)]

    def _obstacle(self, view: View, pods: Sequence[Pod]) -> Outcome | None:
        """Return why no scale-up is tried."""
        most = self._options.max_nodes
        ready = [
            node for node in view.nodes if readiness(node).ready and not node.spec.unschedulable
        ]
        if 0 < most <= len(ready):
            text = f"Max total nodes in cluster reached: {most}"
            self._events.append(Told("Warning", "MaxNodesTotalReached", text))
            left = tuple(Remaining(pod, {}, {}) for pod in pods)
            return Outcome("LimitedByMaxNodesTotal", remaining=left)
        oldest = min(pod.metadata.creation_timestamp or 0 for pod in pods)
        if oldest + _NEW_FOR > view.now:
            self._too_new = True
            return Outcome("InCooldown")
        return None

    def _note_scale_up(self, outcome: Outcome, now: int) -> None:
        if outcome.result == "Successful":
            self._last_up = now

    def _situation(self, present: Sequence[Node], now: int) -> Situation:
        return Situation(
            self._simulation,
            self._provider.cloud(),
            self.state,
            self._options,
            replace(self._market(), templates=self._templates),
            present,
            now,
            self._provider.increase,
            self._provider.cloud,
            ratios=self._options.ratios,
            ignored_labels=self._options.ignored_labels,
            quotas=self._quotas(),
            record=self._events.append,
        )

    # -- scale-down --------------------------------------------------------------------------------

    def _scaled_down(self, view: View, nodes: Sequence[Node], cooling: bool) -> Decision[Any, Loop]:
        options, now = self._options, view.now
        if not options.scale_down_enabled:
            return Loop()
        cloud = self._provider.cloud()
        draining = Draining(
            options.deletions, RemainingBudgets(view.budgets), view.controllers, now
        )
        candidates = self._ordered(cloud, nodes, draining)
        names = [node.metadata.name for node in nodes]
        self._planner.update(self._simulation, cloud, draining, candidates, names, view.ongoing)
        self._note_candidates(cloud, now)
        cooling = (
            cooling
            or self._last_up + options.delay_after_add > now
            or self._last_failure + options.delay_after_failure > now
            or self._last_delete + options.delay_after_delete > now
        )
        batches: list[Batch] = []
        started = True
        if not cooling and candidates:
            found = self._planner.to_delete(self._simulation, cloud, view.ongoing)
            present = [placed.node for placed in self._simulation.nodes()]
            batches = within_budget(found, cloud, options, view.ongoing, present)
            if batches:
                started = yield from self._begin(batches)
                if started:
                    self._last_delete = now
                    self.state.recalculate(cloud)
        marked, unmarked = self._soft_taints(cloud, nodes)
        if not started:
            self._last_failure = now
        return Loop(tuple(batches), marked, unmarked, started=started and bool(batches))

    def _ordered(self, cloud: Cloud, nodes: Sequence[Node], draining: Draining) -> list[str]:
        """Return the nodes of groups above their least size: empty ones first, then those of the loop before."""
        plain = Draining(draining.options, RemainingBudgets(), None, draining.now)
        ranks: dict[str, tuple[bool, bool, bool]] = {}
        for node in nodes:
            group, name = cloud.group_of(node), node.metadata.name
            if group is None or group.target <= group.min_size:
                continue
            placed = self._simulation.get(name)
            moves = pods_to_move(placed.pods if placed else (), plain)
            empty = moves.blocking is None and not moves.pods
            waits = empty and bool(moves.on_completion)
            ranks[name] = (not empty, waits, name not in self._previous)
        names = list(ranks)
        sort_slice(names, lambda left, right: ranks[left] < ranks[right])
        return names

    def _note_candidates(self, cloud: Cloud, now: int) -> None:
        self._previous, self._candidates, self._looked = {}, {}, now
        for each in self._planner.unneeded:
            node = each.removable.node
            self._previous[node.metadata.name] = None
            group = cloud.group_of(node)
            if group is not None:
                self._candidates[group.id] = self._candidates.get(group.id, 0) + 1

    def _soft_taints(
        self, cloud: Cloud, nodes: Sequence[Node]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the nodes to mark as candidates of a deletion and those to unmark, a few in each loop."""
        unneeded = [each.removable.node.metadata.name for each in self._planner.unneeded]
        own = [
            node
            for node in nodes
            if cloud.group_of(node) is not None and not marked_for_deletion(node)
        ]
        clear = [
            node.metadata.name
            for node in own
            if node.metadata.name not in unneeded and _candidate(node)
        ][: self._options.soft_taints]
        mark = [
            node.metadata.name
            for node in own
            if node.metadata.name in unneeded and not _candidate(node)
        ][: self._options.soft_taints - len(clear)]
        return tuple(mark), tuple(clear)


def _candidate(node: Node) -> bool:
    return any(taint.key == DELETION_CANDIDATE for taint in node.spec.taints)


def _expected(placed: Placed) -> Placed:
    node = placed.node
    notes = {**node.metadata.annotations, UPCOMING: "true"}
    meta = replaced(node.metadata, annotations=notes)
    return Placed(replaced(node, metadata=meta), placed.pods)


def _terminal(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _allocated(pod: Pod) -> bool:
    return not _terminal(pod) and bool(pod.spec.node_name or pod.status.nominated_node_name)


def _unschedulable(pod: Pod) -> bool:
    return not (_terminal(pod) or _allocated(pod)) and is_unschedulable(pod)
