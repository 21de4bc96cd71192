"""The API server of cases with writes: it stores, checks versions and UIDs, and fails where it is told to.

No validation, no defaults, no garbage collection; see the README beside the data of area `dra`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.api.view import View
from controlplane.apiserver.requests.patching.strategic import strategic_patch
from controlplane.apiserver.schema.resources import ResourceInfo, every_resource
from controlplane.apiserver.schema.types import struct_type
from controlplane.client.calls import Call
from controlplane.client.errors import ApiError
from controlplane.decisions import Locked

R = TypeVar("R")
Key = tuple[str, str]
DELETED_AT: Final = "2026-01-02T03:04:05Z"
VERSIONS: Final = {
    "nodes": ("", "v1"),
    "pods": ("", "v1"),
    "podgroups": ("scheduling.k8s.io", "v1alpha2"),
    "poddisruptionbudgets": ("policy", "v1"),
    "deviceclasses": ("resource.k8s.io", "v1"),
    "resourceclaims": ("resource.k8s.io", "v1"),
    "resourceslices": ("resource.k8s.io", "v1"),
}
CONFLICT: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class Change(NamedTuple):
    """A notification of an informer: the object before, and after."""

    resource: str
    old: Object[View] | None
    new: Object[View] | None


@cache
def info_of(resource: str) -> ResourceInfo:
    """The entry of a resource in the table of what is served."""
    wanted = VERSIONS[resource]
    for info in every_resource():
        if info.resource == resource and (info.group, info.version) == wanted:
            return info
    raise KeyError(resource)


def key_of(tree: Tree) -> Key:
    """Namespace and name."""
    metadata = tree["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")


def perform(
    steps: Generator[Any, Any, R], server: FakeServer, wait: Callable[[Any], None] | None = None
) -> R:
    """Run a decision: calls go to the server, points are passed over, `wait` is given other effects."""
    answer: Any = None
    failure: ApiError | None = None
    while True:
        try:
            effect = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as end:
            result: R = end.value
            return result
        answer = failure = None
        if isinstance(effect, Call):
            try:
                answer = server.call(effect)
            except ApiError as error:
                failure = error
        elif wait is not None:
            answer = wait(effect)
        else:
            assert type(effect) is not Locked


class FakeServer:
    """Objects by resource, the writes so far, and changes that no informer has heard of."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[Key, Object[View]]] = {name: {} for name in VERSIONS}
        self.writes: list[Tree] = []
        self.changes: list[Change] = []
        self.failures: dict[str, list[str]] = {}
        self._version = 0
        self._uids = 0
        self._names = 0

    # ------------------------------------------------------------------ by other clients

    def get(self, resource: str, key: Key) -> Object[View] | None:
        """An object, None if there is none."""
        return self.objects[resource].get(key)

    def put(self, resource: str, tree: Tree) -> Object[View]:
        """Create or replace an object."""
        metadata = dict(tree["metadata"])
        key = key_of(tree)
        old = self.objects[resource].get(key)
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        info = info_of(resource)
        whole = {
            **tree,
            "apiVersion": info.api_version,
            "kind": info.kind,
            "metadata": metadata,
        }
        if old is not None and metadata.get("deletionTimestamp") and not self._held(whole):
            self.remove(resource, key)
            return Object(whole)
        new: Object[View] = Object(whole)
        self.objects[resource][key] = new
        self.changes.append(Change(resource, old, new))
        return new

    @staticmethod
    def _held(tree: Tree) -> bool:
        return bool(tree["metadata"].get("finalizers")) or tree["kind"] == "Pod"

    def remove(self, resource: str, key: Key) -> None:
        """Take an object out at once."""
        old = self.objects[resource].pop(key, None)
        if old is not None:
            self.changes.append(Change(resource, old, None))

    def asked_to_delete(self, resource: str, key: Key) -> None:
        """Delete an object on behalf of the case: errors are injected here, too; one that is gone stays so."""
        waiting = self.failures.get(f"delete/{resource}")
        text = waiting.pop(0) if waiting else "ok"
        if text == "ok" and key in self.objects[resource]:
            self.delete(resource, key)

    def delete(self, resource: str, key: Key) -> None:
        """Delete an object as a client would: finalizers, and the node of a pod, only mark it."""
        old = self.objects[resource][key]
        waits = bool(old.tree["metadata"].get("finalizers"))
        if resource == "pods":
            waits = waits or bool((old.tree.get("spec") or {}).get("nodeName"))
        if not waits:
            self.remove(resource, key)
        elif not old.tree["metadata"].get("deletionTimestamp"):
            metadata = {**old.tree["metadata"], "deletionTimestamp": DELETED_AT}
            self.put(resource, {**old.tree, "metadata": metadata})

    # ------------------------------------------------------------------ requests

    def call(self, call: Call) -> Object[View]:
        """Answer a request. Raises ApiError."""
        resource, name = call.resource.name, call.name
        if not name and isinstance(call.body, dict):
            name = (call.body.get("metadata") or {}).get("name", "")
        if call.verb == "get":
            found = self.objects[resource].get((call.namespace, name))
            if found is None:
                raise refused(resource, name, 404, "NotFound", "not found")
            return found
        write = self._noted(call, name)
        try:
            self._injected(call, resource, name)
            found = self._carried_out(call, resource, (call.namespace, name))
            return Object(found.tree)  # decoded apart from what informers hear
        except ApiError as error:
            write["error"] = str(error)
            raise

    def _noted(self, call: Call, name: str) -> Tree:
        write: Tree = {"verb": call.verb, "resource": call.resource.name}
        if call.subresource:
            write["subresource"] = call.subresource
        if call.namespace:
            write["namespace"] = call.namespace
        if name:
            write["name"] = name
        if call.verb == "patch":
            write["patch"] = copy.deepcopy(call.body)
            write["patchType"] = call.content_type
        elif call.verb != "delete":
            write["object"] = call.body
        self.writes.append(write)
        return write

    def _injected(self, call: Call, resource: str, name: str) -> None:
        parts = [call.verb, resource] + ([call.subresource] if call.subresource else [])
        waiting = self.failures.get("/".join(parts))
        text = waiting.pop(0) if waiting else "ok"
        if text == "conflict":
            raise refused(resource, name, 409, "Conflict", "injected")
        if text == "notfound":
            raise refused(resource, name, 404, "NotFound", "not found")
        if text != "ok":
            raise ApiError(500, {"message": text, "reason": "", "code": 500})

    def _carried_out(self, call: Call, resource: str, key: Key) -> Object[View]:
        if call.verb == "create":
            if call.subresource == "binding":
                return self._bind(key, call.body)
            return self._create(resource, call.namespace, call.body)
        current = self.objects[resource].get(key)
        if current is None:
            raise refused(resource, key[1], 404, "NotFound", "not found")
        if call.verb == "update":
            return self._update(resource, current, call.body, call.subresource)
        if call.verb == "patch":
            return self._patch(resource, current, call.body)
        wanted = ((call.body or {}).get("preconditions") or {}).get("uid")
        uid = current.tree["metadata"].get("uid", "")
        if wanted is not None and wanted != uid:
            text = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
            raise refused(resource, key[1], 409, "Conflict", text)
        self.delete(resource, key)
        return current

    def _create(self, resource: str, namespace: str, body: Tree) -> Object[View]:
        metadata = {**body.get("metadata", {})}
        if namespace:
            metadata.setdefault("namespace", namespace)
        if not metadata.get("name"):
            metadata["name"] = f"{metadata.get('generateName', '')}<r{self._names}>"
            self._names += 1
        if not metadata.get("uid"):
            metadata["uid"] = f"<uid{self._uids}>"
            self._uids += 1
        tree = {**body, "metadata": metadata}
        if key_of(tree) in self.objects[resource]:
            raise refused(resource, metadata["name"], 409, "AlreadyExists", "already exists")
        return self.put(resource, tree)

    def _update(
        self, resource: str, current: Object[View], body: Tree, subresource: str
    ) -> Object[View]:
        old = current.tree
        for field in ("uid", "resourceVersion"):
            given = body["metadata"].get(field)
            if given and given != old["metadata"].get(field):
                raise refused(resource, body["metadata"]["name"], 409, "Conflict", CONFLICT)
        if subresource == "status":
            return self.put(resource, {**old, "status": body.get("status") or {}})
        kept = {"status": old["status"]} if "status" in old else {}
        rest = {name: value for name, value in body.items() if name != "status"}
        return self.put(resource, {**rest, **kept})

    def _patch(self, resource: str, current: Object[View], body: Tree) -> Object[View]:
        for field in ("uid", "resourceVersion"):
            given = (body.get("metadata") or {}).get(field)
            if given and given != current.tree["metadata"].get(field):
                raise refused(resource, current.tree["metadata"]["name"], 409, "Conflict", CONFLICT)
        struct = struct_type(info_of(resource).type_name)
        return self.put(resource, strategic_patch(current.tree, copy.deepcopy(body), struct))

    def _bind(self, key: Key, body: Tree) -> Object[View]:
        current = self.objects["pods"].get(key)
        if current is None:
            raise refused("pods", key[1], 404, "NotFound", "not found")
        status = current.tree.get("status") or {}
        kept = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
        status = {**status, "conditions": [*kept, {"type": "PodScheduled", "status": "True"}]}
        spec = {**current.tree["spec"], "nodeName": body["target"]["name"]}
        return self.put("pods", {**current.tree, "spec": spec, "status": status})


def refused(resource: str, name: str, code: int, reason: str, text: str) -> ApiError:
    """A refusal with the text that client-go makes of it."""
    group = VERSIONS[resource][0]
    qualified = f"{resource}.{group}" if group else resource
    message = f'{qualified} "{name}" {text}'
    if reason == "Conflict":
        message = f'Operation cannot be fulfilled on {qualified} "{name}": {text}'
    return ApiError(code, {"message": message, "reason": reason, "code": code})
