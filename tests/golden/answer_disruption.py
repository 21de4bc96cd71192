"""The disruption controller: budgets' statuses, stale DisruptionTargets, which budgets select a pod."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.client.resources import Resource
from controlplane.controllers.common.rest_mapper import RESTMapper, ServedKind
from controlplane.controllers.workloads.disruption.controller import DisruptionController, NoBudget
from tests.golden.controller_world import KINDS, World, complete, folded, outcome
from tests.golden.runner import difference

CUSTOM: Resource[Any] = Resource("custom.k8s.io", "v1", "customresources")


class Scales(World):
    """A server with scale subresources of a custom kind, which is all that its discovery knows."""

    def __init__(self, case: Any, objects: Any) -> None:
        super().__init__(objects, case.get("failures", ()))
        scalable = not case.get("customHasNoScale")
        kind = ServedKind(CUSTOM, "customresource", True, scalable=scalable)
        self.rest_mapper = RESTMapper([kind])
        for each in case.get("customScales", ()):
            tree = {
                "metadata": {"name": each["name"], "namespace": "ns", "uid": each["uid"]},
                "spec": {"replicas": each["replicas"]},
            }
            self.put_live(CUSTOM, tree)


def compare(want: Any, got: Any) -> str | None:
    any_order = want.pop("anyOrder", ())
    return difference(want, got(any_order) if callable(got) else got)


def answer(case: Any) -> Any:
    if "pdbs" in case:
        return _match(case)
    if "pdb" in case:
        return _sync(case)
    return _stale(case)


def _match(case: Any) -> Any:
    world = World({"PodDisruptionBudget": case["pdbs"]})
    controller = DisruptionController(world, world.caches)
    world.fill()
    try:
        found = controller.budgets_of(Pod.from_tree(complete("Pod", case["pod"])))
    except NoBudget as error:
        return {"error": str(error), "pdbs": []}
    return {"error": None, "pdbs": [each.name for each in found]}


def _stale(case: Any) -> Any:
    world = World({"Pod": [case["pod"]]}, case.get("failures", ()))
    controller = DisruptionController(world, world.caches)
    world.fill()
    error = world.attempt(controller.sync_stale("ns/p"))
    return lambda any_order: outcome(world, error, "stale_pod_disruption", any_order)


def _sync(case: Any) -> Any:
    objects = {
        "PodDisruptionBudget": [case["pdb"]],
        "Pod": case["pods"],
        "ReplicaSet": case.get("replicaSets", ()),
        "Deployment": case.get("deployments", ()),
        "StatefulSet": case.get("statefulSets", ()),
        "ReplicationController": case.get("replicationControllers", ()),
    }
    assert set(objects) <= set(KINDS)
    world = Scales(case, objects)
    controller = DisruptionController(world, world.caches)
    world.fill()
    error = world.attempt(controller.sync("ns/pdb"))

    def found(any_order: Any) -> Any:
        world.requests[:] = [each for each in world.requests if each["verb"] != "get"]
        result = outcome(world, error, "disruption", any_order)
        recheck = world.queue("disruption_recheck").noted
        if recheck:
            result["recheck"] = folded(recheck, any_order=False)
        return result

    return found
