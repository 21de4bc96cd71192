"""The garbage collector: what the graph holds after events, and what its workers do."""

from __future__ import annotations

from typing import Any

from controlplane.api.object import Object
from controlplane.client.errors import ApiError
from controlplane.client.resources import Resource
from controlplane.controllers.common.effects import Retry
from controlplane.controllers.lifecycle.garbagecollector.controller import (
    GarbageCollectorController,
)
from tests.golden.controller_world import Queue, World, _key, folded
from tests.golden.runner import difference

ROUNDS = 3


def compare(want: Any, got: Any) -> str | None:
    any_order = want.pop("anyOrder", ())
    if "events" in got:
        got["events"] = folded(got["events"], any_order="events" in any_order)
    return difference(want, got)


def answer(case: Any) -> Any:
    world = World({}, case.get("failures", ()))
    controller = GarbageCollectorController(world, world.caches)
    for tree in case["live"]:
        kind = world.rest_mapper.of(tree["apiVersion"], tree["kind"])
        world.live[kind.resource.name, _key(tree)] = Object(tree)
    changes, to_delete, to_orphan = (
        world.queue(name)
        for name in ("graph_changes", "gc_attempt_to_delete", "gc_attempt_to_orphan")
    )
    heard: dict[tuple[str, str], Object] = {}
    for event in case["events"]:
        _hear(controller, heard, event)
        _process(world, controller, changes)
    found: dict[str, Any] = {
        "toDelete": _uids(to_delete),
        "toOrphan": _uids(to_orphan),
        "graph": _graph(controller),
        "rounds": [],
    }
    for _ in range(ROUNDS):
        if not to_delete.noted and not to_orphan.noted:
            break
        work = [
            *(("orphan", key) for key in _taken(to_orphan)),
            *(("delete", key) for key in _taken(to_delete)),
        ]
        actions = [_act(world, controller, changes, kind, key) for kind, key in work]
        found["rounds"].append(
            {"actions": actions, "toDelete": _uids(to_delete), "toOrphan": _uids(to_orphan)}
        )
    if world.events:
        found["events"] = world.events
    return found


def _hear(
    controller: GarbageCollectorController, heard: dict[tuple[str, str], Object], event: Any
) -> None:
    obj: Object = Object(event["object"])
    group, _, version = obj.api_version.rpartition("/")
    resource: Resource[Any] = Resource(group, version, obj.kind)
    handlers = controller.handlers_of(controller.host.rest_mapper.of(obj.api_version, obj.kind))
    place = resource.name, obj.key
    if event["type"] == "delete":
        heard.pop(place, None)
        handlers.deleted(obj, False)
    elif event["type"] == "add" or place not in heard:
        heard[place] = obj
        handlers.added(obj)
    else:
        old, heard[place] = heard[place], obj
        handlers.updated(old, obj)


def _process(world: World, controller: GarbageCollectorController, changes: Queue) -> None:
    for noted in changes.noted:
        controller.process_change(noted["key"])
    changes.noted.clear()


def _taken(queue: Queue) -> list[str]:
    keys = sorted(dict.fromkeys(noted["key"] for noted in queue.noted))
    queue.noted.clear()
    return keys


def _uids(queue: Queue) -> list[str]:
    return sorted(
        key.partition("#")[0] for key in dict.fromkeys(noted["key"] for noted in queue.noted)
    )


def _graph(controller: GarbageCollectorController) -> Any:
    return {
        uid: {
            "beingDeleted": node.being_deleted,
            "deletingDependents": node.deleting_dependents,
            "virtual": node.virtual,
            "dependents": sorted(each.identity.uid for each in node.dependents.values()),
        }
        for uid, node in controller.graph.nodes.items()
    }


def _act(
    world: World, controller: GarbageCollectorController, changes: Queue, kind: str, key: str
) -> Any:
    world.requests.clear()
    work = controller.attempt_to_delete if kind == "delete" else controller.attempt_to_orphan
    try:
        world.run(work(key))
    except (ApiError, Retry):
        requeue = True
    else:
        requeue = False
    action: dict[str, Any] = {"uid": key.partition("#")[0], "work": kind, "requeue": requeue}
    requests = [each for each in world.requests if each["verb"] != "get"]
    if requests:
        action["requests"] = folded(requests, any_order=True)
    if changes.noted:
        action["virtualDelete"] = [action["uid"] for _ in changes.noted]
        _process(world, controller, changes)
    return action
