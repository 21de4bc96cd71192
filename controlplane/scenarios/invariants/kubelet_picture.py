"""The parts of a kubelet agree with each other, at once or soon, and with what it was told.

Between an update of a pod and what comes of it stand the sync loop, the pod's worker, the probes and the queue of
resizes. Each rule says of what it sees how long that may last, in virtual time, and that nothing of it may last
once the run has settled. It compares with what the kubelet has heard and not with the API server, so it holds
whatever the network does.

Upstream: pkg/kubelet/pod_workers.go (UpdatePod), kubelet.go (HandlePodCleanups), allocation/allocation_manager.go
(podsWithPendingResizes) and prober/worker.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from controlplane.api.times import SECOND, parse_time
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.pod_lives import resize_fits
from controlplane.scenarios.invariants.views import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controlplane.api.pod import Pod
    from controlplane.kubelet.loops.host import Host
    from controlplane.kubelet.loops.process import Process
    from controlplane.kubelet.pod.container_runtime import Program
    from controlplane.scenarios.engine.run import Run

    Wrong = Iterator[tuple[str, str]]

__all__ = [
    "KUBELET_RULES",
    "PROBE_RULES",
    "KubeletRule",
    "Seen",
    "kubelet_picture",
    "terminates_at_once",
]

_LOOK: Final = "the last look at a kubelet"
MOMENT: Final = 3 * SECOND
"""Longer than a period of housekeeping."""
PROBED: Final = 12 * SECOND
"""Longer than the first delay and the threshold of any probe of the churn, with one period more."""
STOPPED: Final = 50 * SECOND
"""Longer than any grace period of the churn, with the sync before and the one behind it."""
BLOCKED: Final = 50 * SECOND
"""Longer than the sync loop waits for a pod that is killed, and longer than an outage of the churn."""


@frozen
class Seen:
    """A kubelet that runs, its machine, and the time in nanoseconds since the epoch."""

    process: Process
    host: Host
    now: int
    found: dict[str, list[_Probed]] = field(factory=dict)
    """Values that several rules use, computed at most once."""

    def running(self, uid: str) -> dict[str, str]:
        """The running containers of a pod by name, each with its id."""
        sandbox = self.host.sandboxes.get(uid)
        return {} if sandbox is None else {c.name: c.container_id for c in sandbox.running()}


@frozen
class KubeletRule:
    """`wrong` gives what is wrong now, by what identifies it; none of it may be wrong for longer than `lasts`."""

    name: str
    wrong: Callable[[Seen], Wrong]
    lasts: int = MOMENT


def _has_ended(process: Process, pod: Pod) -> bool:
    told = process.shared.statuses.get(pod.uid) or {}
    return pod.status.phase in ENDED or told.get("phase") in ENDED


def _deferred(seen: Seen) -> Iterator[tuple[str, Pod]]:
    """The pods with a deferred resize that go on."""
    conditions, workers = seen.process.resources.allocation.conditions, seen.process.workers
    for uid, pod in seen.process.shared.pods.items():
        waits, worker = conditions.pending(uid), workers.get(uid)
        if waits is None or waits.reason != "Deferred" or worker is None or worker.terminating:
            continue
        yield uid, pod


def _deferred_resizes_are_forgotten(seen: Seen) -> Wrong:
    resources = seen.process.resources
    allocation = resources.allocation
    for uid, pod in _deferred(seen):
        if not allocation.differs(pod):
            continue
        if uid not in allocation.pending:
            yield uid, f"the resize of {pod.key} is deferred, and not queued"
        elif resources.retry_at is None and not resources.mutex.held:
            yield uid, f"the resize of {pod.key} is deferred, and no retry is due"


def _room_for_resizes_is_left(seen: Seen) -> Wrong:
    promises = seen.host.promises
    for uid, pod in _deferred(seen):
        if promises is not None and resize_fits(pod, *promises()):
            yield uid, f"the resize of {pod.key} is deferred, and fits"


def _resizes_wait_for_nothing(seen: Seen) -> Wrong:
    allocation = seen.process.resources.allocation
    if seen.process.shared.ctx.incarnation > 1:  # a predecessor's condition is taken over as it is
        return
    for uid, pod in seen.process.shared.pods.items():
        if allocation.conditions.pending(uid) is not None and not allocation.differs(pod):
            yield uid, f"a resize of {pod.key} is pending, and it has what it asks for"


def _statuses_are_kept_back(seen: Seen) -> Wrong:
    shared = seen.process.shared
    for each in shared.statuses.unsent():
        if each.uid in shared.pods and not shared.pods.awaits_mirror(each.uid):
            which = f"{each.uid} {each.version}"
            yield which, f"the status of {each.namespace}/{each.name} has changed, and is not sent"


def _done_resizes_are_in_progress(seen: Seen) -> Wrong:
    from controlplane.kubelet.allocation.actuation import in_progress

    resources = seen.process.resources
    for uid, pod in seen.process.shared.pods.items():
        worker = seen.process.workers.get(uid)
        if worker is None or worker.terminating:
            continue
        if resources.allocation.conditions.in_progress(uid) is None:
            continue
        running = seen.running(uid)
        if not running:  # a pod that does not get on with its start is not looked at again
            continue
        allocated = resources.allocation.allocated_pod(pod)
        actuated = resources.resizing.actuated.get(uid)
        if not in_progress(allocated, actuated, running.__contains__, resources.settings.features):
            yield uid, f"the resize of {pod.key} is done, and said to be in progress"


def _wanted_pods_have_no_worker(seen: Seen) -> Wrong:
    for uid, pod in seen.process.shared.pods.items():
        if seen.process.workers.get(uid) is None and not _has_ended(seen.process, pod):
            yield uid, f"{pod.key} is wanted on the node, and has no worker"


def _is_deleted(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _unwanted_pods_go_on(seen: Seen) -> Wrong:
    shared, workers = seen.process.shared, seen.process.workers
    if not shared.sources_ready():
        return
    for uid in workers.uids():
        worker = workers.get(uid)
        if worker is not None and uid not in shared.pods and not worker.terminating:
            yield uid, f"{worker.pod.key} is gone, and its worker goes on"
    for uid in seen.host.sandboxes:
        if uid not in shared.pods and workers.get(uid) is None and seen.running(uid):
            yield uid, f"pod {uid} is gone and has no worker, and its containers run"


# -- probes -----------------------------------------------------------------------------------


@frozen
class _Probed:
    """A probe of a container that runs, as the status manager tells of it, since `since`."""

    pod: Pod
    kind: str
    container: str
    container_id: str
    since: int
    started: bool
    period: int
    successes: int
    failures: int
    delay: int
    program: Program

    def answers(self, now: int) -> bool:
        """Return what the program answers now."""
        return self.program.answers(self.kind, now - self.since)

    def may_have_found(self, found: bool, now: int) -> bool:
        """Return whether enough looks in a row can have found this by now, in this very container."""
        if self.answers(now) is not found:
            return False
        begins = self.program.changes(self.kind) or 0
        looks = self.successes if found else self.failures
        return now - self.since >= max(begins, self.delay) + (looks - 1) * self.period


def _probes(seen: Seen) -> list[_Probed]:
    if "probes" not in seen.found:
        seen.found["probes"] = list(_all_probes(seen))
    return seen.found["probes"]


def _all_probes(seen: Seen) -> Iterator[_Probed]:
    from controlplane.kubelet.pod.prober import probes_of

    for uid in seen.process.workers.uids():
        worker = seen.process.workers.get(uid)
        if worker is None or worker.terminating:
            continue
        found = probes_of(worker.pod)
        if not found:
            continue
        running = seen.running(uid)
        status = seen.process.shared.statuses.get(uid) or {}
        told = {each["name"]: each for each in status.get("containerStatuses") or ()}
        for kind, container, probe in found:
            known = told.get(container.name) or {}
            state = (known.get("state") or {}).get("running")
            if state is None or known.get("containerID") != running.get(container.name):
                continue
            yield _Probed(
                worker.pod,
                kind,
                container.name,
                known["containerID"],
                parse_time(state["startedAt"]),
                bool(known.get("started")),
                (probe.period_seconds or 10) * SECOND,
                max(1, probe.success_threshold),
                probe.failure_threshold or 3,
                probe.initial_delay_seconds * SECOND,
                worker.sandbox.containers[container.name].program,
            )


_FIRST: Final = {"startup": None, "readiness": False, "liveness": True}


def _probes_are_believed_early(seen: Seen) -> Wrong:
    results = seen.process.workers.probers.results
    for each in _probes(seen):
        found = results.get(each.kind, each.container_id)
        if found is None or found is _FIRST[each.kind]:
            continue
        if not each.may_have_found(found, seen.now):
            told = "succeeded" if found else "failed"
            where = f"{each.container} of {each.pod.key}"
            yield where, f"the {each.kind} probe of {where} counts as {told}, and has not yet"


def _probes_find_nothing(seen: Seen) -> Wrong:
    results = seen.process.workers.probers.results
    for each in _probes(seen):
        if each.kind != "startup" and not each.started:
            continue
        wanted = each.answers(seen.now)
        if each.kind == "startup" and each.started:
            continue
        found = results.get(each.kind, each.container_id)
        if found is not wanted and seen.now - each.since >= each.delay:
            told = "succeeds" if wanted else "fails"
            where = f"{each.container} of {each.pod.key}"
            yield where + each.container_id, f"the {each.kind} probe of {where} {told}, unnoticed"


def _unhealthy_containers_run_on(seen: Seen) -> Wrong:
    results = seen.process.workers.probers.results
    for each in _probes(seen):
        if each.kind != "readiness" and results.get(each.kind, each.container_id) is False:
            where = f"{each.container} of {each.pod.key}"
            yield where + each.container_id, f"{where} failed its {each.kind} probe, and runs on"


KUBELET_RULES: Final = (
    KubeletRule("a deferred resize is tried again", _deferred_resizes_are_forgotten),
    KubeletRule("room for a deferred resize is used", _room_for_resizes_is_left, BLOCKED),
    KubeletRule("a resize that is pending is wanted", _resizes_wait_for_nothing),
    KubeletRule("a status that has changed is sent", _statuses_are_kept_back, BLOCKED),
    KubeletRule("a resize that is done is not in progress", _done_resizes_are_in_progress, BLOCKED),
    KubeletRule("a pod that is wanted has a worker", _wanted_pods_have_no_worker, BLOCKED),
    KubeletRule("a pod that is gone is stopped", _unwanted_pods_go_on, BLOCKED),
)
"""Rules of every kubelet."""
PROBE_RULES: Final = (
    KubeletRule(
        "a probe counts when it has found the same often enough", _probes_are_believed_early, 0
    ),
    KubeletRule("what a probe finds is noticed", _probes_find_nothing, PROBED),
    KubeletRule("an unhealthy container is stopped", _unhealthy_containers_run_on, STOPPED),
)
"""Rules of kubelets whose pods have probes."""


def kubelet_picture(node: str, *rules: KubeletRule) -> tuple[Invariant, ...]:
    """The rules as invariants of a node's kubelet: while it runs, and once the run has settled."""
    found = []
    for rule in rules:
        watch = _Watch(rule, node)
        found.append(Invariant(rule.name, watch.check, (node,), looks_at=watch.looks_at))
        found.append(Invariant(f"{rule.name}, in the end", watch.check_in_the_end))
    return tuple(found)


