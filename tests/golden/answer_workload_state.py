"""Kueue: helpers for the status of a Workload, applied one after the other to one object."""

from __future__ import annotations

from typing import Any

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.kueue.gates import Gates
from controlplane.kueue.workload import status, status_checks
from controlplane.kueue.workload.status_evict import finish, prepare_eviction
from controlplane.kueue.workload.status_patch import owned_status, replace_owned

START = parse_time("2025-03-01T12:00:00Z")


def answer(case: Any) -> Any:
    gates = Gates(case.get("gates"))
    now = START
    workload = case["workload"]
    queues = {each["metadata"]["name"]: each for each in case["world"].get("clusterQueues", ())}
    locals_ = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"]["clusterQueue"]
        for each in case["world"].get("localQueues", ())
    }
    own = locals_.get((workload["metadata"]["namespace"], workload["spec"].get("queueName")))
    queue = queues.get(own or next(iter(queues), ""))
    shown = []
    for step in case["steps"]:
        if step["op"] == "advance":
            now += step["seconds"] * SECOND
        workload, said = apply(workload, step, now, gates)
        if queue is not None:
            said["admissionChecks"] = status_checks.checks_for(workload, queue)
        shown.append({**said, "is": predicates(workload, now, gates), **clean(workload)})
        if step["op"] == "setQuotaReservation":
            written_through(case["steps"], shown, now)
    return {"initial": {"is": predicates(case["workload"], START, gates)}, "steps": shown}


def written_through(steps: Any, shown: Any, now: int) -> None:
    """Change earlier answers as upstream's helper did, which answers a pointer to the time of a condition.

    Until the object is read from the client again, a reservation that ends the condition changes that time.
    """
    if len(shown) < 2:
        return
    before = shown[-2]["is"]
    if not before["isEvicted"] or shown[-1]["is"]["isEvicted"]:
        return
    evicted = [each for each in shown[-2]["status"]["conditions"] if each["type"] == "Evicted"]
    if evicted[0]["lastTransitionTime"] != before["queueOrderTimestamp"]:
        return
    for step, each in reversed(list(zip(steps, shown[:-1], strict=False))):
        each["is"]["queueOrderTimestamp"] = format_time(now)
        if step["op"] in {"evict", "finish"}:
            return


def apply(workload: Any, step: Any, now: int, gates: Gates) -> tuple[Any, Any]:
    copy = status.working_copy(workload)
    match step["op"]:
        case "advance":
            return workload, {}
        case "setQuotaReservation":
            changed = status.set_quota_reservation(copy, step["admission"], now)
        case "unsetQuotaReservation":
            changed = status.unset_quota_reservation(
                copy, step["reason"], step["message"], now, gates
            )
        case "syncAdmitted":
            changed = status.sync_admitted(copy, now, gates)
        case "setRequeued":
            changed = status.set_requeued(
                copy, step["reason"], step["message"], now, status=step["status"]
            )
        case "setDeactivationTarget":
            changed = status.set_deactivation_target(copy, step["reason"], step["message"], now)
        case "preempted":
            changed = status.set_preempted(copy, step["reason"], step["message"], now)
        case "updateRequeueState":
            status_checks.update_requeue_state(
                copy, step["backoffBaseSeconds"], step["backoffMaxSeconds"], now
            )
            return copy, {}
        case "setCheckState":
            checks = copy["status"].setdefault("admissionChecks", [])
            new = {"name": step["check"], "state": step["state"]}
            new |= {name: step[name] for name in ("message", "requeueAfterSeconds") if name in step}
            changed = status_checks.set_check_state(checks, new, now)
        case "evict":
            eviction = prepare_eviction(
                copy, step["reason"], step["message"], now, cause=step.get("underlyingCause", "")
            )
            said = {"events": [] if eviction is None else [list(eviction.event)]}
            return stored(workload, copy), said
        case "finish":
            if status.is_finished(workload):
                return workload, {}
            finish(copy, step["reason"], step["message"], now)
            return stored(workload, copy), {}
    return copy, {"changed": changed}


def stored(old: Any, new: Any) -> Any:
    return {**old, "status": replace_owned(old.get("status", {}), owned_status(new))}


def clean(workload: Any) -> Any:
    kept = {
        name: value
        for name, value in workload.get("status", {}).items()
        if value not in (None, [], {})
    }
    if "conditions" in kept:
        kept["conditions"] = sorted(kept["conditions"], key=lambda each: str(each["type"]))
    return {"status": kept} if kept else {}


def predicates(workload: Any, now: int, gates: Gates) -> Any:
    said = {
        "allChecksReady": status.all_checks_ready(workload),
        "hasActiveQuotaReservation": status.active_quota_reservation(workload),
        "hasQuotaReservation": status.has_quota_reservation(workload),
        "hasRejectedChecks": bool(status_checks.checks_in(workload, "Rejected")),
        "hasRetryChecks": bool(status_checks.checks_in(workload, "Retry")),
        "isActive": status.is_active(workload),
        "isAdmissible": status.is_admissible(workload, gates),
        "isAdmitted": status.is_admitted(workload),
        "isEvicted": status.is_evicted(workload),
        "isFinished": status.is_finished(workload),
        "isOnHold": status.is_on_hold(workload),
        "needsSecondPass": status.needs_second_pass(workload),
        "queueOrderTimestamp": format_time(status.queue_order_time(workload, gates)),
        "queuedWaitSeconds": status.queued_wait(workload, now) // SECOND,
        "status": status.state_of(workload),
    }
    if (at := status_checks.needs_requeue_at(workload, now)) is not None:
        said["needsRequeueAt"] = format_time(at)
    if (total := status.total_execution_time(workload)) is not None:
        said["totalExecutionSeconds"] = total // SECOND
    return said
