"""The EndpointSlice controller: one sync of one service."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.network.endpointslice.controller import EndpointSliceController
from tests.golden.controller_world import World, outcome
from tests.golden.runner import difference


def _shown(world: World, *, count: bool) -> None:
    """Endpoints as the cases show them: in the order of their addresses, or only their number."""
    for entry in world.requests:
        body = entry.get("object") or entry.get("diff") or {}
        if body.get("endpoints"):
            body["endpoints"].sort(key=lambda each: each["addresses"])
            if count:
                body["endpoints"] = len(body["endpoints"])
        elif count and "endpoints" in body:
            body["endpoints"] = 0


def answer(case: Any) -> Any:
    objects = {
        "Service": [case["service"]],
        "Pod": case["pods"],
        "Node": case["nodes"],
        "EndpointSlice": case["endpointSlices"],
    }
    world = World(objects, case.get("failures", ()))
    controller = EndpointSliceController(world, world.caches, case["maxEndpointsPerSlice"])
    world.fill()
    metadata = case["service"]["metadata"]
    error = world.attempt(controller.sync(f"{metadata['namespace']}/{metadata['name']}"))
    return world, error, case


def compare(want: Any, got: Any) -> str | None:
    world, error, _case = got
    any_order = want.pop("anyOrder", ())
    bodies = [each.get("object") or each.get("diff") or {} for each in want["requests"]]
    _shown(world, count=any(isinstance(each.get("endpoints"), int) for each in bodies))
    return difference(want, outcome(world, error, "endpoint_slice", any_order))
