"""The row of a pod. Upstream: printPod in pkg/printers/internalversion/printers.go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.apiserver.kinds.cells import age, human_duration


def pod_row(tree: Tree, now: int) -> list[Any]:
    """The cells of a pod."""
    meta, spec = tree["metadata"], tree.get("spec") or EMPTY_MAP
    state = tree.get("status") or EMPTY_MAP
    reason, ready, total, restarts, last = _summary(meta, spec, state)
    shown: Any = str(restarts)
    if restarts and last is not None:
        shown = f"{restarts} ({human_duration((now - last) // SECOND)} ago)"
    gates = "<none>"
    if spec.get("readinessGates"):
        met = sum(
            1
            for gate in spec["readinessGates"]
            if any(
                c.get("type") == gate.get("conditionType") and c.get("status") == "True"
                for c in state.get("conditions") or ()
            )
        )
        gates = f"{met}/{len(spec['readinessGates'])}"
    ips = state.get("podIPs")
    ip = ips[0].get("ip", "") if ips else state.get("podIP", "")
    return [
        meta.get("name", ""),
        f"{ready}/{total}",
        reason,
        shown,
        age(meta.get("creationTimestamp"), now),
        ip or "<none>",
        spec.get("nodeName") or "<none>",
        state.get("nominatedNodeName") or "<none>",
        gates,
    ]


def _last_end(status: Tree, last: int | None) -> int | None:
    """Return when the container ended before, if that is later than `last`; else `last`."""
    before = status.get("lastState")
    if not before:
        return last
    text = (before.get("terminated") or EMPTY_MAP).get("finishedAt")
    if not text:
        return last
    ended = parse_time(text)
    return ended if last is None else max(ended, last)


def _exit_text(ended: Tree) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _summary(meta: Tree, spec: Tree, state: Tree) -> tuple[str, int, int, int, int | None]:
    """Status, ready containers, all containers, restarts and when the last container ended."""
    phase = state.get("phase", "")
    reason = state.get("reason") or phase
    conditions = state.get("conditions") or ()
    for condition in conditions:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initial = spec.get("initContainers") or ()
    sidecars = [c["name"] for c in initial if c.get("restartPolicy") == "Always"] if initial else ()
    total = len(spec.get("containers") or ()) + len(sidecars)
    ready = restarts = sidecar_restarts = 0
    last: int | None = None
    sidecar_last: int | None = None
    stopped = False
    for index, status in enumerate(state.get("initContainerStatuses") or ()):
        restarts += status.get("restartCount", 0)
        last = _last_end(status, last)
        side = status.get("name") in sidecars
        if side:
            sidecar_restarts += status.get("restartCount", 0)
            sidecar_last = _last_end(status, sidecar_last)
        now_state = status.get("state") or EMPTY_MAP
        ended, waiting = now_state.get("terminated"), now_state.get("waiting") or EMPTY_MAP
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if side and status.get("started"):
            if status.get("ready"):
                ready += 1
            continue
        if ended is not None:
            reason = f"Init:{_exit_text(ended)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            reason = f"Init:{waiting['reason']}"
        else:
            reason = f"Init:{index}/{len(initial)}"
        stopped = True
        break
    if not stopped or any(
        c.get("type") == "Initialized" and c.get("status") == "True" for c in conditions
    ):
        reason, more, count, last = _regular(state, reason, conditions, sidecar_last)
        ready += more
        restarts = sidecar_restarts + count
    if meta.get("deletionTimestamp"):
        if state.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return reason, ready, total, restarts, last


def _regular(
    state: Tree, reason: str, conditions: Sequence[Tree], last: int | None
) -> tuple[str, int, int, int | None]:
    ready = restarts = 0
    running = False
    failure = ""
    for status in reversed(state.get("containerStatuses") or ()):
        restarts += status.get("restartCount", 0)
        last = _last_end(status, last)
        now_state = status.get("state") or EMPTY_MAP
        waiting, ended = now_state.get("waiting"), now_state.get("terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _exit_text(ended)
            if ended.get("exitCode", 0):
                failure = reason
        elif status.get("ready") and now_state.get("running") is not None:
            running = True
            ready += 1
    if reason == "Completed":
        if running and any(
            c.get("type") == "Ready" and c.get("status") == "True" for c in conditions
        ):
            reason = "Running"
        elif failure:
            reason = failure
        elif running:
            reason = "NotReady"
    return reason, ready, restarts, last


_FINISHED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_conditions(tree: Tree) -> list[Tree]:
    """Return the conditions in the row of a finished pod."""
    phase = (tree.get("status") or EMPTY_MAP).get("phase")
    if phase not in _FINISHED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED[phase]}]
