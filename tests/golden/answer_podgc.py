"""Pod garbage collection: two passes 41 seconds apart over one cache."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.lifecycle.podgc.controller import PodGCController
from tests.golden.controller_world import SECOND, World, compact


def answer(case: Any) -> Any:
    world = World(
        {"Pod": case["pods"], "Node": case["nodes"]},
        case.get("failures", ()),
    )
    for name in case.get("liveOnlyNodes", ()):
        world.add_live("Node", {"metadata": {"name": name}})
    controller = PodGCController(world, world.caches, case["terminatedPodThreshold"])
    world.fill()
    found = {}
    for passed in ("first", "second"):
        world.requests.clear()
        world.run(controller.collect())
        found[passed] = sorted(world.requests, key=compact)
        world.now += 41 * SECOND
    return found
