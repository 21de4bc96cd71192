"""The status that a kubelet reports about a pod: phase, conditions, containers.

Upstream: pkg/kubelet/kubelet_pods.go (getPhase, generateAPIPodStatus) and pkg/kubelet/status
(generate.go). Values only: what is observed comes in as `ContainerReport`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import compute_qos
from controlplane.api.times import SECOND, format_time
from controlplane.api.tree import Tree
from controlplane.kubelet.pod.container_runtime import Exit
from controlplane.sharing.alike import KEPT, alike, alike_list, is_shared
from controlplane.sharing.compact import compact
from controlplane.sharing.memory import Memory

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL: Final = (SUCCEEDED, FAILED)

INIT: Final = "init"
SIDECAR: Final = "sidecar"
APP: Final = "app"
EPHEMERAL: Final = "ephemeral"
"""A container that was added to debug a running pod: it starts once, and counts for nothing else."""

READY_TO_START: Final = "PodReadyToStartContainers"
INITIALIZED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
SCHEDULED: Final = "PodScheduled"
RESIZE_CONDITIONS: Final = (
    "PodResizePending", "PodResizeInProgress", "PodResizePreemptionDisabled",
)  # fmt: skip
OWN_CONDITIONS: Final = (
    READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED, *RESIZE_CONDITIONS,
)  # fmt: skip


@attrs.frozen
class ContainerReport:
    """The kubelet's knowledge of a container: running, ended or waiting for `waiting` reason."""

    name: str
    image: str
    role: str = APP
    running_since: int | None = None
    exit: Exit | None = None
    previous: Exit | None = None
    waiting: str = ""
    waiting_message: str = ""
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    container_id: str = ""
    image_id: str = ""
    may_restart: bool = False
    """The container would be started again after its last end."""
    resources: Tree | None = None
    """Its actual resources; the allocated ones of a container that does not run."""
    allocated: Tree | None = None
    """Its allocated resources."""
    devices: tuple[Tree, ...] = ()
    """The devices of its claims, as its status tells of them."""

    @property
    def done(self) -> bool:
        """Return whether a regular init container has done its work."""
        return self.exit is not None and self.exit.exit_code == 0


