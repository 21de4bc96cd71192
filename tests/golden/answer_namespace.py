"""The namespace controller: one look at a namespace that is being deleted, over a store that empties itself."""

from __future__ import annotations

from typing import Any

from controlplane.api.object import Object
from controlplane.client import resources
from controlplane.client.calls import Call, ObjectList
from controlplane.client.resources import Resource
from controlplane.controllers.common.effects import Retry
from controlplane.controllers.common.rest_mapper import RESTMapper, ServedKind
from controlplane.controllers.lifecycle.namespace.controller import (
    NamespaceController,
    ResourcesRemaining,
)
from tests.golden.controller_world import World, folded
from tests.golden.runner import difference

WIDGETS: Resource[Any] = Resource("example.com", "v1", "widgets")
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
TYPE = {"apiVersion", "kind"}
UNABLE = "the server is currently unable to handle the request"
KINDS = (
    ServedKind(resources.PODS, "Pod", True, VERBS),
    ServedKind(resources.CONFIG_MAPS, "ConfigMap", True, VERBS),
    ServedKind(resources.JOBS, "Job", True, VERBS),
    ServedKind(WIDGETS, "Widget", True, tuple(v for v in VERBS if v != "deletecollection")),
)


class Store(World):
    """Deletes what has no finalizers and does not stay; a pod keeps what the case says of it."""

    def __init__(self, case: Any) -> None:
        failures = [
            {**each, "verb": "update"} if each.get("subresource") == "finalize" else each
            for each in case.get("failures", ())
        ]
        super().__init__({"Namespace": [case["namespace"]]}, failures)
        self.rest_mapper = RESTMapper(KINDS)
        if group := case.get("discoveryFailsForGroup"):
            self.rest_mapper.undiscovered[group] = UNABLE
        pods = {tree["metadata"]["name"]: tree for tree in case["pods"]}
        self.content: dict[tuple[str, str], tuple[Any, bool]] = {}
        for entry in case["objects"]:
            tree = {"metadata": {"name": entry["name"], "namespace": "ns"}}
            if entry["resource"] == "pods":
                tree = pods[entry["name"]]
            if entry.get("finalizers"):
                metadata = {**tree["metadata"], "finalizers": entry["finalizers"]}
                tree = {**tree, "metadata": metadata}
            stays = bool(entry.get("staysAfterDelete") or entry.get("finalizers"))
            self.content[entry["resource"], entry["name"]] = (Object(tree), stays)

    def _entry(self, call: Call) -> Any:
        """As upstream's recording client notes it: finalize as a creation, collections without options."""
        entry = super()._entry(call)
        if call.subresource == "finalize":
            body = {key: each for key, each in call.body.items() if key not in TYPE}
            return {
                "verb": "create",
                "resource": "namespaces",
                "subresource": "finalize",
                "object": body,
            }
        if call.verb == "deletecollection":
            entry.pop("options", None)
        return entry

    def _answer(self, call: Call) -> Any:
        if call.resource == resources.NAMESPACES:
            return super()._answer(call)
        kind = call.resource.name
        if call.verb == "list":
            super()._answer(call)
            return ObjectList(
                [obj for (name, _), (obj, _) in self.content.items() if name == kind], "1"
            )
        answer = super()._answer(call)
        for place, (_, stays) in list(self.content.items()):
            if place[0] == kind and call.name in ("", place[1]) and not stays:
                del self.content[place]
        return answer


def compare(want: Any, got: Any) -> str | None:
    any_order = want.pop("anyOrder", ())
    got["requests"] = folded(got["requests"], any_order="requests" in any_order)
    return difference(want, got)


def answer(case: Any) -> Any:
    world = Store(case)
    controller = NamespaceController(world, world.caches)
    found: dict[str, Any] = {}
    try:
        world.run(controller.delete("ns"))
    except ResourcesRemaining as error:
        found = {"error": str(error), "remainingEstimate": error.estimate}
    except Exception as error:
        if not isinstance(error, Retry) and not hasattr(error, "status"):
            raise
        found = {"error": str(error)}
    found["requests"] = world.requests
    found["left"] = sorted(f"{kind}/{name}" for kind, name in world.content)
    return found
