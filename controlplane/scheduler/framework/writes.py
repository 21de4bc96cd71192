"""Writes of the scheduler's decisions to the API server: writes of plugins, events, patches of a pod's status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from controlplane.api.times import format_time

if TYPE_CHECKING:
    from controlplane.api.view import View

if TYPE_CHECKING:
    pass


@attrs.frozen
class ApiWrite:
    """A write a plugin wants made: an actor carries it out."""

    verb: str
    """create, update, patch or delete."""
    resource: str
    namespace: str
    name: str
    body: Any
    subresource: str = ""


@attrs.frozen
class EventIntent:
    """An Event to record about a pod."""

    regarding: View
    """The object the event is about."""
    type: str
    reason: str
    action: str
    note: str


@attrs.frozen
class StatusPatch:
    """A strategic merge patch of a pod's status. It goes by name; what it was made from it only knows (gate 140177)."""

    namespace: str
    name: str
    patch: dict[str, Any]
    uid: str = ""
    version: str = ""


def condition_patch(
    conditions: Sequence[Mapping[str, Any]], wanted: Mapping[str, str], generation: int, now: int
) -> dict[str, Any]:
    """The `conditions` part of a strategic merge patch that makes `wanted` true; {} for none."""
    kind = wanted["type"]
    order = [{"type": each.get("type", "")} for each in conditions]
    for old in conditions:
        if old.get("type") != kind:
            continue
        changed = {
            field: wanted[field]
            for field in ("status", "reason", "message")
            if (old.get(field) or "") != wanted[field]
        }
        if not changed:
            return {}
        if "status" in changed:
            changed["lastTransitionTime"] = format_time(now)
        entry: dict[str, Any] = {"type": kind, **changed}
        if generation and old.get("observedGeneration") != generation:
            entry["observedGeneration"] = generation
        return {"$setElementOrder/conditions": order, "conditions": [entry]}
    new: dict[str, Any] = {
        "lastProbeTime": None,
        "lastTransitionTime": format_time(now),
        **wanted,
    }
    if generation:
        new["observedGeneration"] = generation
    if not conditions:
        return {"conditions": [new]}
    return {"$setElementOrder/conditions": [*order, {"type": kind}], "conditions": [new]}
