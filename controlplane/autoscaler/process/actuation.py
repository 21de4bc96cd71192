"""Deletions of nodes: taint, wait, look again, evict pods, ask the cloud.

Upstream: `core/scaledown/actuation/{actuator,group_deletion_scheduler,delete_in_batch,delay}.go`. Its goroutines are
tasks: `autoscaler.taint` for each node that is tainted, `autoscaler.group` for each group, `autoscaler.node` for each
node, `autoscaler.delete` for each request to the cloud. Points: `autoscaler.taint-delay` (between taint and deletion),
`autoscaler.delay-deletion` (an annotation asks to wait), `autoscaler.batch`, and those of the drain and of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from controlplane.api.go_numbers import shown_float
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.autoscaler.deletions import Batch
from controlplane.autoscaler.drain import Draining, Moves, pods_to_move
from controlplane.autoscaler.options import MINUTE, SECOND
from controlplane.autoscaler.process import taints
from controlplane.autoscaler.process.drain import Drainer, DrainFailed, Report, pods_to_evict
from controlplane.autoscaler.process.settings import Settings
from controlplane.autoscaler.process.tracker import DeletionTracker
from controlplane.autoscaler.utilization import Utilization
from controlplane.controllers.common.controller import NORMAL, WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed, together
from controlplane.decisions import Decision, Sleep, Spawn

_TAINTED_AT_ONCE: Final = 5
_DELETION_TAKES: Final = 5 * MINUTE
_LOOK: Final = 5 * SECOND
_DELAY_DELETION: Final = "delay-deletion.cluster-autoscaler.kubernetes.io/"
_OTHERS_FAILED: Final = "couldn't scale down other nodes in this node group"

Told = Callable[[str, str, str], None]


class Cluster(Protocol):
    """The autoscaler's view of the cluster, as its caches have it now."""

    @property
    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""

    def pods_on(self, node: str) -> list[Pod]:
        """Return the pods of a node that count, in the order in which the cache learned of them."""

    def node(self, name: str) -> Node | None:
        """Return a node."""

    def draining(self, *, drained: bool) -> Draining:
        """Return the input of the rules; without controllers and budgets where no pod has to move."""


class Follow(Protocol):
    """The loop, which hears of what became of deletions."""

    def utilization(self, name: str) -> Utilization | None:
        """Return the utilization of a node."""

    def deleted(self, group: str, node: Node, *, drained: bool, due: int) -> None:
        """Hear of a node that should be gone by a time."""

    def ended(self) -> None:
        """Hear that a deletion is over, well or not."""


@dataclass(frozen=True, slots=True)
class _Going:
    """A node on its way; `together` is the number of nodes that go with it, 0 where it goes alone."""

    group: str
    node: Node
    drained: bool
    together: int

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.metadata.name


