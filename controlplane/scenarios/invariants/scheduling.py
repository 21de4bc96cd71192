"""Invariants of pods that wait for a node or are bound to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.engine.scenario import Invariant

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run

SCHEDULER = "scheduler"
CHOSEN_BY_USERS = "nodes that users chose"
"""Note: names of nodes on which users put pods themselves, past the scheduler."""


def pods(run: Run) -> dict[str, Any]:
    """The pods that exist, by name."""
    return {obj.name: obj.view for obj in run.objects("/registry/pods/")}


def events(run: Run, name: str) -> list[Any]:
    """The events of that name in the log; the scenario says `reads_log`."""
    return [event for event in run.world.log if event.event == name]


def _every_pod_is_bound(run: Run) -> str | None:
    waiting = [name for name, pod in pods(run).items() if not pod.spec.node_name]
    return f"{', '.join(waiting)} will never be bound" if waiting else None


def _no_bound_pod_is_queued(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    there = pods(run)
    for info in (*core.queue.backoff_q.error_heap, *core.queue.unschedulable):
        pod = there.get(info.pod.name)
        if pod is not None and pod.uid == info.uid and pod.spec.node_name:
            return f"{info.key} is bound, and tried for the {info.attempts + 1}th time"
    return None


def _queued_objects_are_the_latest(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    versions = {pod.uid: pod.resource_version for pod in pods(run).values()}
    for info in core.queue.unschedulable:
        if versions.get(info.uid) not in (None, info.pod.resource_version):
            return f"{info.key} is queued as it no longer is"
    return None


def _every_waiting_pod_is_queued(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    queue = core.queue
    heaps = (queue.active_q.heap, queue.backoff_q.heap, queue.backoff_q.error_heap)
    there = {info.uid for heap in (*heaps, queue.unschedulable) for info in heap}
    for name, pod in pods(run).items():
        if pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            continue  # a terminating pod is not scheduled
        if pod.uid not in there and not core.cache.is_assumed_pod(pod):
            return f"{name} waits for a node but is in no queue"
    return None


def _no_pod_is_taken_for_deleted(run: Run) -> str | None:
    for event in events(run, "scheduler.failed"):
        if event.data["outcome"] == "deleted":
            return f"{event.obj} was dropped: {event.data['note']}"
    return None


def _no_requeue_met_a_copy(run: Run) -> str | None:
    for event in events(run, "scheduler.failed"):
        note: str = event.data.get("note", "")
        if "already present" in note:
            return note
    return None


def _pop_sleeps_beside_a_poppable_pod(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    served = core.queue.metrics.queue_incoming_pods.get(("active", "BackoffComplete"), 0)
    return f"a pod served its backoff {served} times with nothing else to do" if served else None


def _the_scheduler_lives(run: Run) -> str | None:
    if not run.world.has_actor(SCHEDULER) or run.world.alive(SCHEDULER):  # else a program outside
        return None
    return "the scheduler has ended itself"


def _bound_pods_are_said_to_be_scheduled(run: Run) -> str | None:
    for name, pod in pods(run).items():
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                if pod.spec.node_name:
                    return f"{name} has a node, and its status says {condition.reason}"
    return None


def _nothing_is_promised_twice(run: Run) -> str | None:
    chosen = run.notes.get(CHOSEN_BY_USERS, {})
    for node in run.objects("/registry/minions/"):
        promised, room = _promised(run, node.name), _cpu_of(node)
        if promised > room and node.name not in chosen:
            return f"{promised}m of CPU are promised on {node.name}, which has {room}m"
    return None


def _room_is_used(run: Run) -> str | None:
    free = {
        node.name: _cpu_of(node) - _promised(run, node.name)
        for node in run.objects("/registry/minions/")
        if not _is_closed(node)
    }
    for name, pod in pods(run).items():
        spec = pod.spec
        if spec.node_name or spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
            continue
        if pod.labels.get("hold"):
            continue
        wanted = spec.node_selector.get("kubernetes.io/hostname", "")
        rooms = [
            node for node, room in free.items() if wanted in ("", node) and room >= cpu_of(pod)
        ]
        if rooms:
            return f"{name} waits although there is room on {rooms[0]}"
    return None


def _what_is_queued_waits(run: Run) -> str | None:
    from controlplane.api.resize_policy import resize_waits

    core = run.cluster.scheduler.core
    if core is None:
        return None
    queue, known = core.queue, {pod.uid: pod for pod in pods(run).values()}
    places = (queue.active_q.heap, queue.unschedulable)
    backing_off = (queue.backoff_q.heap, queue.backoff_q.error_heap)
    for info in (each for place in (*places, *backing_off) for each in place):
        pod = known.get(info.uid)
        if pod is not None and pod.spec.node_name and not resize_waits(pod):
            return f"{pod.key} is on {pod.spec.node_name}, waits for nothing and is queued"
    return None


def _no_promise_is_overlooked(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    for node in core.cache.nodes.values():
        for info in node.pods:
            promised = sum(
                each.allocated_resources["cpu"].milli_value()
                for each in info.pod.status.container_statuses
                if "cpu" in each.allocated_resources
            )
            counted = info.resource.resource.milli_cpu
            if counted < promised:
                return f"{info.pod.key} was promised {promised}m and counts for {counted}m"
    return None


def _free_room_is_left(run: Run) -> str | None:
    from controlplane.api.pod_resources import Options, pod_requests
    from controlplane.api.resize_policy import as_promised

    free = {node.name: _cpu_of(node) for node in run.objects("/registry/minions/")}
    everyone = pods(run).values()
    for pod in everyone:
        node = pod.spec.node_name
        if node in free and pod.status.phase not in ("Succeeded", "Failed"):
            has = pod_requests(as_promised(pod), Options(use_status=True)).get("cpu")
            free[node] -= 0 if has is None else has.milli_value()
    for pod in everyone:
        if not pod.spec.node_name and pod.metadata.deletion_timestamp is None:
            for node, room in free.items():
                if cpu_of(pod) <= room:
                    return f"{pod.key} waits for {cpu_of(pod)}m, and {room}m of {node} are free"
    return None


def _is_closed(node: Any) -> bool:
    spec = node.tree.get("spec") or {}
    hard = [t for t in spec.get("taints") or () if t.get("effect") != "PreferNoSchedule"]
    return bool(spec.get("unschedulable") or hard)


def cpu_of(pod: Any) -> int:
    """The CPU request of a pod, in millicores."""
    return sum(
        container.resources.requests["cpu"].milli_value()
        for container in pod.spec.containers
        if "cpu" in container.resources.requests
    )


def _promised(run: Run, node: str) -> int:
    return sum(
        cpu_of(pod)
        for pod in pods(run).values()
        if pod.spec.node_name == node and pod.status.phase not in ("Succeeded", "Failed")
    )


def _cpu_of(node: Any) -> int:
    from controlplane.api.quantity import parse

    allocatable = (node.tree.get("status") or {}).get("allocatable") or {}
    return parse(str(allocatable.get("cpu", "0"))).milli_value()


EVERY_POD_IS_BOUND = Invariant("every pod gets a node", _every_pod_is_bound)
NO_BOUND_POD_IS_QUEUED = Invariant("no bound pod is queued", _no_bound_pod_is_queued)
QUEUED_OBJECTS_ARE_THE_LATEST = Invariant(
    "what is queued is as the API server has it", _queued_objects_are_the_latest
)
EVERY_WAITING_POD_IS_QUEUED = Invariant(
    "a pod that waits is in a queue", _every_waiting_pod_is_queued
)
NO_POD_IS_TAKEN_FOR_DELETED = Invariant(
    "a pod that exists is not taken for deleted", _no_pod_is_taken_for_deleted
)
"""Of workloads that delete nothing."""
NO_REQUEUE_MET_A_COPY = Invariant("a pod is requeued once", _no_requeue_met_a_copy)
POP_TAKES_WHAT_MAY_BE_POPPED = Invariant(
    "Pop does not sleep while a pod may be popped", _pop_sleeps_beside_a_poppable_pod
)
THE_SCHEDULER_LIVES = Invariant("the scheduler does not end itself", _the_scheduler_lives)
BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED = Invariant(
    "bound means PodScheduled=True", _bound_pods_are_said_to_be_scheduled
)
NOTHING_IS_PROMISED_TWICE = Invariant("no node is overcommitted", _nothing_is_promised_twice)
ROOM_IS_USED = Invariant("no pod waits although there is room", _room_is_used)
"""By CPU, selectors and taints; of workloads whose pods ask for nothing else."""
WHAT_IS_QUEUED_WAITS = Invariant(
    "a pod on a node is queued while its resize waits", _what_is_queued_waits
)
NO_PROMISE_IS_OVERLOOKED = Invariant(
    "no pod counts for less than it was promised", _no_promise_is_overlooked, (SCHEDULER,)
)
FREE_ROOM_IS_USED = Invariant("no pod waits for room that is free", _free_room_is_left)
"""By CPU alone, as allocated by kubelets."""
