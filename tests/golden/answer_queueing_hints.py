"""The hint function each plugin registers for an event."""

from __future__ import annotations

from typing import Any

from controlplane.api.kinds import view_class
from controlplane.api.pod import Pod
from controlplane.scheduler.framework import events as ev
from tests.golden.scheduler_world import World, framework_of

Json = Any

_GROUPS = {
    "storage.k8s.io/CSINode": ("storage.k8s.io/v1", "CSINode"),
    "storage.k8s.io/CSIDriver": ("storage.k8s.io/v1", "CSIDriver"),
    "storage.k8s.io/VolumeAttachment": ("storage.k8s.io/v1", "VolumeAttachment"),
    "storage.k8s.io/CSIStorageCapacity": ("storage.k8s.io/v1", "CSIStorageCapacity"),
    "storage.k8s.io/StorageClass": ("storage.k8s.io/v1", "StorageClass"),
}


def _object(resource: str, tree: Json) -> Any:
    if tree is None:
        return None
    version, kind = _GROUPS.get(resource, ("v1", resource))
    return view_class(version, kind).from_tree(tree)


def answer(case_in: Json) -> Json:
    """Our value for `want`."""
    world = World(case_in.get("cluster", {}))
    framework = framework_of(case_in, world.handle)
    world.update_snapshot()
    plugin = next(p for p in framework.all_plugins if p.name == case_in["plugin"])
    event = case_in["event"]
    action = ev.ACTIONS[event["action"]]
    registered = next(
        r
        for r in plugin.events_to_register()
        if r.event.resource == event["resource"] and r.event.action & action == action
    )
    if registered.hint is None:
        return {"hint": "Queue", "noFunction": True}
    old, new = (_object(event["resource"], case_in.get(key)) for key in ("old", "new"))
    try:
        hint = registered.hint(Pod.from_tree(case_in["pod"]), old, new)
    except ev.HintError as failed:
        return {"hint": "Queue", "error": str(failed)}
    return {"hint": "Queue" if hint == ev.Hint.QUEUE else "Skip"}
