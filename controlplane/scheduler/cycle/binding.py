"""After the choice: assume, reserve, permit, and the binding cycle.

Upstream: `pkg/scheduler/schedule_one.go` (assumeAndReserve, bindingCycle). In steps: cache, nominator,
plugins and queue have locks of their own.

Points: `scheduler.cycle.unnominate`, `scheduler.cycle.permit`, `scheduler.cycle.forget` (the cache
takes an assumption back) and `scheduler.bind.freed` (other pods hear of the freed room).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.decisions import Point, Steps
from controlplane.scheduler.cycle.attempt import Attempt, Failure, SchedulingError
from controlplane.scheduler.cycle.scheduling import single_node_failure
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.api_calls import StatusPatchCall
from controlplane.scheduler.framework.interface import (
    ApiWrite,
    CallingPreBindPlugin,
    Code,
    Status,
    StatusError,
)
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.framework.writes import EventIntent
from controlplane.scheduler.plugins.claim_cycle import resources_of_devices
from controlplane.scheduler.plugins.node_allocatable import with_statuses
from controlplane.scheduler.queue.scheduling_queue import PriorityQueue
from controlplane.scheduler.state.cache import Cache, CacheError
from controlplane.sharing.replacing import replaced

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.effects import Effects

_UNNOMINATE: Final = Point("scheduler.cycle.unnominate")
_PERMIT: Final = Point("scheduler.cycle.permit")
_ACTIVATE: Final = Point("scheduler.queue.activate")
_FORGET: Final = Point("scheduler.cycle.forget")
_FREED: Final = Point("scheduler.bind.freed")


def with_node_name(pod: Pod, node: str) -> Pod:
    """The same pod with spec.nodeName set (views and their trees are never changed in place)."""
    tree = {**pod.tree, "spec": {**(pod.tree.get("spec") or {}), "nodeName": node}}
    return replaced(pod, tree=tree, spec=replaced(pod.spec, node_name=node))


DELETED = "the pod was deleted while it was being scheduled"


def went_unnoticed(attempt: Attempt) -> bool:
    """Return whether the pod was deleted before it was assumed; only the form "rechecked" of 134157 asks.

    The handler of a deletion forgets an assumed pod. It finds nothing to forget when it runs between
    Pop and the assumption: in 1.36 the pod that is gone then takes its room until Permit, PreBind and
    Bind have had their time. No upstream issue reports that. Once a pod is assumed, the lister has it, and
    the handler is yet to come, or it has gone.
    """
    handle, pod = attempt.framework.handle, attempt.pod
    if handle.fixes.variant("134157") != "rechecked":
        return False
    known = handle.listers.pods.get(pod.namespace, pod.name)
    return known is None or known.uid != pod.uid or known.metadata.deletion_timestamp is not None


def assume(cache: Cache, queue: PriorityQueue, attempt: Attempt) -> Steps[None]:
    """Count the pod on its node before the API server knows; on an error sets `failure`."""
    assert attempt.result is not None
    pod = with_node_name(attempt.pod, attempt.result.node_name)
    if attempt.framework.handle.feature("DRANodeAllocatableResources"):
        pod = with_statuses(pod, resources_of_devices(attempt.state, attempt.node_name))
    attempt.info = attempt.info.for_assume(pod)
    try:
        cache.assume_pod(attempt.info.pod_info)
    except CacheError as failed:
        attempt.failure = Failure(Code.ERROR, SchedulingError(str(failed)))
        return
    if went_unnoticed(attempt):
        cache.forget_pod(pod)
        attempt.failure = Failure(Code.ERROR, SchedulingError(DELETED))
        return
    yield _UNNOMINATE
    queue.delete_nominated_pod_if_exists(pod)


def park(attempt: Attempt) -> None:
    """A resize that fits is not assumed: the pod is in the cache, and Permit holds it for its kubelet.

    That Reserve is left out as well is ours: how upstream's assumption copes with a pod that is in the
    cache was not seen (KEP-5836).
    """
    status, _ = attempt.framework.run_permit(attempt.state, attempt.pod, attempt.node_name)
    if status is not None:
        attempt.failure = single_node_failure(attempt, status)


def activated(queue: PriorityQueue | None, attempt: Attempt) -> Steps[None]:
    """Make the pods ready that Permit plugins have just asked for."""
    handle = attempt.framework.handle
    if handle.activations and queue is not None:
        pods, handle.activations = handle.activations, []
        yield _ACTIVATE
        yield from queue.activate(pods, attempt.state.now)


def reserve_and_permit(
    cache: Cache, attempt: Attempt, queue: PriorityQueue | None = None
) -> Effects[None]:
    """Run Reserve and Permit; a refusal undoes the assumption and sets `failure`."""
    framework, state = attempt.framework, attempt.state
    pod, node = attempt.pod, attempt.node_name
    status = framework.run_reserve(state, pod, node)
    if status is None:
        if framework.plugins.permit:
            yield _PERMIT
        status, attempt.waits = framework.run_permit(state, pod, node)
        yield from activated(queue, attempt)
        if status is None or status.code == Code.WAIT:
            return
    yield from release(cache, attempt)
    attempt.failure = single_node_failure(attempt, status)


def release(cache: Cache, attempt: Attempt, *, forgetting: bool = True) -> Effects[bool]:
    """Unreserve and forget; False when the pod was not forgotten."""
    yield from attempt.framework.run_unreserve(attempt.state, attempt.pod, attempt.node_name)
    if not forgetting:
        return False
    yield _FORGET
    try:
        cache.forget_pod(attempt.pod)
    except CacheError:
        return False
    return True


def pre_bind_pre_flight(attempt: Attempt) -> StatusPatchCall | None:
    """Ask whether PreBind has work; if so (or the pod waits) its nomination is published.

    A refusal sets `failure`. Without the feature gate upstream asks nothing and runs every PreBind; here those that
    have nothing to do are left out all the same, and nothing is published.
    """
    framework, pod = attempt.framework, attempt.pod
    status, busy = framework.run_pre_bind_pre_flight(attempt.state, pod, attempt.node_name)
    if status is not None:
        attempt.failure = Failure(Code.ERROR, SchedulingError(status.message))
        return None
    attempt.has_pre_bind_work = busy
    expects = framework.handle.feature("NominatedNodeNameForExpectation")
    if not expects or not (busy or attempt.waits):
        return None
    nominating = NominatingInfo(override=True, nominated_node_name=attempt.node_name)
    return StatusPatchCall(pod, None, nominating)


def permit_wait_over(queue: PriorityQueue, attempt: Attempt, status: Status | None) -> None:
    """The wait of WaitOnPermit ended (at once for pods that do not wait).

    On success the pod's flight ends, before PreBind and Bind (PR 129967); else sets `failure`.
    """
    if status is None:
        queue.end_cycle(attempt.popped_uid)
        return
    attempt.failure = single_node_failure(attempt, status)


def pre_bind(attempt: Attempt) -> list[tuple[str, ApiWrite]]:
    """Writes that PreBind plugins want made; on an error sets `failure`."""
    if not attempt.has_pre_bind_work:
        return []
    try:
        return attempt.framework.run_pre_bind(attempt.state, attempt.pod, attempt.node_name)
    except StatusError as failed:
        attempt.failure = _plain_failure(failed.status)
        return []


def calls_in_pre_bind(attempt: Attempt) -> bool:
    """Return whether a PreBind plugin with work for the pod makes requests of its own."""
    skipped = attempt.state.skip_pre_bind
    return any(
        isinstance(plugin, CallingPreBindPlugin) and plugin.name not in skipped
        for plugin in attempt.framework.plugins.pre_bind
    )


def pre_bind_calls(attempt: Attempt) -> Effects[None]:
    """The work of those PreBind plugins; on an error sets `failure`."""
    framework, state = attempt.framework, attempt.state
    status = yield from framework.run_pre_bind_calls(state, attempt.pod, attempt.node_name)
    if status is not None:
        attempt.failure = _plain_failure(status)


def bind(attempt: Attempt) -> ApiWrite | None:
    """The write that binds the pod; when no plugin wants to bind it, sets `failure`."""
    write = attempt.framework.run_bind(attempt.state, attempt.pod, attempt.node_name)
    if write is None:
        attempt.failure = Failure(Code.ERROR, SchedulingError("binding rejected: skip"))
    return write


def finished(cache: Cache, queue: PriorityQueue, attempt: Attempt, now: int) -> None:
    """The bind call succeeded. Only needed where `Cache.expires` or fix 141645 is in force."""
    cache.finish_binding(attempt.pod, now)
    queue.done(attempt.popped_uid)


def bound(attempt: Attempt) -> EventIntent:
    """The pod is bound: tell PostBind plugins; the event to record."""
    pod, node = attempt.pod, attempt.node_name
    attempt.framework.run_post_bind(attempt.state, pod, node)
    note = f"Successfully assigned {pod.key} to {node}"
    return EventIntent(pod, "Normal", "Scheduled", "Binding", note)


def bind_error(attempt: Attempt, plugin: str, message: str) -> None:
    """A write of `plugin` failed with `message`: sets `failure`."""
    text = f'running Bind plugin "{plugin}": {message}'
    attempt.failure = Failure(Code.ERROR, SchedulingError(text))


def _plain_failure(status: Status) -> Failure:
    # A rejection by PreBind is no FitError: it names no rejector, so the pod takes the error
    # path although its condition says Unschedulable (D5).
    return Failure(status.code, SchedulingError(status.message))


def undo(cache: Cache, queue: PriorityQueue, attempt: Attempt, now: int) -> Effects[bool]:
    """A binding cycle failed: give everything back.

    Answers whether `after_failure` has to follow the failure handler. For an error other pods
    hear of the freed room at once; for a rejection only after the pod itself is back in the
    queue, so that the event is not counted for it.

    Gate 28886 (issues 26043, 28883). Unfixed, the cache goes on counting the pod on the node, and no
    later attempt can assume it. Fixed, it is forgotten.
    """
    failure = attempt.failure
    assert failure is not None
    forgetting = attempt.framework.handle.fixes.fixed("28886")
    forgotten = yield from release(cache, attempt, forgetting=forgetting)
    if not forgotten:
        return False
    if failure.is_rejected:
        return True
    yield _FREED
    yield from queue.move_all_to_active_or_backoff_queue(
        ev.ASSIGNED_POD_DELETE, attempt.pod, None, now
    )
    return False


def after_failure(queue: PriorityQueue, assumed: Pod, now: int) -> Steps[None]:
    """The deferred part of `undo`: other pods hear that a rejected pod gives its room back.

    Args:
        queue: the scheduling queue.
        assumed: the pod with the node that it was assumed on. The failure handler puts the informer's pod, which has
            none, into the attempt, and the deletion of a pod without a node wakes no pod.
        now: the time (ns).
    """
    yield from queue.move_all_to_active_or_backoff_queue(
        ev.ASSIGNED_POD_DELETE, assumed, None, now, lambda pod: pod.uid != assumed.uid
    )
