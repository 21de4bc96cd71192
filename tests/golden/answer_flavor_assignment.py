"""Kueue: flavors of a pending workload and the workloads to preempt for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controlplane.api.times import parse_time
from controlplane.kueue.amounts import quantity_text
from controlplane.kueue.flavors.assigner import FlavorAssigner
from controlplane.kueue.flavors.assignment import Assignment
from controlplane.kueue.flavors.modes import MODE_NAMES, POSSIBILITY_NAMES, Mode
from controlplane.kueue.preemption.candidates import Rules, Target
from controlplane.kueue.preemption.fair_sharing import BOTH
from controlplane.kueue.preemption.preemptor import PreemptionOracle, Preemptor
from controlplane.kueue.scheduler.assignments import find_assignment
from controlplane.kueue.workload.info import LastAssignment, new_info
from tests.golden.kueue_worlds import cache_of, gates_of, shown_amount

NOW = parse_time("2025-03-01T12:00:00Z")


def answer(case: Any) -> Any:
    world = case["world"]
    gates = gates_of(world)
    snapshot = cache_of(world, gates).snapshot()
    local = case["workload"]["spec"]["queueName"]
    name = next(
        each["spec"]["clusterQueue"]
        for each in world["localQueues"]
        if each["metadata"]["name"] == local
        and each["metadata"]["namespace"] == case["workload"]["metadata"]["namespace"]
    )
    queue = snapshot.queues.get(name)
    if queue is None:
        return {"inactive": True}
    info = replace(new_info(with_requests(case["workload"]), gates), cluster_queue=name)
    if "lastTriedFlavorIdx" in case:
        tried = tuple(case["lastTriedFlavorIdx"])
        last = LastAssignment(tried, queue.generation, 0, info.hash)
        info = replace(info, last_assignment=last)
    rules = Rules(gates, strategies_of(world))
    preemptor = Preemptor(rules, NOW)
    assigner = FlavorAssigner(
        info,
        queue,
        snapshot.flavors,
        PreemptionOracle(preemptor, snapshot),
        gates,
        fair_sharing=rules.strategies is not None,
        quota_check=case.get("quotaCheckStrategy", ""),
        cycle=1,
    )
    assignment = assigner.assign(case.get("counts") or ())
    shown: dict[str, Any] = {
        "schedulingHash": info.hash,
        "assignment": shown_assignment(assignment),
    }
    if assignment.mode() is Mode.PREEMPT:
        shown["targets"] = shown_targets(preemptor.targets(info, assignment, snapshot))
    if info.can_be_partially_admitted() and "counts" not in case:
        fresh = replace(assigner, info=replace(info, last_assignment=None))
        final, targets = find_assignment(fresh, preemptor, snapshot)
        shown["final"] = {
            "assignment": shown_assignment(final),
            "targets": shown_targets(targets),
        }
    return shown


def with_requests(workload: Any) -> Any:
    """The workload as it was before printing, which left out empty requests: the hash sees them."""
    pod_sets = [
        {**each, "template": {"spec": filled(each["template"]["spec"])}}
        for each in workload["spec"]["podSets"]
    ]
    return {**workload, "spec": {**workload["spec"], "podSets": pod_sets}}


def filled(spec: Any) -> Any:
    return {
        **spec,
        **{
            field: [{"resources": {"requests": {}}, **each} for each in spec[field]]
            for field in ("containers", "initContainers")
            if field in spec
        },
    }


def strategies_of(world: Any) -> tuple[str, ...] | None:
    if world.get("fairSharing") is None:
        return None
    return tuple(world["fairSharing"].get("preemptionStrategies") or BOTH)


def shown_targets(targets: list[Target]) -> Any:
    return [{"workload": each.info.key, "reason": each.reason} for each in targets]


def shown_assignment(assignment: Assignment) -> Any:
    last = assignment.last_state
    shown: dict[str, Any] = {
        "mode": MODE_NAMES[assignment.mode()],
        "borrowing": assignment.borrowing,
        "message": assignment.message(),
        "noFitReason": assignment.no_fit_reason,
        "considered": assignment.considered(),
        "podSets": [shown_pod_set(each) for each in assignment.pod_sets],
        "lastTriedFlavorIdx": [dict(each) for each in last.tried],
        "pendingFlavors": last.pending(),
    }
    if assignment.usage:
        shown["usage"] = {
            str(pair): shown_amount(amount) for pair, amount in assignment.usage.items()
        }
    return shown


def shown_pod_set(each: Any) -> Any:
    shown: dict[str, Any] = {"name": each.name, "count": each.count}
    shown["mode"] = MODE_NAMES[each.mode()]
    if each.requests:
        shown["requests"] = {
            name: quantity_text(name, amount) for name, amount in each.requests.items()
        }
    if each.status.message():
        shown["status"] = each.status.message()
    if each.status.error:
        shown["isError"] = True
    if each.flavors:
        shown["flavors"] = {
            resource: {
                "name": flavor.name,
                "mode": MODE_NAMES[flavor.mode],
                "triedFlavorIdx": flavor.tried,
                "borrow": flavor.borrow,
            }
            for resource, flavor in each.flavors.items()
        }
    if each.attempts:
        shown["attempts"] = [shown_attempt(attempt) for attempt in each.attempts]
    return shown


def shown_attempt(attempt: Any) -> Any:
    shown: dict[str, Any] = {
        "flavor": attempt.flavor,
        "mode": MODE_NAMES[attempt.mode],
        "borrow": attempt.borrow,
    }
    if attempt.possibility is not None:
        shown["preemption"] = POSSIBILITY_NAMES[attempt.possibility]
    if attempt.texts:
        shown["reasons"] = list(attempt.texts)
    if attempt.reason:
        shown["noFitReason"] = attempt.reason
    return shown
