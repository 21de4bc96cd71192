"""The scheduling framework's vocabulary: statuses and extension points.

Upstream: kube-scheduler `framework/interface.go`. None stands for the Success status. A plugin
implements an extension point by deriving from its class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import attrs

from controlplane.scheduler.framework.events import ClusterEventWithHint
from controlplane.scheduler.framework.status import (
    SKIP,
    Code,
    NodeToStatus,
    Refusal,
    Status,
    StatusError,
    error,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.framework.writes import ApiWrite

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.rows import Rows
    from controlplane.scheduler.framework.custom import CustomKind
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.nominating import NominatingInfo
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.framework.signers import Fragments
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

__all__ = [
    "EXTENSION_POINTS",
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "SKIP",
    "ApiWrite",
    "BindPlugin",
    "CallingPostFilterPlugin",
    "CallingPreBindPlugin",
    "CallingReservePlugin",
    "Code",
    "EnqueueExtensions",
    "FilterPlugin",
    "Filters",
    "NodeToStatus",
    "NormalizeScorePlugin",
    "PermitPlugin",
    "Plugin",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "Refusal",
    "ReservePlugin",
    "ScorePlugin",
    "Status",
    "StatusError",
    "SteppedPreFilterPlugin",
    "WaitingPreBindPlugin",
    "error",
    "unresolvable",
    "unschedulable",
]

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0


@attrs.frozen
class PreFilterResult:
    """The nodes a PreFilter restricted the search to; None means all."""

    node_names: Mapping[str, None] | None = None
    """Names, as a dict used as an ordered set."""


@attrs.frozen
class PostFilterResult:
    """The action of a PostFilter for an unschedulable pod."""

    nominating: NominatingInfo | None = None


class Plugin:
    """Base of every plugin. `args` arrives already defaulted and validated."""

    name: ClassVar[str] = ""
    reads: tuple[str, ...] = ()
    """Listers it needs besides those of pods and nodes, by their names in `Listers`; only those are filled."""
    custom: tuple[CustomKind, ...] = ()
    """Custom kinds that it reads from `Handle.custom`; only those have caches."""
    pod_labels: tuple[str, ...] = ()
    """Labels by which it looks pods up (`Lister.labelled`)."""
    activates: bool = False
    """It has pods made ready in the cycle's state (`PODS_TO_ACTIVATE`)."""

    @property
    def signs_no_pod(self) -> bool:
        """Return whether `sign_pod` answers None for every pod."""
        return False

    def sign_pod(self, pod: Pod) -> Fragments | Status | None:
        """Fragments in which pods must agree to share results, or why the pod cannot share.

        None (the plugin signs nothing): with such a plugin among those that filter or score, no pod shares.
        """
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
        """Return whether `a` goes first."""
        raise NotImplementedError


class PreFilterPlugin(Plugin):
    """Computes once per cycle what its Filter needs, or rejects the pod at once."""

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """The nodes to look at (None: all) and a status; SKIP leaves out this plugin's Filter."""
        raise NotImplementedError

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Return whether PreFilter's answer and data follow from `pod.spec` alone: pods of one template share them."""
        return False


class SteppedPreFilterPlugin(PreFilterPlugin):
    """A PreFilter during which others may change what it reads."""

    def pre_filter_steps(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> Effects[tuple[PreFilterResult | None, Status | None]]:
        """As `pre_filter`, in steps."""
        raise NotImplementedError


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


class Filters(Protocol):
    """The filters of a profile, for plugins that try what would fit if pods were elsewhere."""

    @property
    def handle(self) -> Handle:
        """Return the interfaces that the plugins of the profile can use."""

    def keeps_track(self, state: CycleState) -> bool:
        """Return whether a PreFilter of this cycle follows pods that are added to or removed from nodes."""

    def follow_spec(self, state: CycleState) -> bool:
        """Return whether the answers of the filters of this cycle follow from the pod's spec and the node alone."""

    def ended_before(self, state: CycleState, name: str) -> bool:
        """Return whether a PreFilter refused the pod before the one of this name was asked."""

    def run_add_pod(
        self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Tell the PreFilters that a pod was put on a node."""

    def run_remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Tell the PreFilters that a pod was taken off a node."""

    def run_filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Ask the filters in order; the first that refuses decides."""

    def run_filter_with_nominated_pods(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        """Filter with pods nominated to the node counted in, then also without them."""


class PostFilterPlugin(Plugin):
    """Tries to help a pod that fits nowhere."""

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> tuple[PostFilterResult | None, Status | None]:
        """None as the status: something was done. `filters` answers what-ifs."""
        raise NotImplementedError


class CallingPostFilterPlugin(PostFilterPlugin):
    """A PostFilter that makes requests to the API server."""

    def post_filter_calls(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> Effects[tuple[PostFilterResult | None, Status | None]]:
        """As `post_filter`, in steps."""
        raise NotImplementedError


class PreScorePlugin(Plugin):
    """Computes once per cycle what its Score needs."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """`nodes` is a sequence of the feasible ones. SKIP leaves out this plugin's Score."""
        raise NotImplementedError

    def pre_score_by_spec(self, pod: Pod) -> bool:
        """Return whether PreScore's answer and data follow from `pod.spec` alone: pods of one template share them."""
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


class CallingReservePlugin(ReservePlugin):
    """A Reserve plugin whose Unreserve makes requests to the API server."""

    def unreserve_calls(self, state: CycleState, pod: Pod, node_name: str) -> Effects[None]:
        """As `unreserve`, in steps."""
        raise NotImplementedError


class PermitPlugin(Plugin):
    """Can hold a pod back before it is bound."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, int]:
        """A status (WAIT holds the pod) and a timeout in nanoseconds."""
        raise NotImplementedError


class PreBindPlugin(Plugin):
    """Prepares a pod's binding with the API server."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """SKIP: this plugin has nothing to do for the pod."""
        raise NotImplementedError

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Sequence[ApiWrite]:
        """Writes to be made before the pod is bound. May raise StatusError."""
        raise NotImplementedError


class WaitingPreBindPlugin(PreBindPlugin):
    """A PreBind whose work goes on after its writes were made: it is asked every second whether it is done."""

    @property
    def bind_timeout(self) -> int:
        """For how long to wait at most, nanoseconds."""
        raise NotImplementedError

    def is_bound(self, state: CycleState, pod: Pod, node_name: str) -> bool:
        """Return whether the binding is complete. Raises StatusError when it became impossible."""
        raise NotImplementedError


class CallingPreBindPlugin(PreBindPlugin):
    """A PreBind that needs the answers of its requests, or waits."""

    def pre_bind_calls(self, state: CycleState, pod: Pod, node_name: str) -> Effects[Status | None]:
        """All of its work, in steps; `pre_bind` of such a plugin is not asked."""
        raise NotImplementedError


class BindPlugin(Plugin):
    """Binds a pod to its node."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> ApiWrite | None:
        """The write that binds the pod; None leaves it to the next plugin."""
        raise NotImplementedError


class PostBindPlugin(Plugin):
    """Notified of a pod that was bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """No result."""
        raise NotImplementedError


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
