"""The TTL-after-finished controller: one look at a Job."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.lifecycle.ttlafterfinished.controller import (
    TTLAfterFinishedController,
)
from tests.golden.controller_world import World, outcome
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    main = case["job"]
    world = World({"Job": [main]}, case.get("failures", ()))
    world.see_live("Job", case, main)
    controller = TTLAfterFinishedController(world, world.caches)
    world.fill()
    key = f"{main['metadata']['namespace']}/{main['metadata']['name']}"
    error = world.attempt(controller.process(key))
    return lambda any_order: outcome(world, error, "ttl_jobs_to_delete", any_order)


def compare(want: Any, got: Any) -> str | None:
    return difference(want, got(want.pop("anyOrder", ())))
