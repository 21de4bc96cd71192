"""Events of both groups. Upstream: pkg/registry/core/event, pkg/apis/core/validation/events.go."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age, name_of
from controlplane.apiserver.kinds.checks import immutable, present, problems, when
from controlplane.apiserver.kinds.kind import META, Kind, value_at
from controlplane.apiserver.kinds.metadata import change_errors, finalizer_errors, validate_meta
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required
from controlplane.apiserver.schema.internal_form import internal

__all__ = ["EVENTS", "EVENTS_V1"]


def validate_event(tree: Tree, ctx: Any = None) -> list[FieldError]:
    """Return the errors of an event, by the older rules where it comes in the core group."""
    if ctx is None or ctx.info.group == "" or ctx.request.verb not in ("create", "patch"):
        return _event(tree, "reportingComponent")
    errors = _event(tree, "reportingController")
    errors += validate_meta(tree["metadata"], names.dns_subdomain, namespaced=True)
    errors += finalizer_errors(tree["metadata"]) + _series(tree)
    errors += present(tree, "eventTime", "")
    kind = tree.get("type", "")
    errors += when(
        kind not in ("Normal", "Warning"), invalid, "type", "", f"has invalid value: {kind}"
    )
    for key in ("firstTimestamp", "lastTimestamp", "count", "source"):
        errors += when(tree.get(key), invalid, key, "", "needs to be unset")
    return errors


def _event(tree: Tree, controller: str) -> list[FieldError]:
    """Return the errors of events of either group; those with an exact time are of the newer form."""
    given = (tree.get("involvedObject") or {}).get("namespace", "")
    namespace, exact = tree["metadata"].get("namespace", ""), bool(tree.get("eventTime"))
    other = "kube-system" if exact else ""
    fits = namespace in (other, "default") if not given else exact or given == namespace
    text = "does not match event.namespace"
    errors = when(not fits, invalid, "involvedObject.namespace", given, text)
    return errors + _new_event(tree, controller) if exact else errors


_KEPT = (
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
"""The fields that an update in the newer group may not change (ours, then upstream's name); reason is listed twice.
"""


def validate_event_update(new: Tree, old: Tree, ctx: Any) -> list[FieldError]:
    """Return the errors of a changed event: in the newer group only its series may change."""
    if ctx.info.group == "":
        return validate_event(new, ctx)
    errors = _event(new, "reportingController")
    errors += change_errors(new["metadata"], old["metadata"]) + finalizer_errors(new["metadata"])
    if new.get("series") != old.get("series"):
        errors += _series(new)
    for key, name in _KEPT:
        errors += immutable(_shown(new, key), _shown(old, key), name)
    return errors


def _shown(tree: Tree, key: str) -> Any:
    """A field as messages quote it."""
    kind = _INTERNAL.get(key)
    if kind is None:
        return tree.get(key, _ZERO.get(key))
    return None if key == "related" and key not in tree else internal(kind, tree.get(key) or {})


_INTERNAL = {
    "involvedObject": "ObjectReference",
    "related": "ObjectReference",
    "source": "EventSource",
}


_ZERO: dict[str, Any] = {
    "reason": "",
    "message": "",
    "count": 0,
    "type": "",
    "action": "",
    "reportingComponent": "",
    "reportingInstance": "",
}


def _new_event(tree: Tree, path: str) -> list[FieldError]:
    controller = tree.get("reportingComponent", "")
    errors = [] if controller else [required(path)]
    errors += problems(path, controller, names.qualified_name(controller))
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
    text = "can have at most 1024 characters"
    errors += when(len(tree.get("message", "")) > 1024, invalid, "message", "", text)
    return errors


def _series(tree: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    if tree.get("series") is not None:
        errors += when(
            tree["series"].get("count", 0) < 2, invalid, "series.count", "", "should be at least 2"
        )
        errors += when(
            not tree["series"].get("lastObservedTime"), required, "series.lastObservedTime"
        )
    return errors


class EventStrategy(Strategy):
    """Events are kept for an hour and belong to no owner."""

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        return validate_event(tree, ctx)

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return validate_event_update(new, old, ctx)


def _row(tree: Tree, now: int) -> list[Any]:
    first = tree.get("firstTimestamp") or tree.get("eventTime")
    series = tree.get("series")
    if series is None:
        last, count = tree.get("lastTimestamp") or first, tree.get("count") or 1
    else:
        last, count = series.get("lastObservedTime"), series.get("count") or 0
    source = tree.get("source") or {}
    component = source.get("component") or tree.get("reportingComponent") or ""
    host = source.get("host") or tree.get("reportingInstance") or ""
    target = tree.get("involvedObject") or {}
    shown = f"{target.get('kind', '').lower()}/{target.get('name', '')}"
    return [
        age(last, now),
        tree.get("type", ""),
        tree.get("reason", ""),
        shown,
        target.get("fieldPath", ""),
        ", ".join(part for part in (component, host) if part),
        tree.get("message", "").strip(),
        age(first, now),
        count,
        name_of(tree),
    ]


_OBJECT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
"""The parts of the reference to the object that an event is about."""


def _selected(tree: Tree, path: str) -> str:
    """The text of a selectable field; the source of a new event is its controller."""
    if path == "source":
        return value_at(tree, "source.component") or value_at(tree, "reportingComponent")
    return value_at(tree, path)


EVENTS = Kind(
    strategy=EventStrategy(
        has_status=False,
        create_on_update=True,
        unsupported_gc=True,
        ttl_seconds=3600,
        meta_steps="",
        meta_apart=True,
    ),
    row=_row,
    selectable={
        **META,
        **{f"involvedObject.{part}": "" for part in _OBJECT},
        "reason": "",
        "reportingComponent": "",
        "source": "",
        "type": "",
    },
    value=_selected,
)

EVENTS_V1 = Kind(
    selectable={
        **META,
        **{f"regarding.{part}": "" for part in _OBJECT},
        "reason": "",
        "reportingController": "",
        "type": "",
    },
    aliases={
        **{f"regarding.{part}": f"involvedObject.{part}" for part in _OBJECT},
        "reportingController": "reportingComponent",
    },
    value=_selected,
)
