"""The scale-up of one loop: options, the best of them, its balance among groups, and its execution.

Upstream: `core/scaleup/orchestrator/{orchestrator,executor,rejectedreasons,skippedreasons}.go`. Groups are scaled up
one after the other; all groups exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.autoscaler import balancing, estimator
from controlplane.autoscaler.backoff import Failure
from controlplane.autoscaler.balancing import Ratios, ScaleUpInfo
from controlplane.autoscaler.expander import Market, best_option
from controlplane.autoscaler.groups import Cloud, NodeGroup, Option, Template
from controlplane.autoscaler.options import Options
from controlplane.autoscaler.pods import equivalence_groups
from controlplane.autoscaler.quotas import Quota, Tracker
from controlplane.autoscaler.simulation import Placed, Simulation
from controlplane.autoscaler.state import ClusterState, Told
from controlplane.decisions import Decision

BACKED_OFF: Final = "in backoff after failed scale-up"
AT_MAXIMUM: Final = "max node group size reached"
NOT_READY: Final = "not ready for scale-up"
TOO_MANY_NODES: Final = "atomic scale-up exceeds cluster node count limit"
NOT_ALL: Final = "not all pods would fit and scale-up is using all-or-nothing strategy"
FILTERED_OUT: Final = "expansion options filtered out and no longer considered"
FAILED: Final = "scale-up execution failed"
_FULL: Final = "max node total count already reached"

Reasons = tuple[str, ...]


@dataclass(slots=True)
class PodGroup:
    """Pods that count as the same; where they fit, and the reasons of the groups where they do not."""

    pods: tuple[Pod, ...]
    fits: list[str] = field(default_factory=list)
    errors: dict[str, Reasons] = field(default_factory=dict)
    schedulable: bool = False


@dataclass(frozen=True, slots=True)
class Remaining:
    """A pod without a scale-up, with the reasons of groups by their id."""

    pod: Pod
    rejected: Mapping[str, Reasons]
    skipped: Mapping[str, Reasons]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a scale-up; the result is Successful, Error, NoOptionsAvailable or NotNeeded."""

    result: str
    infos: tuple[ScaleUpInfo, ...] = ()
    triggered: tuple[Pod, ...] = ()
    remaining: tuple[Remaining, ...] = ()
    awaiting: tuple[Pod, ...] = ()
    considered: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of a scale-up. `increase` is the decision to ask the provider; its result is an error or an
    empty text.
    """

    simulation: Simulation
    cloud: Cloud
    state: ClusterState
    options: Options
    market: Market
    nodes: Sequence[Node]
    now: int
    increase: Callable[[str, int], Decision[Any, str]]
    current: Callable[[], Cloud] | None = None
    """The provider after its targets changed."""
    ratios: Ratios = field(default_factory=Ratios)
    ignored_labels: tuple[str, ...] = ()
    quotas: Sequence[Quota] = ()
    record: Callable[[Told], None] = lambda _event: None

    @property
    def templates(self) -> Mapping[str, Template]:
        """The template of each group."""
        return self.market.templates


def scale_up(
    situation: Situation, pods: Sequence[Pod], *, all_or_nothing: bool = False
) -> Decision[Any, Outcome]:
    """Find the best option for pods without a place, and carry it out."""
    return (yield from _ScaleUp(situation, pods, all_or_nothing).run())


class _Ended(Exception):
    """The scale-up ends here."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class _ScaleUp:
    def __init__(self, situation: Situation, pods: Sequence[Pod], all_or_nothing: bool) -> None:
        self._in = situation
        self._pods = pods
        self._whole = all_or_nothing
        self._groups = [PodGroup(each) for each in equivalence_groups(pods)]
        self._tracker = _tracker(situation)
        self._skipped: dict[str, Reasons] = {}
        self._fitting: dict[str, list[PodGroup]] = {}
        self._options: list[Option] = []

    def run(self) -> Decision[Any, Outcome]:
        """Return what the scale-up came to."""
        try:
            option, infos = yield from self._prepared()
        except _Ended as end:
            return end.outcome
        failed, error = yield from execute(self._in, infos)
        if error:
            return self._failed(option, infos, failed, error)
        self._in.state.recalculate(self._in.current() if self._in.current else self._in.cloud)
        return Outcome(
            "Successful",
            tuple(infos),
            option.pods,
            self._remaining(),
            self._awaiting(option.group),
            self._considered(),
            tuple(self._options),
        )

    def _failed(
        self, option: Option, infos: Sequence[ScaleUpInfo], failed: str, error: str
    ) -> Outcome:
        names = [info.group for info in infos]
        lost = names[names.index(failed) :]
        for group in self._groups:
            if not group.schedulable:
                continue
            hit = [name for name in group.fits if name in lost]
            group.errors.update((name, (FAILED,)) for name in hit)
            group.schedulable = len(hit) < len(group.fits)
        return self._error(option, error)

    # -- options -----------------------------------------------------------------------------------

    def _prepared(self) -> Decision[Any, tuple[Option, list[ScaleUpInfo]]]:
        valid = [group for group in self._in.cloud.groups if self._may_grow(group)]
        for group in valid:
            self._fitting[group.id] = self._fit(group)
        for group in valid:
            option = self._option(group)
            if option.pods and option.node_count:
                if not (self._whole and len(option.pods) < len(self._pods)):
                    self._options.append(option)
        if not self._options:
            raise _Ended(self._none())
        best = yield from best_option(self._in.options.expanders, self._in.market, self._options)
        if best is None or best.node_count <= 0:
            self._mark_all(FILTERED_OUT)
            raise _Ended(self._none())
        return best, self._sized(best)

    def _may_grow(self, group: NodeGroup) -> bool:
        reasons = self._obstacles(group)
        if reasons:
            self._skipped[group.id] = reasons
        return not reasons

    def _obstacles(self, group: NodeGroup) -> Reasons:
        unready = not_ready(self._in, group)
        if unready:
            return (unready,)
        if group.target >= group.max_size:
            return (AT_MAXIMUM,)
        count, most = 1, self._in.options.max_nodes
        if group.options.zero_or_max:
            count = group.max_size - group.target
            if most and len(self._in.nodes) + count > most:
                return (TOO_MANY_NODES,)
        template = self._in.templates.get(group.id)
        if template is None:
            return (NOT_READY,)
        return exceeded(self._tracker, group, template, count)

    def _fit(self, group: NodeGroup) -> list[PodGroup]:
        """Return the groups of pods of which the first fits a new node."""
        simulation, template = self._in.simulation, self._in.templates[group.id]
        fitting: list[PodGroup] = []
        simulation.fork()
        simulation.put(Placed(template.node, template.pods))
        for each in self._groups:
            refusal = simulation.check(each.pods[0], template.node.metadata.name)
            if refusal is None:
                fitting.append(each)
                each.schedulable = True
                each.fits.append(group.id)
            else:
                each.errors[group.id] = refusal.reasons
        simulation.revert()
        return fitting

    def _option(self, group: NodeGroup) -> Option:
        fitting = self._fitting[group.id]
        if not fitting:
            return Option(group.id, 0)
        similar = self._similar(group)
        options = self._in.options
        limits = (
            options.most_per_scale_up,
            estimator.group_limit(group, similar),
            estimator.cluster_limit(options.max_nodes, len(self._in.nodes)),
        )
        count, pods = estimator.estimate(
            self._in.simulation,
            [each.pods for each in fitting],
            self._in.templates[group.id],
            estimator.Limiter(limits),
        )
        if group.options.zero_or_max:
            if self._whole and count > group.max_size:
                count, pods = 0, []
            count = group.max_size if count > 0 else count
        return Option(group.id, count, tuple(pods), tuple(each.id for each in similar))

    def _similar(self, group: NodeGroup) -> list[NodeGroup]:
        """Return the groups that may share a scale-up: alike, safe, and good for all the same pods."""
        fitting = self._fitting.get(group.id)
        if not self._in.options.balance_similar or group.options.zero_or_max or not fitting:
            return []
        found = balancing.similar_groups(
            group.id,
            self._in.cloud.groups,
            self._in.templates,
            self._in.ratios,
            self._in.ignored_labels,
        )
        return [
            other
            for other in found
            if self._in.state.safety(other.id, self._in.now).safe
            and other.id in self._fitting
            and all(any(one is two for two in self._fitting[other.id]) for one in fitting)
        ]

    # -- size --------------------------------------------------------------------------------------

    def _sized(self, best: Option) -> list[ScaleUpInfo]:
        group = self._in.cloud.group(best.group)
        assert group is not None
        count, error = capped(self._in, best.node_count, len(self._in.nodes))
        if error:
            self._mark_all(FAILED)
            raise _Ended(self._error(best, error))
        node = self._in.templates[group.id].node
        count = self._tracker.check(group, node, count).nodes
        if self._whole and count < best.node_count:
            raise _Ended(self._abort())
        infos = self._balanced(group, count)
        if self._whole and sum(info.new - info.current for info in infos) < count:
            raise _Ended(self._abort())
        return infos

    def _balanced(self, group: NodeGroup, count: int) -> list[ScaleUpInfo]:
        targets = [group] + [
            each
            for each in self._similar(group)
            if not exceeded(self._tracker, each, self._in.templates[each.id], 1)
        ]
        infos = balancing.balance(targets, count)
        return [info for info in map(self._within_quota, infos) if info.new != info.current]

    def _within_quota(self, info: ScaleUpInfo) -> ScaleUpInfo:
        group, template = self._in.cloud.group(info.group), self._in.templates.get(info.group)
        if group is None or template is None:
            return info
        allowed = self._tracker.check(group, template.node, info.new - info.current).nodes
        if allowed > 0:
            self._tracker.consume(group, template.node, allowed)
        return ScaleUpInfo(info.group, info.current, info.current + allowed, info.maximum)

    # -- outcomes ----------------------------------------------------------------------------------

    def _mark_all(self, reason: str) -> None:
        for each in self._groups:
            if each.schedulable:
                each.errors.update((name, (reason,)) for name in each.fits)
                each.schedulable = False

    def _abort(self) -> Outcome:
        self._mark_all(NOT_ALL)
        return self._none()

    def _none(self) -> Outcome:
        return Outcome(
            "NoOptionsAvailable",
            remaining=self._remaining(),
            considered=self._considered(),
            options=tuple(self._options),
        )

    def _error(self, option: Option, error: str) -> Outcome:
        return Outcome(
            "Error",
            triggered=option.pods,
            remaining=self._remaining(),
            options=tuple(self._options),
            error=error,
        )

    def _considered(self) -> tuple[str, ...]:
        return tuple(group.id for group in self._in.cloud.groups)

    def _remaining(self) -> tuple[Remaining, ...]:
        return tuple(
            Remaining(pod, group.errors, self._skipped)
            for group in self._groups
            if not group.schedulable
            for pod in group.pods
        )

    def _awaiting(self, best: str) -> tuple[Pod, ...]:
        waiting = (each for each in self._groups if each.schedulable and best in each.errors)
        return tuple(pod for each in waiting for pod in each.pods)


