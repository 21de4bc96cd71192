"""A controller and nothing else: caches from the case, a clock, and a client that records and answers.

The shapes are those of the README beside the data of area `controllers`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from attrs import define, field

from controlplane.api.object import Object
from controlplane.api.request import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Response
from controlplane.api.tree import Tree
from controlplane.api.view import View
from controlplane.client import resources
from controlplane.client.calls import Call, ObjectList
from controlplane.client.errors import ApiError, ConnectionLost
from controlplane.client.resources import Resource
from controlplane.cluster_config import served_kinds
from controlplane.controllers.common.controller import Caches
from controlplane.controllers.common.effects import Effect, Reconcile, Retry
from controlplane.controllers.common.features import of_release
from controlplane.controllers.common.rest_mapper import RESTMapper
from controlplane.decisions import Sleep, Together
from controlplane.gates import FixGates

T = TypeVar("T")
START: Final = 1_772_366_400_000_000_000  # 2026-03-01T12:00:00Z
SECOND: Final = 1_000_000_000
NO_REPLICAS: Final = {"replicas": 0}
"""The status of a ReplicaSet that is being created: the one field that Go always writes."""
PATCHES: Final = {STRATEGIC_MERGE_PATCH: "strategic", MERGE_PATCH: "merge", JSON_PATCH: "json"}
CLUSTER_SCOPED: Final = {"nodes", "namespaces"}
KINDS: Final[dict[str, Resource[Any]]] = {
    "Pod": resources.PODS,
    "Node": resources.NODES,
    "Namespace": resources.NAMESPACES,
    "Service": resources.SERVICES,
    "Endpoints": resources.ENDPOINTS,
    "EndpointSlice": resources.ENDPOINT_SLICES,
    "ReplicationController": resources.REPLICATION_CONTROLLERS,
    "ReplicaSet": resources.REPLICA_SETS,
    "Deployment": resources.DEPLOYMENTS,
    "StatefulSet": resources.STATEFUL_SETS,
    "DaemonSet": resources.DAEMON_SETS,
    "ControllerRevision": resources.CONTROLLER_REVISIONS,
    "Job": resources.JOBS,
    "CronJob": resources.CRON_JOBS,
    "PersistentVolumeClaim": resources.CLAIMS,
    "PodDisruptionBudget": resources.DISRUPTION_BUDGETS,
    "HorizontalPodAutoscaler": resources.AUTOSCALERS,
    "ResourceQuota": resources.RESOURCE_QUOTAS,
}


def complete(kind: str, tree: Tree) -> Tree:
    """The tree with the apiVersion and kind that the cases leave out."""
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, **tree}


def compact(value: Any) -> str:
    """The text by which lists without an order are sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def pruned(value: Any) -> Any:
    """Without what the cases leave out: nulls and empty status, resources, strategy, metadata; `data` is verbatim."""
    if isinstance(value, list):
        return [pruned(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {
        key: each if key == "data" else pruned(each)
        for key, each in value.items()
        if each is not None
    }
    for key in ("status", "resources", "strategy", "metadata"):
        if found.get(key) == {}:
            del found[key]
    return found


def merge_diff(old: Any, new: Any) -> Tree:
    """The RFC 7386 merge patch from `old` to `new`."""
    patch: Tree = {}
    for key in sorted({*old, *new}):
        if key not in new:
            patch[key] = None
        elif key not in old:
            patch[key] = new[key]
        elif isinstance(old[key], dict) and isinstance(new[key], dict):
            if inner := merge_diff(old[key], new[key]):
                patch[key] = inner
        elif old[key] != new[key]:
            patch[key] = new[key]
    return patch


def folded(entries: Sequence[Any], *, any_order: bool) -> list[Any]:
    """Equal neighbours as one entry with `n`; sorted first where there is no order."""
    ordered = sorted(entries, key=compact) if any_order else list(entries)
    found: list[Any] = []
    for entry in ordered:
        if found and {key: each for key, each in found[-1].items() if key != "n"} == entry:
            found[-1]["n"] = found[-1].get("n", 1) + 1
        else:
            found.append(dict(entry))
    return found


@define
class Queue:
    """A queue that only notes."""

    noted: list[Tree] = field(factory=list)
    counts: dict[str, int] = field(factory=dict)

    def add(self, key: str) -> None:
        self.noted.append({"op": "add", "key": key})

    def add_after(self, key: str, delay_ns: int, *, idle: bool = False) -> None:
        seconds = delay_ns / SECOND
        shown = int(seconds) if seconds == int(seconds) else seconds
        self.noted.append({"op": "addAfter", "key": key, "seconds": shown})

    def add_rate_limited(self, key: str, *, idle: bool = False) -> None:
        self.counts[key] = self.counts.get(key, 0) + 1
        self.noted.append({"op": "addRateLimited", "key": key})

    def forget(self, key: str) -> None:
        self.counts.pop(key, None)

    def failures(self, key: str) -> int:
        return self.counts.get(key, 0)


@define
class _Failure:
    scripted: Tree
    seen: int = 0

    def takes(self, call: Call) -> bool:
        """Whether this one answers; counts the requests that it is about."""
        script = self.scripted
        if (call.verb, call.resource.name) != (script["verb"], script["resource"]):
            return False
        if call.subresource != script.get("subresource", ""):
            return False
        if script.get("name") not in (None, "", call.name or _name(call.body)):
            return False
        after, times = script.get("after", 0), script.get("times", 0)
        if self.seen < after:
            self.seen += 1
            return False
        if times and self.seen >= after + times:
            return False
        self.seen += 1
        return True


def _name(body: Any) -> str:
    found = (body or {}).get("metadata", {}).get("name", "") if isinstance(body, dict) else ""
    return str(found)


class World:
    """Host, caches and API server of one controller.

    `objects` are what stands in the case, by kind; the caches hold them, and so does the server.
    """

    def __init__(
        self,
        objects: Mapping[str, Sequence[Tree]],
        failures: Sequence[Tree] = (),
        now: int = START,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.now = now
        self.features = {**of_release(), **(gates or {})}
        self.rest_mapper = RESTMapper(served_kinds())
        self.root_ca = ""
        self.fixes = FixGates()
        self.usage = None
        self.caches = Caches()
        self.queues: dict[str, Queue] = {}
        self.events: list[Tree] = []
        self.requests: list[Tree] = []
        self.objects = {
            (KINDS[kind].name, _key(tree)): Object[View](complete(kind, tree))
            for kind, trees in objects.items()
            for tree in trees
        }
        self.live = dict(self.objects)
        self._failures = [_Failure(each) for each in failures]

    def fill(self) -> None:
        """Bring the caches that were asked for up to what stands in the case."""
        for resource, store in self.caches.stores.items():
            for (name, _), obj in self.objects.items():
                if name == resource.name:
                    store.put(obj)

    def see_live(self, kind: str, case: Tree, main: Tree) -> None:
        """What a live read of the main object gives: `live` of the case, nothing, or what the cache holds."""
        place = KINDS[kind].name, _key(main)
        if case.get("liveGone"):
            del self.live[place]
        elif "live" in case:
            self.live[place] = Object(complete(kind, case["live"]))

    def put_live(self, resource: Resource[Any], tree: Tree) -> None:
        """Put an object of any resource on the server."""
        self.live[resource.name, _key(tree)] = Object(tree)

    def add_live(self, kind: str, tree: Tree) -> None:
        """Put an object on the server that no cache shows."""
        self.live[KINDS[kind].name, _key(tree)] = Object(complete(kind, tree))

    # ------------------------------------------------------------------ host

    def queue(self, name: str) -> Queue:
        return self.queues.setdefault(name, Queue())

    def event(self, about: View | Tree, kind: str, reason: str, message: str) -> None:
        if isinstance(about, dict):
            name = f"{about['kind']}/{about['name']}"
        else:
            name = f"{about.kind}/{about.name}"
        self.events.append({"object": name, "type": kind, "reason": reason, "message": message})

    def log(self, event: str, about: View, data: Tree) -> None:
        pass

    # ------------------------------------------------------------------ running

    def run(self, reconcile: Reconcile[T]) -> T:
        """Carry a reconcile out; parts side by side one after the other."""
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                effect = reconcile.send(answer) if failure is None else reconcile.throw(failure)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = failure = None
            try:
                answer = self._carry_out(effect)
            except (ApiError, ConnectionLost) as error:
                failure = error

    def attempt(self, reconcile: Reconcile[Any]) -> str | None:
        """Carry a reconcile out; the text of what it failed with, if it did."""
        try:
            self.run(reconcile)
        except (ApiError, ConnectionLost, Retry) as error:
            return str(error)
        return None

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Together):
            return [self.run(part) for part in effect.parts]
        if isinstance(effect, Sleep):
            self.now += effect.duration_ns
        if not isinstance(effect, Call):
            return None
        return self._answer(effect)

    # ------------------------------------------------------------------ server

    def _answer(self, call: Call) -> Any:
        entry = self._entry(call)
        if call.verb != "list":
            self.requests.append(entry)
        status = self._refusal(call)
        if status is not None:
            if not (call.verb == "get" and status["code"] == 404 and "namespace" not in entry):
                entry["failed"] = status["reason"]  # an absent object that is read is not noted
            raise ApiError(status["code"], status)
        place = call.resource.name, f"{call.namespace}/{call.name}".lstrip("/")
        if call.verb == "get":
            return self.live[place]
        if call.verb == "list":
            found = [
                obj
                for (name, _), obj in self.live.items()
                if name == call.resource.name and call.namespace in ("", obj.namespace)
            ]
            return ObjectList(found, "1")
        if call.verb == "create":
            body = call.body
            if not _name(body) and not call.name:
                metadata = body.get("metadata", {})
                generated = f"{metadata.get('generateName', '')}xxxxx"
                body = {**body, "metadata": {**metadata, "name": generated}}
            if call.namespace:
                body = {**body, "metadata": {**body["metadata"], "namespace": call.namespace}}
            return Object[View](self._stamped(call, body))
        if call.verb == "update":
            return Object[View](self._stamped(call, call.body))
        if call.verb == "patch":
            return self.live.get(place) or Object[View]({})
        return Response(200, {})

    def _stamped(self, call: Call, body: Tree) -> Tree:
        kind = next((kind for kind, found in KINDS.items() if found == call.resource), "")
        return {"apiVersion": call.resource.api_version, "kind": kind, **body}

    def _refusal(self, call: Call) -> Tree | None:
        for failure in self._failures:
            if failure.takes(call):
                status: Tree = failure.scripted["status"]
                return status
        resource, name = call.resource, call.name or _name(call.body)
        if not call.namespace and resource.name not in CLUSTER_SCOPED:
            return not_found(resource, name, unknown_path=True, verb=call.verb)
        place = resource.name, f"{call.namespace}/{name}".lstrip("/")
        if call.verb == "create" and not call.subresource and name and place in self.live:
            return {
                "code": 409,
                "reason": "AlreadyExists",
                "status": "Failure",
                "message": f'{qualified(resource)} "{name}" already exists',
            }
        if call.verb == "get" and place not in self.live:
            return not_found(resource, name)
        return None

    def _entry(self, call: Call) -> Tree:
        entry: Tree = {"verb": call.verb, "resource": call.resource.name}
        if call.subresource:
            entry["subresource"] = call.subresource
        name = call.name or (_name(call.body) if call.verb == "update" else "")
        if name:
            entry["name"] = name
            if not call.namespace and call.resource.name not in CLUSTER_SCOPED:
                entry["namespace"] = ""
        if call.verb == "create":
            entry["object"] = _without_zero_status(shown(call.body))
        elif call.verb == "update":
            known = self.objects.get((call.resource.name, _key(call.body)))
            if known is None:
                entry["object"] = shown(call.body)
            else:
                entry["diff"] = merge_diff(shown(known.tree), shown(call.body))
        elif call.verb == "patch":
            entry["patchType"] = PATCHES[call.content_type]
            entry["patch"] = call.body
        elif call.verb in {"delete", "deletecollection"}:
            options = {
                key: value for key, value in call.body.items() if key not in {"apiVersion", "kind"}
            }
            if options:
                entry["options"] = options
        return entry


def shown(tree: Tree) -> Tree:
    """A body as the cases show it."""
    found: Tree = pruned(
        {key: value for key, value in tree.items() if key not in {"apiVersion", "kind"}}
    )
    return found


def _key(tree: Tree) -> str:
    metadata = tree.get("metadata", {})
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}".lstrip("/")


def qualified(resource: Resource[Any]) -> str:
    """`replicasets.apps`, or `pods`."""
    return f"{resource.name}.{resource.group}" if resource.group else resource.name


def not_found(
    resource: Resource[Any], name: str, *, unknown_path: bool = False, verb: str = "get"
) -> Tree:
    """The status of a request about what does not exist, or for a path that does not."""
    message = f'{qualified(resource)} "{name}" not found'
    if unknown_path:
        about = f"{verb} {qualified(resource)} {name}".rstrip()
        message = f"the server could not find the requested resource ({about})"
    return {"code": 404, "reason": "NotFound", "status": "Failure", "message": message}


def outcome(world: World, error: str | None, queue: str, any_order: Sequence[str]) -> Tree:
    """What a sync did, in the shape of `want`."""
    lists = {
        "requests": world.requests,
        "events": world.events,
        "queue": world.queue(queue).noted,
    }
    found: Tree = {
        name: folded(entries, any_order=name in any_order)
        for name, entries in lists.items()
        if entries or name == "requests"
    }
    if error is not None:
        found["error"] = error
    return found


def _without_zero_status(tree: Tree) -> Tree:
    if tree.get("status") != NO_REPLICAS:
        return tree
    return {key: value for key, value in tree.items() if key != "status"}


def wanted(want: Tree) -> tuple[Tree, Sequence[str]]:
    """What a case wants, without what bodies of creations hold beyond ours; and its lists without order."""
    found = dict(want)
    any_order: Sequence[str] = found.pop("anyOrder", ())
    found["requests"] = [
        {**entry, "object": _without_zero_status(entry["object"])}
        if entry["verb"] == "create"
        else entry
        for entry in found["requests"]
    ]
    return found, any_order
