"""The scheduling framework's vocabulary: statuses and extension points.

Upstream: kube-scheduler `framework/interface.go`. None stands for the Success status. A plugin
implements an extension point by deriving from its class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import attrs

from controlplane.scheduler.queue.events import ClusterEventWithHint

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.pod_info import PodInfo
    from controlplane.scheduler.framework.runtime import Framework
    from controlplane.scheduler.queue.nominator import NominatingInfo
    from controlplane.scheduler.queue.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.state.node_info import NodeInfo

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0


class Code(IntEnum):
    """Result codes, numbered as upstream numbers them."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6


_CODE_NAMES = (
    "Success",
    "Error",
    "Unschedulable",
    "UnschedulableAndUnresolvable",
    "Wait",
    "Skip",
    "Pending",
)
_REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@attrs.frozen
class Status:
    """A result other than success. `plugin` is who said so ("" when unknown)."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was refused (as opposed to an error, a wait or a skip)."""
        return self.code in _REJECTED

    @property
    def code_name(self) -> str:
        """The code as upstream prints it."""
        return _CODE_NAMES[self.code]

    @property
    def message(self) -> str:
        """The reasons, joined."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same status, said by `plugin`."""
        return self if self.plugin == plugin else attrs.evolve(self, plugin=plugin)


def unschedulable(*reasons: str) -> Status:
    """A rejection that removing other pods may undo."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that removing other pods cannot undo."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """An internal error."""
    return Status(Code.ERROR, reasons)


SKIP = Status(Code.SKIP)


class StatusError(Exception):
    """A status on its way up from a place that returns something else."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


@attrs.frozen
class PreFilterResult:
    """The nodes a PreFilter restricted the search to; None means all."""

    node_names: Mapping[str, None] | None = None
    """Names, as a dict used as an ordered set."""


@attrs.frozen
class PostFilterResult:
    """What a PostFilter did about an unschedulable pod."""

    nominating: NominatingInfo | None = None


class Plugin:
    """Base of every plugin. `args` arrives already defaulted and validated."""

    name: ClassVar[str] = ""

    @property
    def signs_no_pod(self) -> bool:
        """Whether `sign_pod` answers None for every pod."""
        return False

    def sign_pod(self, pod: Pod) -> Sequence[tuple[str, Hashable]] | None:
        """Fragments in which pods must agree to share results; None: the pod cannot share."""
        return None


class EnqueueExtensions(Plugin):
    """A plugin that says which events can make a pod it rejected schedulable."""

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Events with their hints."""
        raise NotImplementedError


class PreEnqueuePlugin(Plugin):
    """Decides whether a pod may enter the active queue at all."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """None lets the pod through."""
        raise NotImplementedError


class QueueSortPlugin(Plugin):
    """Orders the active queue."""

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Whether `a` goes first."""
        raise NotImplementedError


class PreFilterPlugin(Plugin):
    """Computes once per cycle what its Filter needs, or rejects the pod at once."""

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """The nodes to look at (None: all) and a status; SKIP leaves out this plugin's Filter."""
        raise NotImplementedError

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Whether PreFilter's answer and data follow from `pod.spec` alone: pods of one template share them."""
        return False


class PreFilterExtensions(Plugin):
    """Keeps a PreFilter's state right while pods are added to or removed from a node."""

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        """`added` is now on `node`."""
        raise NotImplementedError

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """`removed` is no longer on `node`."""
        raise NotImplementedError


class FilterPlugin(Plugin):
    """Decides whether a pod can run on a node."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """None: it can."""
        raise NotImplementedError


class PostFilterPlugin(Plugin):
    """Tries to help a pod that fits nowhere."""

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: Any
    ) -> tuple[PostFilterResult | None, Status | None]:
        """None as the status: something was done."""
        raise NotImplementedError


class PreScorePlugin(Plugin):
    """Computes once per cycle what its Score needs."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """SKIP leaves out this plugin's Score."""
        raise NotImplementedError

    def pre_score_by_spec(self, pod: Pod) -> bool:
        """Whether PreScore's answer and data follow from `pod.spec` alone: pods of one template share them."""
        return False