@attrs.frozen(cache_hash=True)
class Condition:
    """A condition before it has a transition time."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


_STARTS: Final = Condition(READY_TO_START, "True")
_STARTS_NOT: Final = Condition(READY_TO_START, "False")
_PLACED: Final = Condition(SCHEDULED, "True")
_INITIALIZED: Final = Condition(INITIALIZED, "True")
_ALL_READY: Final = Condition(CONTAINERS_READY, "True")
_IS_READY: Final = Condition(READY, "True")


def phase(reports: Sequence[ContainerReport], *, terminating: bool = False) -> str:
    """The phase that the containers add up to; `terminating` when nothing is started any more."""
    pending_init = failed_init = pending_sidecar = 0
    for item in reports:
        if item.role == INIT:
            ended = item.exit or (item.previous if item.waiting else None)
            if ended is not None and ended.exit_code != 0 and not item.may_restart:
                failed_init += 1
            elif not item.done and (item.running_since is not None or ended is None):
                pending_init += 1
        elif item.role == SIDECAR and item.exit is None and not item.started:
            pending_sidecar += 1
    apps = [item for item in reports if item.role == APP]
    if failed_init:
        return FAILED
    any_started = any(
        item.running_since is not None or item.exit is not None or item.previous is not None
        for item in apps
    )
    if pending_init or (pending_sidecar and not any_started):
        return PENDING
    running = sum(item.running_since is not None for item in apps)
    stopped = [item for item in apps if _stopped(item)]
    waiting = len(apps) - running - len(stopped)
    succeeded = sum(item.exit is not None and item.exit.exit_code == 0 for item in stopped)
    if waiting:
        return PENDING
    if running:
        return RUNNING
    if not stopped:
        return PENDING
    if not terminating and any(item.may_restart for item in stopped):
        return RUNNING
    return SUCCEEDED if succeeded == len(stopped) else FAILED


def _stopped(item: ContainerReport) -> bool:
    """Ended, or waiting to run again."""
    return item.running_since is None and (item.exit is not None or item.previous is not None)


def conditions(
    pod: Pod, reports: Sequence[ContainerReport], phase: str, *, sandbox_ready: bool
) -> list[Condition]:
    """The kubelet's own conditions, in upstream's order."""
    containers_ready = _containers_ready(reports, phase)
    return [
        _STARTS if sandbox_ready else _STARTS_NOT,
        _initialized(reports, phase),
        _ready(pod, containers_ready),
        containers_ready,
        _PLACED,
    ]


def _listed(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"


def _initialized(reports: Sequence[ContainerReport], phase: str) -> Condition:
    incomplete = [
        item.name
        for item in reports
        if (item.role == INIT and not item.done) or (item.role == SIDECAR and not item.started)
    ]
    if phase == SUCCEEDED:
        return Condition(INITIALIZED, "True", "PodCompleted")
    started = any(
        item.running_since is not None or item.exit is not None or item.previous is not None
        for item in reports
        if item.role == APP
    )
    if started or not incomplete:
        return _INITIALIZED
    message = f"containers with incomplete status: {_listed(incomplete)}"
    return Condition(INITIALIZED, "False", "ContainersNotInitialized", message)


def _containers_ready(reports: Sequence[ContainerReport], phase: str) -> Condition:
    if phase == SUCCEEDED:
        return Condition(CONTAINERS_READY, "False", "PodCompleted")
    if phase == FAILED:
        return Condition(CONTAINERS_READY, "False", "PodFailed")
    unready = [
        item.name for item in reports if item.role not in (INIT, EPHEMERAL) and not item.ready
    ]
    if unready:
        message = f"containers with unready status: {_listed(unready)}"
        return Condition(CONTAINERS_READY, "False", "ContainersNotReady", message)
    return _ALL_READY


def _ready(pod: Pod, containers: Condition) -> Condition:
    if containers.status != "True":
        return attrs.evolve(containers, type=READY)
    known = {item.type: item.status for item in pod.status.conditions}
    problems = []
    for gate in pod.spec.readiness_gates:
        status = known.get(gate.condition_type)
        if status is None:
            problems.append(
                f'corresponding condition of pod readiness gate "{gate.condition_type}" '
                "does not exist."
            )
        elif status != "True":
            problems.append(
                f'the status of pod readiness gate "{gate.condition_type}" is not "True", '
                f"but {status}"
            )
    if problems:
        return Condition(READY, "False", "ReadinessGatesNotReady", ", ".join(problems))
    return _IS_READY


def stamped(
    found: Sequence[Condition], before: list[Tree], generation: int, now: int
) -> list[Tree]:
    """Conditions as trees: the transition time moves only when the status changes.

    Conditions of others in `before` are kept as they are. Pods that share what they had and say the same within one
    second share the outcome.
    """
    if before and not is_shared(before):
        return _stamped(found, before, generation, now)
    key = (id(before) if before else 0, tuple(found), generation, now // SECOND)
    known = _stamps.known.get(key)
    if known is None:
        known = _stamps.keep(key, (before, _stamped(found, before, generation, now)))
    return known[1]


_stamps: Final[Memory[tuple[Any, ...], tuple[list[Tree], list[Tree]]]] = Memory(
    "conditions as trees", KEPT
)
"""By the identity of what was before, which an entry keeps alive, and by what is said when."""


def _stamped(
    found: Sequence[Condition], before: list[Tree], generation: int, now: int
) -> list[Tree]:
    known = {item["type"]: item for item in before}
    trees: list[Tree] = []
    for item in found:
        old = known.get(item.type)
        same = old is not None and old.get("status") == item.status
        since = old["lastTransitionTime"] if same and old is not None else format_time(now)
        tree: Tree = {
            "type": item.type,
            "status": item.status,
            "lastProbeTime": None,
            "lastTransitionTime": since,
        }
        if generation:
            tree["observedGeneration"] = generation
        if item.reason:
            tree["reason"] = item.reason
        if item.message:
            tree["message"] = item.message
        trees.append(alike(tree))
    own = {item["type"] for item in trees}
    return alike_list([*(item for item in before if item["type"] not in own), *trees])


def container_status(report: ContainerReport) -> Tree:
    """The status tree of one container."""
    tree: Tree = {
        "name": report.name,
        "state": alike(_state(report)),
        "lastState": alike({"terminated": _terminated(report.previous)} if report.previous else {}),
        "ready": report.ready or (report.role == INIT and report.done),
        "restartCount": report.restart_count,
        "image": report.image,
        "imageID": report.image_id,
    }
    if report.role != EPHEMERAL:
        tree["started"] = report.started and report.running_since is not None
    if report.container_id:
        tree["containerID"] = report.container_id
    if report.resources:
        tree["resources"] = alike(report.resources)
    if report.allocated and report.allocated.get("requests"):
        tree["allocatedResources"] = alike(report.allocated["requests"])
    if report.devices:
        tree["allocatedResourcesStatus"] = list(report.devices)
    return compact(tree)


def _state(report: ContainerReport) -> Tree:
    if report.running_since is not None:
        return {"running": {"startedAt": format_time(report.running_since)}}
    if report.exit is not None and not report.waiting:
        return {"terminated": _terminated(report.exit)}
    waiting = {"reason": report.waiting or "ContainerCreating"}
    if report.waiting_message:
        waiting["message"] = report.waiting_message
    return {"waiting": waiting}


def _terminated(ended: Exit) -> Tree:
    tree: Tree = {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": format_time(ended.started_at) if ended.started_at else None,
        "finishedAt": format_time(ended.finished_at) if ended.finished_at else None,
    }
    if ended.message:
        tree["message"] = ended.message
    if ended.container_id:
        tree["containerID"] = ended.container_id
    return tree


@attrs.frozen
class Observed:
    """The kubelet's view of a pod besides its containers; times in nanoseconds.

    `ip` is "" while the sandbox has no address. `terminating`: nothing is started any more.
    """

    start_time: int
    sandbox_ready: bool
    ip: str = ""
    host_ip: str = ""
    terminating: bool = False


@attrs.frozen
class ResizeReport:
    """The conditions of a resize, and the resources of the pod as a whole where these can be resized."""

    conditions: Sequence[Tree] = ()
    resources: Tree | None = None
    allocated: Tree | None = None


_NO_RESIZE: Final = ResizeReport()


def build(
    pod: Pod,
    reports: Sequence[ContainerReport],
    observed: Observed,
    *,
    now: int,
    before: Tree | None = None,
    override: Mapping[str, str] | None = None,
    extra: Sequence[Condition] = (),
    resize: ResizeReport | None = None,
    tracks_generation: bool = True,
) -> Tree:
    """Return the whole status.

    `before` is the one last reported, `override` sets phase and reason. A phase that was terminal once stays.
    `tracks_generation`: the kubelet tells which generation of the pod the status is of.
    """
    resize = resize or _NO_RESIZE
    before = before or pod.tree.get("status") or {}
    found = phase(reports, terminating=observed.terminating)
    reason: Mapping[str, str] = {}
    if before.get("phase") in TERMINAL:
        found, reason = before["phase"], before
    elif override:
        found, reason = override.get("phase", found), override
    elif before.get("phase") == found:
        reason = before
    tree: Tree = {"phase": found}
    for field in ("reason", "message"):
        if reason.get(field):
            tree[field] = reason[field]
    own = conditions(pod, reports, found, sandbox_ready=observed.sandbox_ready)
    generation = pod.metadata.generation if tracks_generation else 0
    known = before.get("conditions") or []
    if any(item["type"] in RESIZE_CONDITIONS for item in known):
        known = [item for item in known if item["type"] not in RESIZE_CONDITIONS]
    stamps = stamped([*own, *extra], known, generation, now)
    shows_resize = resize.conditions and found not in TERMINAL
    tree["conditions"] = [*resize.conditions, *stamps] if shows_resize else stamps
    if generation:
        tree["observedGeneration"] = generation
    if resize.resources:
        tree["resources"] = resize.resources
    if resize.allocated and resize.allocated.get("requests"):
        tree["allocatedResources"] = resize.allocated["requests"]
    if observed.host_ip:
        tree["hostIP"] = observed.host_ip
        tree["hostIPs"] = alike_list([alike({"ip": observed.host_ip})])
    if observed.ip:
        tree["podIP"] = observed.ip
        tree["podIPs"] = [alike({"ip": observed.ip})]
    tree["startTime"] = format_time(observed.start_time // SECOND * SECOND)
    inits = [container_status(item) for item in reports if item.role in (INIT, SIDECAR)]
    if inits:
        tree["initContainerStatuses"] = inits
    tree["containerStatuses"] = [container_status(item) for item in reports if item.role == APP]
    debugging = [container_status(item) for item in reports if item.role == EPHEMERAL]
    if debugging:
        tree["ephemeralContainerStatuses"] = debugging
    tree["qosClass"] = pod.status.qos_class or compute_qos(pod)
    if before.get("nominatedNodeName"):
        tree["nominatedNodeName"] = before["nominatedNodeName"]
    return compact(tree)


def status_patch(before: Tree, after: Tree) -> Tree:
    """The strategic merge patch that turns one status into another: only what changed.

    Upstream: the status manager's PatchPodStatus (pkg/util/pod). Conditions are merged by type and
    addresses by ip, so only changed ones are sent, with the order of all; other fields go whole, and what
    vanished as null.
    """
    patch: Tree = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        if key == "conditions" and old:
            patch["$setElementOrder/conditions"], patch["conditions"] = _changed(old, value)
        elif key in ("podIPs", "hostIPs") and old:
            before_ips, ips = ({each.get("ip") for each in addresses} for addresses in (old, value))
            gone = [{"$patch": "delete", **each} for each in old if each.get("ip") not in ips]
            patch[f"$setElementOrder/{key}"] = list(value)
            patch[key] = [each for each in value if each.get("ip") not in before_ips] + gone
        else:
            patch[key] = value
    return patch


_Change = tuple[list[Tree], list[Tree]]
_changes: Final[Memory[tuple[int, int], tuple[list[Tree], list[Tree], _Change]]] = Memory(
    "changes of conditions", KEPT
)
"""By the identity of two lists of conditions, which an entry keeps alive."""


def _changed(old: list[Tree], value: list[Tree]) -> _Change:
    """The order of all conditions, and how those are written that changed: once for all pods that share both lists."""
    found = _changes.known.get((id(old), id(value)))
    if found is not None:
        return found[2]
    known = {each["type"]: each for each in old}
    kept = [each["type"] for each in value]
    changed = [
        {**dict.fromkeys(known.get(each["type"], ())), **each}
        for each in value
        if known.get(each["type"]) != each
    ]
    still = set(kept)
    gone = [{"$patch": "delete", "type": each["type"]} for each in old if each["type"] not in still]
    made = [{"type": kind} for kind in kept], changed + gone
    if is_shared(old) and is_shared(value):
        alike_list(made[1])
        _changes.keep((id(old), id(value)), (old, value, made))
    return made
