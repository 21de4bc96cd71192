"""The state of node groups as the autoscaler follows it: readiness, requests, failures, wrong sizes.

Upstream: `clusterstate/clusterstate.go`, `clusterstate/utils/node_instances_cache.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from controlplane.api.durations import format_duration
from controlplane.api.node import Node
from controlplane.autoscaler.backoff import Backoff, Failure
from controlplane.autoscaler.groups import Cloud, Instance, NodeGroup
from controlplane.autoscaler.nodes import RESOURCE_UNREADY, readiness, suspended
from controlplane.autoscaler.options import Options
from controlplane.decisions import Decision, immediate

_SHOWN_MESSAGES = 3
LOWERED: Final = immediate(lambda _group, _size: "")
"""A provider that lowers every target."""


@dataclass(slots=True)
class Counts:
    """Names of nodes by class, of a group or of the cluster."""

    registered: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)
    resource_unready: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    not_started: list[str] = field(default_factory=list)
    suspended: list[str] = field(default_factory=list)
    unregistered: list[str] = field(default_factory=list)
    long_unregistered: list[str] = field(default_factory=list)

    @property
    def settled(self) -> int:
        """Number of nodes and instances that are not expected any more."""
        known = (self.ready, self.unready, self.suspended, self.long_unregistered)
        return sum(len(each) for each in known)


@dataclass(frozen=True, slots=True)
class Range:
    """The sizes of a group that are all right, and its target."""

    least: int = 0
    most: int = 0
    target: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A scale-up under way: nodes that are still to come, when it was made and when they are due."""

    increase: int
    made: int
    due: int


@dataclass(frozen=True, slots=True)
class WrongSize:
    """A group whose number of nodes is not its target, since when both are as they are."""

    current: int
    expected: int
    since: int


@dataclass(frozen=True, slots=True)
class Unregistered:
    """An instance without a node, and when it was first seen."""

    name: str
    group: str
    since: int


@dataclass(frozen=True, slots=True)
class Safety:
    """The permission of a group to grow, with the reason of a refusal: its health, or a failure before."""

    healthy: bool
    failure: Failure | None

    @property
    def safe(self) -> bool:
        """True if the group may grow."""
        return self.healthy and self.failure is None


@dataclass(frozen=True, slots=True)
class Decrease:
    """A target that is lowered because nodes did not come in time; `size` is positive."""

    group: str
    size: int


@dataclass(frozen=True, slots=True)
class Told:
    """An event: type, reason, message."""

    type: str
    reason: str
    message: str