class ScorePlugin(Plugin):
    """Rates a feasible node."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A number; after normalisation it must be in 0..100. May raise StatusError."""
        raise NotImplementedError


class NormalizeScorePlugin(ScorePlugin):
    """A score plugin whose numbers are brought into 0..100 afterwards."""

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """Change `scores` (one per node) in place."""
        raise NotImplementedError


class ReservePlugin(Plugin):
    """Keeps state for a pod that has a node but is not bound yet."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Take what the pod needs."""
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give it back; must be idempotent."""
        raise NotImplementedError


class PermitPlugin(Plugin):
    """Can hold a pod back before it is bound."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, int]:
        """A status (WAIT holds the pod) and a timeout in nanoseconds."""
        raise NotImplementedError


@attrs.frozen
class ApiWrite:
    """A write a plugin wants made: an actor carries it out."""

    verb: str
    """create, update, patch or delete."""
    resource: str
    namespace: str
    name: str
    body: Any
    subresource: str = ""


class PreBindPlugin(Plugin):
    """Prepares a pod's binding with the API server."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """SKIP: this plugin has nothing to do for the pod."""
        raise NotImplementedError

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Sequence[ApiWrite]:
        """Writes to be made before the pod is bound. May raise StatusError."""
        raise NotImplementedError


class BindPlugin(Plugin):
    """Binds a pod to its node."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> ApiWrite | None:
        """The write that binds the pod; None leaves it to the next plugin."""
        raise NotImplementedError


class PostBindPlugin(Plugin):
    """Is told about a pod that was bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """No result."""
        raise NotImplementedError


class FrameworkAware(Plugin):
    """A plugin that runs other plugins of its profile; `framework` is set when it is built."""

    framework: Framework


EXTENSION_POINTS: Mapping[str, type[Plugin]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
    "permit": PermitPlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
}


class NodeToStatus:
    """Why nodes were refused: a status per examined node, one for all others.

    Statuses may be given lazily as a histogram-like mapping; reading behaves like a mapping.
    """

    __slots__ = ("absent", "statuses")

    def __init__(
        self, statuses: dict[str, Status] | None = None, absent: Status | None = None
    ) -> None:
        self.statuses: dict[str, Status] = {} if statuses is None else statuses
        self.absent = absent or Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def __len__(self) -> int:
        return len(self.statuses)

    def get(self, node: str) -> Status:
        """Status of the node."""
        return self.statuses.get(node, self.absent)

    def set(self, node: str, status: Status) -> None:
        """Record the status of the node."""
        self.statuses[node] = status

    def items(self) -> Iterable[tuple[str, Status]]:
        """Recorded statuses, in the order in which they were met."""
        return self.statuses.items()

    def with_code(self, code: Code) -> list[str]:
        """Nodes whose recorded status has exactly this code."""
        return [node for node, status in self.statuses.items() if status.code == code]

    def count_code(self, code: Code) -> int:
        """How many nodes have a recorded status with exactly this code."""
        return sum(1 for status in self.statuses.values() if status.code == code)

    def reason_counts(self) -> dict[str, int]:
        """How often each reason was given by a recorded status."""
        counts: dict[str, int] = {}
        for status in self.statuses.values():
            for reason in status.reasons:
                counts[reason] = counts.get(reason, 0) + 1
        return counts

    def refusals(self, limit: int) -> list[Refusal]:
        """Each recorded status once, with how many nodes have it and the names of the first `limit` of them."""
        nodes: dict[Status, list[str]] = {}
        for node, status in self.statuses.items():
            nodes.setdefault(status, []).append(node)
        return [Refusal(status, len(names), names[:limit]) for status, names in nodes.items()]


class Refusal(NamedTuple):
    """A status that `total` nodes were refused with; `nodes` names the first of them."""

    status: Status
    total: int
    nodes: list[str]
