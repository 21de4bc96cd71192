"""A fake API server that records writes: what the cases of `dra/claim_controller` and others were made with.

The README beside the data of area `dra` says how it behaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.client import resources
from controlplane.client.calls import Call
from controlplane.client.errors import ApiError
from controlplane.client.resources import Resource
from controlplane.controllers.common.effects import Reconcile, Retry
from tests.golden.controller_world import pruned

KINDS: Final[dict[str, tuple[Resource[Any], str]]] = {
    "pods": (resources.PODS, "Pod"),
    "podgroups": (resources.POD_GROUPS, "PodGroup"),
    "resourceclaims": (resources.RESOURCE_CLAIMS, "ResourceClaim"),
    "resourceclaimtemplates": (resources.RESOURCE_CLAIM_TEMPLATES, "ResourceClaimTemplate"),
    "resourceslices": (resources.RESOURCE_SLICES, "ResourceSlice"),
    "devicetaintrules": (resources.DEVICE_TAINT_RULES, "DeviceTaintRule"),
}
DELETED_AT: Final = "2026-01-02T03:04:05Z"
MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def _qualified(kind: str) -> str:
    resource = KINDS[kind][0]
    return f"{kind}.{resource.group}" if resource.group else kind


def not_found(kind: str, name: str) -> ApiError:
    message = f'{_qualified(kind)} "{name}" not found'
    return ApiError(404, {"code": 404, "reason": "NotFound", "message": message})


def _conflict(kind: str, name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {_qualified(kind)} "{name}": {why}'
    return ApiError(409, {"code": 409, "reason": "Conflict", "message": message})


def shown(tree: Tree) -> Tree:
    """An object as the cases show it: resourceVersion, kind, nulls and empty parts are left out."""
    found = {key: value for key, value in tree.items() if key not in {"apiVersion", "kind"}}
    metadata = {k: v for k, v in (found.get("metadata") or {}).items() if k != "resourceVersion"}
    return _hidden({**found, "metadata": metadata})


def _hidden(tree: Tree) -> Tree:
    found: Tree = _without_empty_requests(pruned(tree))
    return {key: value for key, value in found.items() if not (key == "spec" and value == {})}


def _without_empty_requests(value: Any) -> Any:
    """Without empty maps of capacity requests: Go leaves them out."""
    if isinstance(value, list):
        return [_without_empty_requests(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_empty_requests(each)
        for key, each in value.items()
        if not (key == "requests" and each == {})
    }


class FakeServer:
    """Objects by kind and key, and the writes since the last look."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object[Any]] = {}
        self.writes: list[Tree] = []
        self.failures: dict[str, list[str]] = {}
        self._version = 0
        self._uids = 0
        self._names = 0

    def stored(self, kind: str, tree: Tree) -> Object[Any]:
        """An object with its kind and the next resourceVersion."""
        self._version += 1
        resource, name = KINDS[kind]
        metadata = {**tree.get("metadata", {}), "resourceVersion": str(self._version)}
        typed = {"apiVersion": resource.api_version, "kind": name}
        return Object({**tree, **typed, "metadata": metadata})

    def put(self, kind: str, tree: Tree) -> Object[Any]:
        """Store an object as it is."""
        made = self.stored(kind, tree)
        self.objects[kind, made.key] = made
        return made

    def of(self, kind: str) -> Iterable[Object[Any]]:
        return [obj for (known, _), obj in self.objects.items() if known == kind]

    def failure(self, key: str, kind: str, name: str) -> ApiError | None:
        """The error that was asked for the next call of this key."""
        waiting = self.failures.get(key) or []
        if not waiting:
            return None
        text = waiting.pop(0)
        if text == "ok":
            return None
        if text == "conflict":
            return _conflict(kind, name, "injected")
        if text == "notfound":
            return not_found(kind, name)
        return ApiError(500, {"code": 500, "message": text})

    # ------------------------------------------------------------------ requests

    def answer(self, call: Call) -> Any:
        """Carry a request out. Raises ApiError."""
        kind = call.resource.name
        body: Tree = call.body or {}
        name = call.name or (body.get("metadata") or {}).get("name", "")
        if call.verb == "list":
            raise NotImplementedError
        if call.verb == "get":
            error = self.failure(f"get/{kind}", kind, name)
            if error is not None:
                raise error
            return self._found(kind, call.namespace, name)
        entry: Tree = {"verb": call.verb, "resource": kind}
        if call.subresource:
            entry["subresource"] = call.subresource
        if call.namespace:
            entry["namespace"] = call.namespace
        if name:
            entry["name"] = name
        self._describe(entry, call, body)
        self.writes.append(entry)
        try:
            key = "/".join(part for part in (call.verb, kind, call.subresource) if part)
            error = self.failure(key, kind, name)
            if error is not None:
                raise error
            carry_out: Callable[..., Any] = getattr(self, f"_{call.verb}")
            return carry_out(call, kind, name, body)
        except ApiError as error:
            entry["error"] = str(error)
            raise

    @staticmethod
    def _describe(entry: Tree, call: Call, body: Tree) -> None:
        if call.verb in {"create", "update"}:
            entry["object"] = shown(body)
        elif call.verb == "patch":
            patch: Tree = pruned(body)
            statuses = (patch.get("status") or {}).get("resourceClaimStatuses")
            if statuses:
                ordered = sorted(statuses, key=lambda each: each["name"])
                patch = {**patch, "status": {**patch["status"], "resourceClaimStatuses": ordered}}
            entry["patch"] = patch
            entry["patchType"] = call.content_type
        elif call.verb == "delete":
            uid = (body.get("preconditions") or {}).get("uid")
            if uid:
                entry["preconditionUID"] = uid

    def _found(self, kind: str, namespace: str, name: str) -> Object[Any]:
        found = self.objects.get((kind, f"{namespace}/{name}".lstrip("/")))
        if found is None:
            raise not_found(kind, name)
        return found

    def _create(self, call: Call, kind: str, name: str, body: Tree) -> Object[Any]:
        metadata = {**body["metadata"]}
        if not name:
            metadata["name"] = f"{metadata.get('generateName', '')}<r{self._names}>"
            self._names += 1
        if not metadata.get("uid"):
            metadata["uid"] = f"<uid{self._uids}>"
            self._uids += 1
        if call.namespace:
            metadata["namespace"] = call.namespace
        place = f"{call.namespace}/{metadata['name']}".lstrip("/")
        if (kind, place) in self.objects:
            message = f'{_qualified(kind)} "{metadata["name"]}" already exists'
            raise ApiError(409, {"code": 409, "reason": "AlreadyExists", "message": message})
        return self.put(kind, {**body, "metadata": metadata})

    def _update(self, call: Call, kind: str, name: str, body: Tree) -> Object[Any]:
        old = self._found(kind, call.namespace, name)
        metadata = body["metadata"]
        version = metadata.get("resourceVersion")
        if version and version != str(old.resource_version):
            raise _conflict(kind, name, MODIFIED)
        if metadata.get("uid") and metadata["uid"] != old.uid:
            raise _conflict(kind, name, MODIFIED)
        if call.subresource == "status":
            new = {**old.tree, "status": body.get("status") or {}}
        else:
            new = {**body, "status": old.tree.get("status") or {}}
        return self.write(kind, new)

    def write(self, kind: str, new: Tree) -> Object[Any]:
        """Store a new state; what was being deleted goes with its last finalizer."""
        made = self.put(kind, new)
        if "deletionTimestamp" in made.metadata and not made.metadata.get("finalizers"):
            del self.objects[kind, made.key]
        return made

    def _patch(self, call: Call, kind: str, name: str, body: Tree) -> Object[Any]:
        old = self._found(kind, call.namespace, name)
        uid = (body.get("metadata") or {}).get("uid")
        if uid and uid != old.uid:
            raise _conflict(kind, name, MODIFIED)
        status = {**(old.tree.get("status") or {})}
        for field, items in (body.get("status") or {}).items():
            if not isinstance(items, list) or field.startswith("$"):
                continue
            key = "type" if field == "conditions" else "name"
            merged = {each[key]: each for each in status.get(field) or ()}
            for item in items:
                merged[item[key]] = {**merged.get(item[key], {}), **item}
            status[field] = list(merged.values())
        return self.put(kind, {**old.tree, "status": status})

    def _delete(self, call: Call, kind: str, name: str, body: Tree) -> None:
        old = self._found(kind, call.namespace, name)
        uid = (body.get("preconditions") or {}).get("uid")
        if uid and uid != old.uid:
            raise _conflict(kind, name, f"uid {uid} differs")
        self.remove(kind, old)

    def remove(self, kind: str, old: Object[Any]) -> None:
        """Delete an object, or mark it where finalizers hold it."""
        if not old.metadata.get("finalizers"):
            del self.objects[kind, old.key]
        elif "deletionTimestamp" not in old.metadata:
            metadata = {**old.metadata, "deletionTimestamp": DELETED_AT}
            self.put(kind, {**old.tree, "metadata": metadata})

    # ------------------------------------------------------------------ running

    def run(self, reconcile: Reconcile[Any]) -> Any:
        """Carry a reconcile out against this server. Raises what it raises."""
        answer: Any = None
        failure: ApiError | None = None
        while True:
            try:
                effect = reconcile.send(answer) if failure is None else reconcile.throw(failure)
            except StopIteration as stop:
                return stop.value
            answer = failure = None
            if isinstance(effect, Call):
                try:
                    answer = self.answer(effect)
                except ApiError as error:
                    failure = error

    def attempt(self, reconcile: Reconcile[Any]) -> str | None:
        """The text of what a reconcile failed with, if it did."""
        try:
            self.run(reconcile)
        except (ApiError, Retry) as error:
            return str(error)
        return None