class Actuator:
    """Begins deletions, and carries them out in tasks of their own."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        follow: Follow,
        delete: Callable[[str, Sequence[str]], Decision[Any, str]],
        report: Report,
        record: Told,
        *,
        looks_again: bool = True,
    ) -> None:
        """Begin without deletions.

        `delete` asks the cloud; `report` tells events of objects, `record` those of the autoscaler itself.

        Gate ca5235 (pull request 5235, issue 3886): without it (`looks_again` is False) an empty node is deleted as
        soon as it is tainted, and a pod that is bound to it meanwhile goes with it.
        """
        self._looks_again = looks_again
        self._settings = settings
        self._cluster = cluster
        self._follow = follow
        self._delete = delete
        self._report = report
        self._record = record
        self.drainer = Drainer(settings, self._clock, report)
        self._queue: dict[str, list[_Going]] = {}
        self._failed: dict[str, None] = {}
        self._batches: dict[str, list[_Going]] = {}
        self.tracker = DeletionTracker()

    def _clock(self) -> int:
        return self._cluster.now

    # -- begin -------------------------------------------------------------------------------------

    def begin(self, batches: Sequence[Batch], whole: Callable[[str], bool]) -> Reconcile[bool]:
        """Taint nodes and begin their deletion, empty ones first; False if nodes could not be tainted.

        `whole` tells whether the nodes of a group go only together.
        """
        self._failed = {}
        counts: dict[str, int] = {}
        for batch in batches:
            counts[batch.group] = counts.get(batch.group, 0) + len(batch.nodes)
        for drained in (False, True):
            going = [
                [
                    _Going(batch.group, node, drained, counts[batch.group] * whole(batch.group))
                    for node in batch.nodes
                ]
                for batch in batches
                if batch.drained == drained
            ]
            nodes = [each for bucket in going for each in bucket]
            if not nodes:
                continue
            if not (yield from self._tainted(nodes)):
                return False
            for each in nodes:
                self._announce(each)
                self.tracker.start(each.group, each.name, drained=drained)
            for bucket in going:
                yield Spawn("autoscaler.group", self._group(bucket))
        return True

    def _announce(self, going: _Going) -> None:
        if not going.drained:
            text = f'Scale-down: removing empty node "{going.name}"'
            self._record(NORMAL, "ScaleDownEmpty", text)
            return
        used = self._follow.utilization(going.name)
        names = ",".join(
            pod.metadata.name for pod in pods_to_evict(self._cluster.pods_on(going.name))
        )
        text = f"Scale-down: removing node {going.name}, utilization: {_shown(used)}"
        self._record(NORMAL, "ScaleDown", f"{text}, pods to reschedule: {names}")

    def _tainted(self, going: Sequence[_Going]) -> Reconcile[bool]:
        errors: list[str] = [""] * len(going)
        left = list(range(len(going)))

        def work() -> Reconcile[None]:
            while left:
                at = left.pop(0)
                errors[at] = yield from self._taint(going[at].node)

        workers = [work() for _ in range(min(_TAINTED_AT_ONCE, len(going)))]
        yield from together("autoscaler.taint", workers)
        if not any(errors):
            return True
        for each, error in zip(going, errors, strict=True):
            if error:
                self._not_marked(each.node, error)
        for each, error in zip(going, errors, strict=True):
            if not error:
                yield from self._untaint(each.node)
        return False

    def _taint(self, node: Node) -> Reconcile[str]:
        try:
            yield from taints.mark_to_be_deleted(node, self._clock, cordon=self._settings.cordon)
        except RequestFailed as error:
            self._not_marked(node, str(error))
            return str(error) or "failed"
        text = "marked the node as toBeDeleted/unschedulable"
        self._report(node, NORMAL, "ScaleDown", text)
        return ""

    def _not_marked(self, node: Node, error: str) -> None:
        text = f"failed to mark the node as toBeDeleted/unschedulable: {error}"
        self._report(node, WARNING, "ScaleDownFailed", text)

    def _untaint(self, node: Node) -> Reconcile[None]:
        try:
            yield from taints.clean_to_be_deleted(node, self._clock, cordon=self._settings.cordon)
        except RequestFailed:
            return  # the next start of the autoscaler cleans it

    # -- deletion ----------------------------------------------------------------------------------

    def _group(self, bucket: Sequence[_Going]) -> Reconcile[None]:
        """Wait, look at the nodes of a group again, and let each go on in a task of its own."""
        if not self._looks_again:
            for each in bucket:
                pods_then = self._cluster.pods_on(each.name) if each.drained else []
                yield Spawn("autoscaler.node", self._node(each, pods_then))
            return
        delay = self._settings.options.delete_delay_after_taint
        if delay > 0:
            yield Sleep(delay, "autoscaler.taint-delay")
        draining = self._cluster.draining(drained=bucket[0].drained)
        pods = {each.name: self._cluster.pods_on(each.name) for each in bucket}
        for each in bucket:
            moves = pods_to_move(pods[each.name], draining)
            error = _obstacle(each, moves)
            if error:
                yield from self._abort(each, error)
            else:
                yield Spawn("autoscaler.node", self._node(each, pods[each.name]))

    def _node(self, going: _Going, pods: Sequence[Pod]) -> Reconcile[None]:
        try:
            if going.drained:
                yield from self.drainer.drain(going.name, pods)
            else:
                yield from self.drainer.evict_daemon_sets(going.name, pods)
            yield from self._delayed(going.node)
        except DrainFailed as error:
            yield from self._abort(going, str(error))
            return
        yield from self._ready(going)

    def _delayed(self, node: Node) -> Reconcile[None]:
        """Wait as long as annotations ask to, up to a time."""
        timeout = self._settings.deletion_delay_timeout
        if not timeout or not _asks_to_wait(node):
            return
        until = self._clock() + timeout
        while self._clock() < until:
            yield Sleep(_LOOK, "autoscaler.delay-deletion")
            fresh = self._cluster.node(node.name)
            if fresh is None:
                raise DrainFailed(f'failed to get node {node.name}: node "{node.name}" not found')
            if not _asks_to_wait(fresh):
                return

    def _ready(self, going: _Going) -> Reconcile[None]:
        """Hand a node on for deletion; nodes that go only together wait for each other."""
        queue = self._queue.setdefault(going.group, [])
        queue.append(going)
        if going.together:
            if going.group in self._failed:
                yield from self._clean_up(going, _OTHERS_FAILED)
                self._queue.pop(going.group, None)
            queue = self._queue.get(going.group, [])
            if len(queue) < going.together:
                return
        self._queue[going.group] = []
        interval = self._settings.batcher_interval
        if not interval:
            yield Spawn("autoscaler.delete", self._gone(going.group, queue))
            return
        batch = self._batches.get(going.group)
        if batch is not None:
            batch.extend(queue)
            return
        self._batches[going.group] = list(queue)
        yield Spawn("autoscaler.delete", self._gone_later(going.group, interval))

    def _gone_later(self, group: str, interval: int) -> Reconcile[None]:
        yield Sleep(interval, "autoscaler.batch")
        yield from self._gone(group, self._batches.pop(group))

    def _gone(self, group: str, nodes: Iterable[_Going]) -> Reconcile[None]:
        """Ask the cloud to delete nodes."""
        nodes = tuple(nodes)
        error = yield from self._delete(group, [each.name for each in nodes])
        for each in nodes:
            if error:
                text = f"failed to delete nodes from group {group}: {error}"
                yield from self._clean_up(each, text)
                continue
            self._report(each.node, NORMAL, "ScaleDown", "nodes removed by cluster autoscaler")
            due = self._clock() + _DELETION_TAKES
            self._follow.deleted(group, each.node, drained=each.drained, due=due)
            if each.drained:
                text = f"Scale-down: node {each.name} removed with drain"
                self._record(NORMAL, "ScaleDown", text)
            else:
                text = f"Scale-down: empty node {each.name} removed"
                self._record(NORMAL, "ScaleDownEmpty", text)
            self._end(each)

    # -- failures ----------------------------------------------------------------------------------

    def _abort(self, going: _Going, error: str) -> Reconcile[None]:
        """Give a node up, and those of its group that wait for it."""
        self._failed[going.group] = None
        waiting = self._queue.pop(going.group, [])
        yield from self._clean_up(going, error)
        for each in waiting:
            if each.name != going.name:
                yield from self._clean_up(each, _OTHERS_FAILED)

    def _clean_up(self, going: _Going, error: str) -> Reconcile[None]:
        what = "drain and delete node" if going.drained else "delete empty node"
        self._report(going.node, WARNING, "ScaleDownFailed", f"failed to {what}: {error}")
        yield from self._untaint(going.node)
        self._end(going)

    def _end(self, going: _Going) -> None:
        self.tracker.end(going.name)
        self._follow.ended()


def _obstacle(going: _Going, moves: Moves) -> str:
    """Return why a node must not go after all."""
    name = going.name
    if moves.blocking is not None and moves.verdict is not None:
        return f'GetPodsToMove for "{name}" returned error: {moves.verdict.message}'
    if going.drained:
        return ""
    if moves.pods:
        return f'failed to delete empty node "{name}", new pods scheduled'
    if moves.on_completion:
        return f'failed to delete empty node "{name}", active on-completion pods present'
    return ""


def _asks_to_wait(node: Node) -> bool:
    return any(note.startswith(_DELAY_DELETION) for note in node.metadata.annotations)


def _shown(used: Utilization | None) -> str:
    """Return a utilization as Go prints its struct."""
    if used is None:
        return "{}"
    shares = " ".join(shown_float(each) for each in (used.cpu, used.memory, used.gpu, 0.0))
    return f"{{{shares} {used.resource} {shown_float(used.value)}}}"
