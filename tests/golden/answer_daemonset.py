"""The DaemonSet controller: placement, templates, rolling updates, whole syncs."""

from __future__ import annotations

from typing import Any

from controlplane.api.apps import DaemonSet
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.controllers.common.effects import Reconcile
from controlplane.controllers.workloads.daemon.controller import DaemonSetController
from controlplane.controllers.workloads.daemon.placement import (
    NoTargetNode,
    fit,
    for_node,
    pod_template,
    target_node,
)
from tests.golden.controller_world import START, World, complete, outcome, pruned
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    if "node" in case and "daemonSet" in case:
        return _should_run(case)
    if "template" in case:
        return _template(case)
    return _sync(case)


def compare(want: Any, got: Any) -> str | None:
    if "deleteCount" in want:
        return _compare_rolling(want, got(None))
    if "requests" in want:
        got = got(want.pop("anyOrder", ()))
    return difference(want, got)


def _should_run(case: Any) -> Any:
    found = DaemonSet.from_tree(complete("DaemonSet", case["daemonSet"]))
    fits = fit(found, Node.from_tree(complete("Node", case["node"])))
    return {"shouldRun": fits.should_run, "shouldContinueRunning": fits.should_continue}


def _target(template: Any) -> tuple[str, str | None]:
    metadata = {**(template.get("metadata") or {}), "namespace": "ns", "name": "p"}
    pod = Pod.from_tree(complete("Pod", {"metadata": metadata, "spec": template["spec"]}))
    try:
        return target_node(pod), None
    except NoTargetNode as error:
        return "", str(error)


def _template(case: Any) -> Any:
    before = _target(case["template"])
    made = for_node(
        pod_template(case["template"], case.get("generation"), case["hash"]), case["node"]
    )
    after = _target(made)
    return {
        "template": pruned(made),
        "target": after[0],
        "error": after[1],
        "targetBefore": before[0],
        "errorBefore": before[1],
    }


def _sync(case: Any) -> Any:
    main = case["daemonSet"]
    world = World(
        {
            "DaemonSet": [main],
            "Node": case["nodes"],
            "Pod": case["pods"],
            "ControllerRevision": case["revisions"],
        },
        case.get("failures", ()),
    )
    world.see_live("DaemonSet", case, main)
    controller = DaemonSetController(world, world.caches)
    world.fill()
    key = f"{main['metadata']['namespace']}/{main['metadata']['name']}"
    expected = case.get("expectations")
    if expected is not None:
        creations, deletions = expected.get("add", 0), expected.get("del", 0)
        controller.expectations.expect(key, creations, deletions, START)
    found = DaemonSet.from_tree(complete("DaemonSet", main))
    for entry in case.get("backoff", ()):
        where = f"{found.uid}/{found.status.observed_generation}/{entry['node']}"
        for _ in range(entry["failures"]):
            controller.failures.failed(where, START)

    def rolled() -> Reconcile[None]:
        nodes = [Node.from_tree(complete("Node", tree)) for tree in case["nodes"]]
        revisions = yield from controller.construct_history(found)
        yield from controller.rolling_update(found, nodes, revisions.digest)

    def result(any_order: Any) -> Any:
        if any_order is None:
            world.attempt(rolled())
            return _moves(world)
        error = world.attempt(controller.sync(key))
        made = outcome(world, error, "daemonset", any_order)
        still = controller.expectations.outstanding(key)
        if still is not None:
            made["expectations"] = {"add": still[0], "del": still[1]}
        return made

    return result


def _moves(world: World) -> Any:
    about = [each for each in world.requests if each["resource"] == "pods"]
    return {
        "delete": [each["name"] for each in about if each["verb"] == "delete"],
        "create": [_target(each["object"])[0] for each in about if each["verb"] == "create"],
    }


def _compare_rolling(want: Any, got: Any) -> str | None:
    for verb in ("delete", "create"):
        names = got[verb]
        always, some = set(want[f"{verb}Always"]), set(want[f"{verb}Some"])
        if len(names) not in want[f"{verb}Count"]:
            return f"{verb}: {len(names)} of {names}, want {want[f'{verb}Count']}"
        if not always <= set(names) <= always | some:
            return f"{verb}: {names}, want {sorted(always)} and some of {sorted(some)}"
    return None
