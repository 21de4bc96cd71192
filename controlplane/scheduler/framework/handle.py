"""Interfaces that a plugin can use besides its arguments.

Upstream: `Handle` of kube-scheduler `framework/interface.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import attrs

from controlplane.api.identity import uid
from controlplane.gates import FixGates
from controlplane.scheduler.columns.columns import Columns
from controlplane.scheduler.config.features import defaults
from controlplane.scheduler.dra.manager import DRAManager
from controlplane.scheduler.framework.cancellation import CancelContext
from controlplane.scheduler.framework.custom import NO_OBJECTS, CustomObjects
from controlplane.scheduler.framework.deferred_resize import GATE, DeferredPodSchedulingArgs
from controlplane.scheduler.state.listers import Listers
from controlplane.scheduler.state.pod_groups import PodGroupStates
from controlplane.scheduler.state.snapshot import Snapshot

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.usage import UsageSource
    from controlplane.scheduler.framework.preemption_task import PreemptionTask
    from controlplane.scheduler.framework.waiting import WaitingPod
    from controlplane.scheduler.framework.writes import EventIntent
    from controlplane.scheduler.state.pod_info import PodInfo


def _no_nominated_pods(_node: str) -> Sequence[PodInfo]:
    return ()


def _numbered() -> Callable[[], str]:
    numbers = count(1)
    return lambda: uid(next(numbers))


def keep_order(_kind: str, options: list[Any]) -> list[Any]:
    """The canonical answer to an order that upstream leaves to its maps or to chance."""
    return options


@attrs.define
class Handle:
    """Shared by all plugins of all profiles of one scheduler."""

    listers: Listers = attrs.Factory(Listers)
    snapshot: Snapshot = attrs.Factory(Snapshot)
    columns: Columns = attrs.Factory(lambda handle: Columns(handle.snapshot), takes_self=True)
    """The snapshot in columns, brought up to date at the start of every cycle."""
    features: Mapping[str, bool] = attrs.Factory(defaults)
    fixes: FixGates = attrs.Factory(FixGates)
    nominated_pods: Callable[[str], Sequence[PodInfo]] = _no_nominated_pods
    """Pods expected on the named node (the queue's nominator, once there is a queue)."""
    nominated_nodes: Callable[[], Sequence[str]] = tuple
    """Nodes with at least one such pod."""
    choose_order: Callable[[str, list[Any]], list[Any]] = keep_order
    choose_offset: Callable[[str, int], int] = lambda _kind, _n: 0
    """Return a number below n where upstream draws one at random; the default choice is 0."""

    waiting_pods: dict[str, WaitingPod] = attrs.Factory(dict)
    """Pods that Permit plugins hold back, by uid: a plugin may allow or reject them."""
    pod_groups: PodGroupStates = attrs.Factory(PodGroupStates)
    """Live state of the pod groups (the cache's, once there is one)."""
    activations: list[Pod] = attrs.Factory(list)
    """Pods that a Permit asked to make ready at once; who runs it carries that out."""
    context: CancelContext = attrs.Factory(CancelContext)
    """The scheduler's own context, from which operations derive theirs."""
    preemptions: list[PreemptionTask] = attrs.Factory(list)
    """Evictions that a PostFilter decided on; the scheduling loop carries them out."""

    dra: DRAManager = attrs.Factory(
        lambda handle: DRAManager(handle.listers, handle.feature), takes_self=True
    )
    """Claims, slices and classes of devices."""
    custom: CustomObjects = NO_OBJECTS
    """Objects of the custom kinds that plugins read (`Plugin.custom`)."""
    usage: UsageSource | None = None
    """Tells the usage of pods; without it their annotations do."""
    profiles: tuple[str, ...] = ()
    """The names of all profiles of the scheduler."""
    clock: Callable[[], int] = lambda: 0
    """Return the time, nanoseconds since the epoch."""
    new_uid: Callable[[], str] = attrs.Factory(_numbered)
    """Return a new unique id."""
    record: Callable[[EventIntent], None] = lambda _event: None
    """Record an event."""
    log: Callable[[str], None] = lambda _line: None
    """Log what upstream logs as an error."""
    held_back: Callable[[Pod, str, str], None] = lambda _pod, _plugin, _why: None
    """Log that a plugin holds a pod back before it is queued, and why."""

    deferred: DeferredPodSchedulingArgs = attrs.Factory(DeferredPodSchedulingArgs)
    """The form of preemption for resizes, where that is on."""

    @property
    def preempts_for_resizes(self) -> bool:
        """Return whether pods whose resize waits are scheduled, to make room for them (KEP-5836)."""
        return self.feature(GATE)

    def feature(self, name: str) -> bool:
        """Return whether a feature gate is on."""
        return self.features.get(name, False)
