"""Validation of events. Upstream: pkg/apis/core/validation/events.go."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.shared import immutable
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    invalid,
    required,
)

__all__ = ["validate_event", "validate_event_update"]


# -- events --------------------------------------------------------------------------------------


def validate_event(tree: Tree, ctx: Any = None) -> list[FieldError]:
    """An event, by the older rules where it comes in the core group."""
    errors: list[FieldError] = []
    involved = tree.get("involvedObject") or {}
    meta = tree["metadata"]
    namespace = meta.get("namespace", "")
    legacy = ctx is None or ctx.info.group == "" or ctx.request.verb != "create"
    if legacy:
        errors += _event_namespace(involved, namespace)
        return errors
    if namespace != "default" and involved.get("namespace", "") != namespace:
        if involved.get("namespace"):
            errors.append(invalid("involvedObject.namespace",
                                  involved.get("namespace", ""), "does not match event.namespace"
                                  ))  # fmt: skip
    if not tree.get("eventTime"):
        errors.append(required("eventTime"))
    errors += _new_event(tree)
    return errors


_KEPT = (
    ("involvedObject", "involvedObject"), ("reason", "reason"), ("message", "message"),
    ("source", "source"), ("firstTimestamp", "firstTimestamp"), ("lastTimestamp", "lastTimestamp"),
    ("count", "count"), ("reason", "reason"), ("type", "type"), ("eventTime", "eventTime"),
    ("action", "action"), ("related", "related"), ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)  # fmt: skip
"""What an update in the newer group may not change (ours, then upstream's name); reason counts twice."""


def validate_event_update(new: Tree, old: Tree, ctx: Any) -> list[FieldError]:
    """A changed event: in the newer group only its series may change."""
    if ctx.info.group == "":
        return validate_event(new, ctx)
    errors = _event_namespace(new.get("involvedObject") or {}, new["metadata"].get("namespace", ""))
    errors += _new_event({**new, "series": None})
    if new.get("series") != old.get("series"):
        errors += _series(new)
    for key, name in _KEPT:
        errors += immutable(new.get(key, _ZERO.get(key)), old.get(key, _ZERO.get(key)), name)
    return errors


_ZERO: dict[str, Any] = {
    "reason": "", "message": "", "count": 0, "type": "", "action": "", "reportingComponent": "",
    "reportingInstance": "",
}  # fmt: skip


def _event_namespace(involved: Tree, namespace: str) -> list[FieldError]:
    given = involved.get("namespace", "")
    if not given:
        if namespace not in ("", "default"):
            return [invalid("involvedObject.namespace", given, "does not match event.namespace")]
        return []
    if given != namespace and not (not given and namespace == "default"):
        return [invalid("involvedObject.namespace", given, "does not match event.namespace")]
    return []


def _new_event(tree: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = tree.get("reportingComponent", "")
    if not controller:
        errors.append(required("reportingController"))
    else:
        errors += [invalid("reportingController", controller, p)
                   for p in names.qualified_name(controller)]  # fmt: skip
    instance = tree.get("reportingInstance", "")
    if not instance:
        errors.append(required("reportingInstance"))
    elif len(instance) > 128:
        errors.append(invalid("reportingInstance", "", "can have at most 128 characters"))
    if not tree.get("action"):
        errors.append(required("action"))
    elif len(tree["action"]) > 128:
        errors.append(invalid("action", "", "can have at most 128 characters"))
    if not tree.get("reason"):
        errors.append(required("reason"))
    elif len(tree["reason"]) > 128:
        errors.append(invalid("reason", "", "can have at most 128 characters"))
    if len(tree.get("message", "")) > 1024:
        errors.append(invalid("message", "", "can have at most 1024 characters"))
    kind = tree.get("type", "")
    if kind not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    return errors + _series(tree)


def _series(tree: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    if tree.get("series") is not None:
        if not tree["series"].get("count"):
            errors.append(required("series.count"))
        if not tree["series"].get("lastObservedTime"):
            errors.append(required("series.lastObservedTime"))
    return errors