def not_ready(situation: Situation, group: NodeGroup) -> str:
    """Return why the state of a group keeps it from growing."""
    safety = situation.state.safety(group.id, situation.now)
    if not safety.healthy:
        return NOT_READY
    return "" if safety.failure is None else BACKED_OFF


def _tracker(situation: Situation) -> Tracker:
    limits, nodes = situation.options.limits, situation.nodes
    return Tracker(situation.cloud, limits, nodes, situation.quotas, least=False)


def exceeded(tracker: Tracker, group: NodeGroup, template: Template, count: int) -> Reasons:
    """Return which resources of which quotas do not allow new nodes."""
    found = tracker.check(group, template.node, count).exceeded
    return tuple(
        f'exceeded quota: "{quota}", resources: {", ".join(names)}'
        for quota, names in found.items()
    )


def capped(situation: Situation, count: int, present: int) -> tuple[int, str]:
    """Return the number of new nodes that the greatest size of the cluster allows, and an error for none."""
    most = situation.options.max_nodes
    if most <= 0 or count + present <= most:
        return count, ""
    text = f"Max total nodes in cluster reached: {most}"
    situation.record(Told("Warning", "MaxNodesTotalReached", text))
    left = most - present
    return left, _FULL if left < 1 else ""


def execute(situation: Situation, infos: Iterable[ScaleUpInfo]) -> Decision[Any, tuple[str, str]]:
    """Ask the provider for the new sizes; end with the first that fails, and return its group and the error."""
    for info in infos:
        group = situation.cloud.group(info.group)
        if group is None or info.group not in situation.templates:
            continue
        increase, sizes = info.new - info.current, f"{info.new} instead of {info.current}"
        text = f"Scale-up: setting group {group.id} size to {sizes} (max: {info.maximum})"
        situation.record(Told("Normal", "ScaledUpGroup", text))
        error = yield from situation.increase(group.id, increase)
        if error:
            text = f"Scale-up failed for group {group.id}: {error}"
            situation.record(Told("Warning", "FailedToScaleUpGroup", text))
            error = f"failed to increase node group size: {error}"
            failure = Failure("Other", "cloudProviderError", error)
            situation.state.fail(group.id, failure, situation.now)
            return group.id, error
        situation.state.scale_up(group, increase, situation.now)
        text = f"Scale-up: group {group.id} size set to {sizes} (max: {info.maximum})"
        situation.record(Told("Normal", "ScaledUpGroup", text))
    return "", ""


def scale_up_to_minimum(situation: Situation) -> Decision[Any, Outcome]:
    """Bring groups below their least size up to it."""
    tracker = _tracker(situation)
    infos: list[ScaleUpInfo] = []
    for group in situation.cloud.groups:
        template = situation.templates.get(group.id)
        if group.target >= group.min_size or not_ready(situation, group) or template is None:
            continue
        if exceeded(tracker, group, template, 1):
            continue
        missing = group.min_size - group.target
        allowed = tracker.check(group, template.node, missing).nodes
        count, error = capped(situation, allowed, group.target)
        if not error:
            new = group.target + count
            infos.append(ScaleUpInfo(group.id, group.target, new, group.max_size))
    if not infos:
        return Outcome("NotNeeded")
    _, error = yield from execute(situation, infos)
    if error:
        return Outcome("Error", error=error)
    situation.state.recalculate(situation.current() if situation.current else situation.cloud)
    considered = tuple(group.id for group in situation.cloud.groups)
    return Outcome("Successful", tuple(infos), considered=considered)
