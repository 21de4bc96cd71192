"""The StatefulSet controller: revisions, and whole syncs."""

from __future__ import annotations

from typing import Any

from controlplane.api.apps import StatefulSet
from controlplane.controllers.common import history
from controlplane.controllers.common.go_json import compact_json
from controlplane.controllers.workloads.statefulset.controller import StatefulSetController
from tests.golden.controller_world import START, World, complete, outcome, shown
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    return _revision(case) if "revision" in case else _sync(case)


def compare(want: Any, got: Any) -> str | None:
    if "requests" in want:
        got = got(want.pop("anyOrder", ()))
    return difference(want, got)


def _revision(case: Any) -> Any:
    found = StatefulSet.from_tree(complete("StatefulSet", case["statefulSet"]))
    template = found.tree["spec"]["template"]
    count = case.get("collisionCount")
    made = history.new_revision(found, template, case["revision"], count)
    data = made.data or {}
    return {
        "controllerRevision": shown(made.tree) | {"data": data},
        "hash": history.data_hash(data, count),
        "bytes": len(compact_json(data)),
    }


def _sync(case: Any) -> Any:
    main = case["statefulSet"]
    world = World(
        {
            "StatefulSet": [main],
            "Pod": case["pods"],
            "ControllerRevision": case["revisions"],
            "PersistentVolumeClaim": case.get("claims", ()),
        },
        case.get("failures", ()),
        START,
        case.get("gates"),
    )
    world.see_live("StatefulSet", case, main)
    controller = StatefulSetController(world, world.caches)
    world.fill()
    key = f"{main['metadata']['namespace']}/{main['metadata']['name']}"
    error = world.attempt(controller.sync(key))
    return lambda any_order: outcome(world, error, "statefulset", any_order)