class ClusterState:
    """Follows nodes and instances.

    `decrease` is the decision to lower a target; its result is an error or an empty text. `notify` hears of the
    scale-ups that this finds failed; by default that is `fail`.
    """

    def __init__(
        self,
        options: Options,
        backoff: Backoff,
        decrease: Callable[[str, int], Decision[Any, str]] = LOWERED,
        templates: Callable[[str], bool] = lambda _group: True,
        notify: Callable[[str, Failure, int], None] | None = None,
    ) -> None:
        self._options = options
        self.backoff = backoff
        self._decrease = decrease
        self._has_template = templates
        self._notify = notify or self.fail
        self.cloud = Cloud()
        self.total = Counts()
        self.by_group: dict[str, Counts] = {}
        self.ranges: dict[str, Range] = {}
        self.wrong_sizes: dict[str, WrongSize] = {}
        self.events: list[Told] = []
        self.failures: dict[str, int] = {}
        """The number of failed scale-ups by the code of the failure."""
        self.updated = 0
        self._nodes: Sequence[Node] = ()
        self._requests: dict[str, Request] = {}
        self._downs: list[tuple[str, int]] = []
        self._unregistered: dict[str, Unregistered] = {}
        self._deleted: dict[str, None] = {}
        self._known: dict[str, tuple[Instance, ...]] = {}
        self._instances: dict[str, tuple[Instance, ...]] = {}

    # -- notes -------------------------------------------------------------------------------------

    def scale_up(self, group: NodeGroup, increase: int, now: int) -> None:
        """Note that nodes were asked for, or, with a negative number, that fewer are expected."""
        request = self._requests.get(group.id)
        due = now + self._options.provision_time_of(group)
        if request is None:
            if increase > 0:
                self._requests[group.id] = Request(increase, now, due)
            return
        total = request.increase + increase
        if total <= 0:
            del self._requests[group.id]
        elif increase > 0:
            self._requests[group.id] = Request(total, now, due)
        else:
            self._requests[group.id] = replace(request, increase=total)

    def scale_down(self, group: str, due: int) -> None:
        """Note that a node of a group is being deleted, and by when it should be gone."""
        self._downs.append((group, due))

    def fail(self, group: str, failure: Failure, now: int) -> None:
        """Note a failed scale-up: a group with a template is left alone for a while."""
        self.failures[failure.code] = self.failures.get(failure.code, 0) + 1
        if self._has_template(group):
            self.backoff.fail(group, failure, now)

    def refresh_instances(self) -> None:
        """Forget what was known of instances: the next update asks the provider."""
        self._known.clear()

    def forget_instances(self, group: str) -> None:
        """Forget what was known of the instances of a group."""
        self._known.pop(group, None)

    # -- update ------------------------------------------------------------------------------------

    def update(self, cloud: Cloud, nodes: Sequence[Node], now: int) -> Decision[Any, None]:
        """Take over the nodes and the provider's view; requests that are over end."""
        for group in cloud.groups:
            if self.scaling_up(group.id):
                self._known.pop(group.id, None)
        for group in cloud.groups:
            self._known.setdefault(group.id, group.instances)
        before, self._instances = self._instances, dict(self._known)
        self.cloud, self._nodes, self.updated = cloud, nodes, now
        self._note_unregistered(now)
        self._deleted = {node.metadata.name: None for node in nodes if cloud.lacks(node)}
        self._count(now)
        self.recalculate(cloud)
        yield from self._end_requests(now)
        for group in cloud.groups:
            self._note_creation_errors(group, before.get(group.id, ()), now)
        self.recalculate(cloud)
        self._note_wrong_sizes(now)

    def _note_unregistered(self, now: int) -> None:
        registered = {node.spec.provider_id: None for node in self._nodes}
        found: dict[str, Unregistered] = {}
        for group in self.cloud.groups:
            for each in self._instances.get(group.id, ()):
                if each.id in registered or each.state == "Deleting" or each.failed:
                    continue
                before = self._unregistered.get(each.id)
                found[each.id] = before or Unregistered(each.id, group.id, now)
        self._unregistered = found

    def _count(self, now: int) -> None:
        self.total, self.by_group = Counts(), {}
        startup = self._options.startup_time
        for node in self._nodes:
            group = self.cloud.group_of(node)
            if group is not None:
                # As upstream: the time of one group holds for nodes without group that follow.
                startup = self._options.startup_time_of(group)
                self._class_of(self.by_group.setdefault(group.id, Counts()), node, startup, now)
            self._class_of(self.total, node, startup, now)
        for each in self._unregistered.values():
            own = self.cloud.group(self.cloud.members.get(each.name, ""))
            if own is None:
                continue
            late = each.since + self._options.provision_time_of(own) < now
            for counts in (self.by_group.setdefault(own.id, Counts()), self.total):
                (counts.long_unregistered if late else counts.unregistered).append(each.name)

    def _class_of(self, counts: Counts, node: Node, startup: int, now: int) -> None:
        name, told = node.metadata.name, readiness(node)
        counts.registered.append(name)
        if name in self._deleted:
            counts.deleted.append(name)
        elif suspended(node):
            counts.suspended.append(name)
        elif told.ready:
            counts.ready.append(name)
        elif (node.metadata.creation_timestamp or 0) + startup > now:
            counts.not_started.append(name)
        else:
            counts.unready.append(name)
            if told.reason == RESOURCE_UNREADY:
                counts.resource_unready.append(name)

    def recalculate(self, cloud: Cloud) -> None:
        """Compute the sizes that are all right again, after targets changed."""
        ranges: dict[str, Range] = {}
        for group in cloud.groups:
            late = len(self.by_group.get(group.id, Counts()).long_unregistered)
            ranges[group.id] = Range(group.target - late, group.target, group.target)
        for name, request in self._requests.items():
            known = ranges.get(name, Range())
            ranges[name] = replace(known, least=known.least - request.increase)
        for name, _ in self._downs:
            known = ranges.get(name, Range())
            ranges[name] = replace(known, most=known.most + 1)
        self.ranges = ranges

    def _end_requests(self, now: int) -> Decision[Any, None]:
        self.backoff.remove_stale(now)
        for name, request in list(self._requests.items()):
            if not (self.upcoming_in(name) or 0) > 0:
                del self._requests[name]
            elif request.due < now:
                yield from self._time_out(name, request, now)
                del self._requests[name]
        self._downs = [(group, due) for group, due in self._downs if due > now]

    def _time_out(self, name: str, request: Request, now: int) -> Decision[Any, None]:
        took = format_duration(now - request.made)
        text = f"Nodes added to group {name} failed to register within {took}"
        self.events.append(Told("Warning", "ScaleUpTimedOut", text))
        why = f"Scale-up timed out for node group {name} after {took}"
        self._notify(name, Failure("Other", "timeout", why), now)
        error = yield from self._decrease(name, request.increase)
        if error:
            text = (
                f"Failed to decrease target size for group {name} after scale-up timeout: {error}"
            )
            self.events.append(Told("Warning", "FailedToRevertScaleUp", text))

    def _note_creation_errors(self, group: NodeGroup, before: Iterable[Instance], now: int) -> None:
        seen = [each.id for each in before if _creation_failed(each)]
        failed: dict[tuple[str, str], list[Instance]] = {}
        for each in self._instances.get(group.id, ()):
            if _creation_failed(each):
                failed.setdefault((each.error_class, each.error_code), []).append(each)
        for (error_class, code), instances in failed.items():
            unseen = [each for each in instances if each.id not in seen]
            if not unseen or not self.scaling_up(group.id):
                continue
            message = _messages(instances)
            text = (
                f"Failed adding {len(unseen)} nodes to group {group.id} due to {error_class}.{code}"
            )
            text += f"; source errors: {message}"
            self.events.append(Told("Warning", "ScaleUpFailed", text))
            self.scale_up(group, -len(unseen), now)
            self._notify(group.id, Failure(error_class, code, message), now)

    def _note_wrong_sizes(self, now: int) -> None:
        found: dict[str, WrongSize] = {}
        for group in self.cloud.groups:
            counts = self.by_group.get(group.id)
            if counts is None:
                continue
            size, target = len(counts.registered), self.ranges[group.id].target
            missing = len(counts.unregistered) + len(counts.long_unregistered)
            if target - missing <= size <= target:
                continue
            before = self.wrong_sizes.get(group.id)
            same = before is not None and (before.current, before.expected) == (size, target)
            found[group.id] = before if same and before else WrongSize(size, target, now)
        self.wrong_sizes = found

    # -- questions ---------------------------------------------------------------------------------

    @property
    def healthy(self) -> bool:
        """True if few enough nodes of the cluster are unready."""
        unready = len(self.total.unready)
        return not self._too_many(unready, len(self._nodes))

    def _too_many(self, unready: int, whole: int) -> bool:
        return unready > self._options.unready_count and (
            unready > self._options.unready_percentage / 100.0 * whole
        )

    def group_healthy(self, group: str) -> bool:
        """Return whether few enough nodes of a group are missing or unready without a reason."""
        allowed = self.ranges.get(group)
        if allowed is None:
            return False
        counts = self.by_group.get(group)
        if counts is None:
            return allowed.target == 0 or (allowed.least == 0 and allowed.target > 0)
        good = len(counts.ready) + len(counts.suspended)
        whole = good + len(counts.unready) + len(counts.not_started)
        return not self._too_many(max(0, allowed.least - good), whole)

    def safety(self, group: str, now: int) -> Safety:
        """Return whether a group may grow."""
        return Safety(self.group_healthy(group), self.failure_of(group, now))

    def failure_of(self, group: str, now: int) -> Failure | None:
        """Return the failure for which a group is left alone, None if it is not."""
        return self.backoff.status(group, now) if self._has_template(group) else None

    def upcoming_in(self, group: str) -> int | None:
        """Return the number of nodes that a group still expects; None for one that is not known."""
        allowed = self.ranges.get(group)
        if allowed is None:
            return None
        counts = self.by_group.get(group)
        return allowed.target - (counts.settled if counts is not None else 0)

    def at_target(self, group: str) -> bool:
        """Return whether a group expects no node, and has none too many."""
        return self.upcoming_in(group) == 0

    def scaling_up(self, group: str) -> bool:
        """Return whether nodes were asked for and are still to come."""
        return group in self._requests and (self.upcoming_in(group) or 0) > 0

    def requested(self, group: str) -> Request | None:
        """Return the scale-up of a group that is under way."""
        return self._requests.get(group)

    def upcoming(self, now: int) -> dict[str, int]:
        """Return how many nodes each group with a scale-up under way still expects."""
        found: dict[str, int] = {}
        for group in self.cloud.groups:
            number = self.upcoming_in(group.id) or 0
            if number > 0 and group.id in self._requests and self.failure_of(group.id, now) is None:
                found[group.id] = number
        return found

    def waits(self, now: int, *, pending: bool) -> bool:
        """Return whether something is due by itself: an answer to a request, or to nodes that are late.

        With pods `pending` that includes the end of a backoff, until it is at its longest.
        """
        if self._requests or (pending and self.backoff.ends(now)):
            return True
        if any(counts.not_started or counts.unregistered for counts in self.by_group.values()):
            return True
        times = ((self.cloud.group(name), wrong) for name, wrong in self.wrong_sizes.items())
        return any(
            group is not None
            and wrong.current < wrong.expected
            and wrong.since + self._options.provision_time_of(group) >= now
            for group, wrong in times
        )

    def not_started_in(self, group: str) -> list[str]:
        """Return the registered nodes of a group that are not ready yet."""
        return list(self.by_group.get(group, Counts()).not_started)

    @property
    def unregistered(self) -> list[Unregistered]:
        """Instances without a node, in the provider's order."""
        return list(self._unregistered.values())

    def created_with_errors(self) -> dict[str, list[str]]:
        """Return the instances whose creation failed, by group."""
        found: dict[str, list[str]] = {}
        for group, instances in self._instances.items():
            failed: dict[tuple[str, str], list[str]] = {}
            for each in instances:
                if _creation_failed(each):
                    failed.setdefault((each.error_class, each.error_code), []).append(each.id)
            names = [name for each in failed.values() for name in each]
            if names:
                found[group] = names
        return found


def _creation_failed(instance: Instance) -> bool:
    return instance.state == "Creating" and instance.failed


def _messages(instances: Iterable[Instance]) -> str:
    texts = list(dict.fromkeys(each.error_message for each in instances))
    return ", ".join(texts) + (", ..." if len(texts) > _SHOWN_MESSAGES else "")