@frozen
class _Watch:
    """Asks a rule, once in each instant, and remembers since when what is wrong has been wrong."""

    rule: KubeletRule
    node: str

    def looks_at(self, run: Run) -> object:
        return run.world.now, run.cluster.machines[self.node].process

    def check(self, run: Run) -> str | None:
        seen = _look(run, self.node)
        if seen is None:
            return None
        now, key = run.world.now, f"{self.node}: {self.rule.name}"
        process, since = run.notes.get(key, (None, {}))
        if process is not seen.process:
            since = {}
        found = dict(self.rule.wrong(seen))
        first = {which: since.get(which, now) for which in found}
        run.notes[key] = (seen.process, first)
        for which, what in found.items():
            if now - first[which] > self.rule.lasts or not self.rule.lasts:
                return f"{self.node}: {what}, for {(now - first[which]) / SECOND:g} s"
        return None

    def check_in_the_end(self, run: Run) -> str | None:
        seen = _look(run, self.node)
        if seen is None:
            return None
        found = next((what for _, what in self.rule.wrong(seen)), None)
        return None if found is None else f"{self.node}: {found}"


def _look(run: Run, node: str) -> Seen | None:
    host = run.cluster.machines[node]
    if host.process is None or not run.world.alive(node):
        return None
    step, seen = run.notes.get(f"{_LOOK} {node}", (-1, None))
    if step != run.world.steps or seen.process is not host.process:
        seen = Seen(host.process, host, run.cluster.config.epoch_ns + run.world.now)
        run.notes[f"{_LOOK} {node}"] = (run.world.steps, seen)
    found: Seen = seen
    return found


def terminates_at_once(node: str) -> Invariant:
    """A worker that has taken a deletion of its pod is terminating, whatever it was at.

    Upstream: UpdatePod of pkg/kubelet/pod_workers.go marks the pod and cancels the sync under way.
    """

    def check(run: Run) -> str | None:
        seen = _look(run, node)
        if seen is None:
            return None
        workers = seen.process.workers
        for uid in workers.uids():
            worker = workers.get(uid)
            if worker is None or worker.terminating or worker.told is None:
                continue
            if _is_deleted(worker.told):
                return f"{node}: the worker of {worker.pod.key} knows of its deletion, and syncs"
        return None

    return Invariant("a pod that is to go is terminated at once", check, (node,))
