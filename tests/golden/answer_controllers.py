"""Whole conversations with scheduler and controllers: what stands when nothing changes any more.

Compared are the objects (metadata without identity; of pods, Deployments and other kinds with
templates the parts that the recordings keep) and the events of each.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from tests.golden import answer_community_controllers
from tests.golden.controller_world import compact
from tests.golden.controllers_world import RANDOM, Conversation
from tests.golden.runner import UNANSWERED, difference

DROPPED = ("uid", "resourceVersion", "managedFields", "creationTimestamp", "selfLink")
ANYWHERE = ("resourceVersion",)
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NODE = re.compile(r"\bbase-[012]\b")
POD_IP = re.compile(r"\b10\.1\.\d+\.\d+\b")
POD_SPEC = (
    "nodeName",
    "hostname",
    "subdomain",
    "env",
    "tolerations",
    "images",
    "nodeSelector",
    "affinity",
    "priority",
)
UNAVAILABLE = re.compile(r"0/\d+ nodes are available: .*")
ANONYMOUS = "<rand>"
REPEATED = ("FailedScheduling", "FailedCreate")
"""Warnings whose number depends on how long a settle took."""


def answer(case: Any) -> Any:
    if case.get("kind") in ("podgroup", "elasticquota"):
        return answer_community_controllers.answer(case)
    if any("nodeStopsHeartbeat" in step for step in case["steps"]):
        return UNANSWERED  # the recording's node monitor has other periods than the default ones
    return Conversation(case).run()


def compare(want: Any, got: Any) -> str | None:
    if "settled" not in want:
        return difference(want, got)
    if len(want["settled"]) != len(got):
        return f"settled {len(got)} times, expected {len(want['settled'])}"
    for number, (wanted, seen) in enumerate(zip(want["settled"], got, strict=True)):
        found = _differs(wanted, seen, f"settled[{number}]")
        if found is not None:
            return found
    return None


def _differs(wanted: Any, seen: Any, path: str) -> str | None:
    kinds = {each["kind"] for each in wanted["objects"]} - {"Missing"}
    skipped = set(wanted.get("unstableKinds", ()))
    names = {
        (each["kind"], each["metadata"].get("name"))
        for each in wanted["objects"]
        if each["kind"] in ("Node", "PersistentVolume", "Namespace", "ConfigMap")
    }
    ours = [_shown(tree) for tree in seen["objects"]]
    ours = [
        each
        for each in ours
        if each["kind"] not in {*skipped, "ServiceAccount"}
        and (
            each["kind"] not in ("Node", "PersistentVolume", "Namespace", "ConfigMap")
            or (each["kind"], each["metadata"]["name"]) in names
        )
    ]
    theirs = [
        each
        for each in wanted["objects"]
        if each["kind"] not in ("Missing", "ServiceAccount", *skipped)
    ]
    theirs = [_sorted_conditions(_messages(each)) for each in theirs]
    key = lambda each: (each["kind"], each["metadata"]["name"], compact(each))  # noqa: E731
    listed = sorted(f"{each['kind']}/{each['metadata']['name']}" for each in theirs)
    have = sorted(f"{each['kind']}/{each['metadata']['name']}" for each in ours)
    if listed != have:
        missing = [each for each in listed if listed.count(each) > have.count(each)]
        extra = [each for each in have if have.count(each) > listed.count(each)]
        return f"{path}.objects: lacks {sorted(set(missing))}, has {sorted(set(extra))} too many"
    for one, other in zip(sorted(theirs, key=key), sorted(ours, key=key), strict=True):
        found = difference(one, other, f"{path}.{one['kind']}/{one['metadata']['name']}")
        if found is not None:
            return found
    assert kinds is not None
    return _events_differ(wanted, seen["events"], f"{path}.events")


TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


def _text(value: str) -> str:
    value = UNAVAILABLE.sub("<why no node fits>", value)  # the recordings shared a server's nodes
    if TIME.match(value):
        return "<time>"
    value = UID.sub("<uid>", value)
    return POD_IP.sub("<podIP>", NODE.sub("<node>", RANDOM.sub("<rand>", value)))


def _messages(value: Any) -> Any:
    """A wanted object with its messages as `_text` has them."""
    if isinstance(value, dict):
        return {key: _messages(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_messages(each) for each in value]
    return UNAVAILABLE.sub("<why no node fits>", value) if isinstance(value, str) else value


def _normal(value: Any, inside: str = "") -> Any:
    if isinstance(value, dict):
        dropped = ANYWHERE if inside not in ("metadata", "ownerReferences") else DROPPED
        return {
            _text(key): _normal(each, key)
            for key, each in value.items()
            if key not in dropped or not isinstance(each, (str, list))
        }
    if isinstance(value, list):
        return [_normal(each, inside) for each in value]
    return _text(value) if isinstance(value, str) else value


def _shown(tree: Any) -> Any:
    kind = tree["kind"]
    found = {key: each for key, each in tree.items() if key in ("apiVersion", "kind", "metadata")}
    spec, status = tree.get("spec") or {}, tree.get("status")
    if kind == "Pod":
        containers = spec["containers"]
        env = [each for container in containers for each in container.get("env") or ()]
        shown = {key: spec[key] for key in POD_SPEC if key in spec}
        shown["images"] = [container["image"] for container in containers]
        if env:
            shown["env"] = env
        conditions = [
            {key: each[key] for key in ("type", "status", "reason", "message") if each.get(key)}
            for each in (status or {}).get("conditions") or ()
        ]
        found["spec"] = shown
        found["status"] = {
            "phase": status.get("phase"),
            "reason": status.get("reason"),
            "message": status.get("message"),
            "conditions": conditions,
        }
    elif kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"):
        found["spec"] = {key: each for key, each in spec.items() if key != "template"}
        if kind == "ReplicaSet":
            found["spec"].pop("minReadySeconds", None)
            found["spec"]["image"] = spec["template"]["spec"]["containers"][0]["image"]
        found["status"] = status or {}
    elif kind == "ControllerRevision":
        found["revision"] = tree["revision"]
    elif kind == "Service":
        found["spec"] = {key: spec[key] for key in ("type", "selector") if key in spec}
        found["status"] = status or {}
    elif kind == "Node":
        found["spec"] = {key: spec[key] for key in ("taints",) if key in spec}
    elif kind == "ServiceAccount":
        pass
    else:
        found = dict(tree)
    if kind == "EndpointSlice":  # the recordings leave out how often and when it was written
        metadata = {key: each for key, each in tree["metadata"].items() if key != "generation"}
        if "annotations" in metadata:
            known = metadata["annotations"]
            metadata["annotations"] = {
                key: each for key, each in known.items() if key != TRIGGER_TIME
            }
        found["metadata"] = metadata
    return _sorted_conditions(_normal(found))


def _sorted_conditions(tree: Any) -> Any:
    status = tree.get("status")
    if isinstance(status, dict) and status.get("conditions"):
        conditions = sorted(status["conditions"], key=lambda each: str(each["type"]))
        tree = {**tree, "status": {**status, "conditions": conditions}}
    if tree.get("kind") == "EndpointSlice":  # recorded sorted: what is null came out as a list
        return {**tree, "endpoints": sorted(tree.get("endpoints") or (), key=compact)}
    if tree.get("endpoints"):
        tree = {**tree, "endpoints": sorted(tree["endpoints"], key=compact)}
    return tree


def _events_differ(wanted: Any, events: Any, path: str) -> str | None:
    theirs = _messages(wanted["events"])
    unstable = wanted.get("unstableEvents", ())
    any_order = wanted.get("eventsAnyOrder", ())
    ours: dict[str, list[Any]] = {}
    for event in events:
        about = event["involvedObject"]
        name = _text(f"{about['kind']}/{about['name']}")
        component = (event.get("source") or {}).get("component") or event.get("reportingComponent")
        shown = {
            "component": component,
            "message": _text(event["message"]),
            "reason": event["reason"],
            "type": event["type"],
        }
        ours.setdefault(name, []).append(shown)
    for name in sorted({*theirs, *ours}):
        if name in unstable:
            continue
        one, other = theirs.get(name, []), ours.get(name, [])
        if ANONYMOUS in name or name in any_order:
            one = sorted((each for entry in one for each in _repeated(entry)), key=compact)
            other = sorted(other, key=compact)
        found = difference(_ordered(one), _ordered(other), f"{path}.{name}")
        if found is not None:
            return found
    return None


def _ordered(events: list[Any]) -> list[Any]:
    """Neighbours with one reason sorted: upstream's parallel requests have no order."""
    found: list[Any] = []
    for (_, reason), same in groupby(events, key=lambda each: (each["component"], each["reason"])):
        ordered = sorted(same, key=lambda each: _text(str(each["message"])))
        if reason in REPEATED:
            ordered = [next(one) for _, one in groupby(ordered)]
        found += ordered
    return found


def _repeated(entry: Any) -> list[Any]:
    bare = {key: each for key, each in entry.items() if key != "n"}
    return [bare] * entry.get("n", 1)
