"""The Job controller: indexes, policies, backoff, whole syncs."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from controlplane.api.batch import PodFailurePolicy, SuccessPolicy
from controlplane.api.decoding import decode
from controlplane.api.pod import Pod
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.controllers.workloads.job.backoff import BackoffRecord, finished_at, remaining
from controlplane.controllers.workloads.job.controller import JobController
from controlplane.controllers.workloads.job.failure_policy import match_pod_failure_policy
from controlplane.controllers.workloads.job.indexes import parse
from controlplane.controllers.workloads.job.success_policy import match_success_policy
from tests.golden.controller_world import START, World, compact, complete, outcome
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    if "add" in case:
        return _indexes(case)
    if "pod" in case:
        return _failure_policy(case)
    if "successPolicy" in case:
        return _success_policy(case)
    if "secondsSinceLastFailure" in case:
        return _backoff(case)
    return _sync(case)


def compare(want: Any, got: Any) -> str | None:
    if "requests" in want:
        got = got(want.pop("anyOrder", ()))
    return difference(want, got)


def _indexes(case: Any) -> Any:
    found = parse(case["text"], case["completions"])
    merged = found.with_indexes(case["add"])
    return {
        "intervals": [list(each) for each in found],
        "total": found.total,
        "text": str(found),
        "has": [index for index in range(-1, 26) if index in found],
        "merged": str(merged),
        "mergedTotal": merged.total,
    }


def _failure_policy(case: Any) -> Any:
    pod = Pod.from_tree(complete("Pod", case["pod"]))
    tree = case.get("podFailurePolicy")
    match = match_pod_failure_policy(decode(PodFailurePolicy, tree) if tree else None, pod)
    return {
        "message": match.message,
        "countFailed": match.counts,
        "action": match.action,
        "finishedTime": format_time(finished_at(pod)),
    }


def _success_policy(case: Any) -> Any:
    completions = case["completions"]
    tree = case["successPolicy"]
    policy = decode(SuccessPolicy, tree) if tree is not None else None
    found = match_success_policy(policy, completions, parse(case["succeededIndexes"], completions))
    return {"met": found is not None, "message": found or ""}


def _backoff(case: Any) -> Any:
    since = case["secondsSinceLastFailure"]
    last = None if since is None else START - since * SECOND
    left = remaining(case["failures"], last, START) / SECOND
    return {"remainingSeconds": int(left) if left == int(left) else left}


def _sync(case: Any) -> Any:
    main = case["job"]
    world = World({"Job": [main], "Pod": case.get("pods", ())}, case.get("failures", ()))
    world.see_live("Job", case, main)
    controller = JobController(world, world.caches)
    world.fill()
    key = f"{main['metadata']['namespace']}/{main['metadata']['name']}"
    expected = case.get("expectations")
    if expected is not None:
        creations, deletions = expected.get("add", 0), expected.get("del", 0)
        controller.expectations.expect(key, creations, deletions, START)
    if "expectedFinalizerRemovals" in case:
        controller.removals.expect_removed(key, case["expectedFinalizerRemovals"])
    record = case.get("backoff")
    if record is not None:
        last = record.get("lastFailure")
        controller.backoffs[key] = BackoffRecord(
            record.get("failures", 0), parse_time(last) if last else None
        )
    error = world.attempt(controller.sync(key))
    _canonical(world.requests)

    def found(any_order: Any) -> Any:
        result = outcome(world, error, "job", any_order)
        still = controller.expectations.outstanding(key)
        if still is not None:
            result["expectations"] = {"add": still[0], "del": still[1]}
        after = controller.backoffs.get(key)
        if after is not None:
            result["backoff"] = {"failures": after.failures}
            if after.last_failure is not None:
                result["backoff"]["lastFailure"] = format_time(after.last_failure)
        return result

    return found


def _canonical(requests: list[Any]) -> None:
    """Sort neighbouring requests on pods, and uids in status updates, in place."""
    ordered: list[Any] = []
    for about_pods, group in groupby(requests, lambda each: each["resource"] == "pods"):
        together = list(group)
        ordered += sorted(together, key=compact) if about_pods else together
    requests[:] = ordered
    for request in requests:
        status = request.get("diff", {}).get("status", {})
        for uids in (status.get("uncountedTerminatedPods") or {}).values():
            if uids:
                uids.sort()
