"""The Deployment controller: whole syncs, limits, template hashes, equality of templates."""

from __future__ import annotations

from typing import Any

from controlplane.api.apps import Deployment, ReplicaSet
from controlplane.controllers.common.int_or_percent import BadIntOrPercent
from controlplane.controllers.common.template_hash import template_hash
from controlplane.controllers.workloads.deployment import replica_sets
from controlplane.controllers.workloads.deployment.controller import DeploymentController
from tests.golden.controller_world import World, complete, outcome, wanted
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    if "deployment" in case:
        return _sync(case)
    if "strategy" in case:
        return _limits(case)
    if "deploymentName" in case:
        hashed = template_hash(case["template"], case.get("collisionCount"))
        return {
            "hash": hashed,
            "replicaSetName": replica_sets.replica_set_name(case["deploymentName"], hashed),
        }
    return _equal(case)


def compare(want: Any, got: Any) -> str | None:
    if not callable(got):
        return difference(want, got)
    want, any_order = wanted(want)
    return difference(want, got(any_order))


def _limits(case: Any) -> Any:
    tree = {"spec": {"replicas": case["replicas"], "strategy": case["strategy"], "template": {}}}
    deployment = Deployment.from_tree(complete("Deployment", tree))
    found: dict[str, Any] = {
        "maxSurge": replica_sets.max_surge(deployment),
        "maxUnavailable": replica_sets.max_unavailable(deployment),
        "minAvailable": replica_sets.min_available(deployment),
    }
    current = case["newReplicaSet"]
    try:
        size = replica_sets.new_size(deployment, sum(case["oldReplicaSets"]) + current, current)
    except BadIntOrPercent as error:
        found["newReplicasError"] = str(error)
    else:
        rolling = case["strategy"].get("rollingUpdate")
        if rolling is None or "maxSurge" in rolling:
            found["newReplicas"] = size
    return found


def _equal(case: Any) -> Any:
    tree = {"metadata": {"name": "d"}, "spec": {"template": case["template"]}}
    deployment = Deployment.from_tree(complete("Deployment", tree))
    sets = [ReplicaSet.from_tree(complete("ReplicaSet", tree)) for tree in case["replicaSets"]]
    new = replica_sets.find_new(deployment, sets)
    return {
        "equal": [replica_sets.same_template(deployment, each) for each in sets],
        "newReplicaSet": None if new is None else new.name,
    }


def _sync(case: Any) -> Any:
    main = case["deployment"]
    world = World(
        {
            "Deployment": [main],
            "ReplicaSet": case.get("replicaSets", ()),
            "Pod": case.get("pods", ()),
        },
        case.get("failures", ()),
    )
    world.see_live("Deployment", case, main)
    controller = DeploymentController(world, world.caches)
    world.fill()
    error = world.attempt(
        controller.sync(f"{main['metadata']['namespace']}/{main['metadata']['name']}")
    )
    return lambda any_order: outcome(world, error, "deployment", any_order)
