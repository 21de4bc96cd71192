"""The resource claim controller: its queue by event, and its syncs against a fake server."""

from __future__ import annotations

from typing import Any, Final

from controlplane.client.errors import ApiError
from controlplane.controllers.common.controller import Caches
from controlplane.controllers.devices.resourceclaim.controller import ResourceClaimController
from controlplane.controllers.devices.resourceclaim.templates import (
    ADMIN_ACCESS,
    GENERIC_WORKLOAD,
    PRIORITIZED_LIST,
    WORKLOAD_CLAIMS,
)
from controlplane.gates import FixGates
from tests.golden.devices_server import KINDS, FakeServer, not_found

GIVEN: Final = {
    "pods": "pods",
    "podGroups": "podgroups",
    "resourceClaims": "resourceclaims",
    "resourceClaimTemplates": "resourceclaimtemplates",
}
SHOWN: Final = {
    "pods": "pod",
    "resourceclaims": "claim",
    "resourceclaimtemplates": "template",
    "podgroups": "podgroup",
}


class _Queue:
    def __init__(self) -> None:
        self.keys: dict[str, None] = {}

    def add(self, key: str) -> None:
        self.keys[key] = None

    def taken(self) -> list[str]:
        found = sorted(self.keys)
        self.keys.clear()
        return found


class _Host:
    def __init__(self, features: dict[str, bool]) -> None:
        self.features = features
        self.fixes = FixGates()
        self.now = 0
        self.queued = _Queue()
        self.events: list[str] = []

    def queue(self, _name: str) -> _Queue:
        return self.queued

    def event(self, _about: Any, kind: str, reason: str, message: str) -> None:
        self.events.append(f"{kind} {reason} {message}")


class _Run:
    def __init__(self, case: Any) -> None:
        features = {
            ADMIN_ACCESS: case.get("adminAccess", True),
            PRIORITIZED_LIST: case.get("prioritizedList", True),
            WORKLOAD_CLAIMS: case.get("workloadResourceClaims", False),
            GENERIC_WORKLOAD: True,
        }
        host: Any = _Host(features)
        self.host = host
        self.server = FakeServer()
        self.caches = Caches()
        self.controller = ResourceClaimController(host, self.caches)
        self.stores = {resource.name: store for resource, store in self.caches.stores.items()}
        self.handlers = {
            resource.name: handlers for resource, handlers in self.controller.handlers().items()
        }
        for field, kind in GIVEN.items():
            for tree in case.get(field) or ():
                self.server.put(kind, tree)
        self._catch_up()

    def added(self) -> Any:
        """The keys that the add event of each object queues, all caches being full."""
        found = {}
        for kind, store in self.stores.items():
            for obj in store:
                self.handlers[kind].added(obj)
                keys = self.host.queued.taken()
                if keys:
                    found[f"{SHOWN[kind]}:{obj.key}"] = keys
        return found

    def _catch_up(self, *, tell: bool = True) -> None:
        """Bring the caches up to the server, with the handlers of what changed."""
        for kind, store in self.stores.items():
            now = {obj.key: obj for obj in self.server.of(kind)}
            for key in store.keys():  # noqa: SIM118
                if key not in now:
                    gone = store.remove(key)
                    if gone is not None:
                        self.handlers[kind].deleted(gone, False)
            for obj in now.values():
                old = store.get(obj.key)
                if old is not obj:
                    store.put(obj)
                    if old is None:
                        self.handlers[kind].added(obj)
                    else:
                        self.handlers[kind].updated(old, obj)

    def step(self, op: Any) -> Any:
        if op["op"] == "fail":
            self.server.failures.setdefault(op["key"], []).extend(op["errors"])
            return {}
        if op["op"] == "sync":
            return self._sync(op["key"])
        return self._change(op)

    def _sync(self, key: str) -> Any:
        found: dict[str, Any] = {}
        error = self.server.attempt(self.controller.sync(key))
        if error is not None:
            found["error"] = error
        if self.server.writes:
            found["writes"] = self.server.writes
            self.server.writes = []
        if self.host.events:
            found["events"] = self.host.events
            self.host.events = []
        self._catch_up()
        self.host.queued.taken()
        return found

    def _change(self, op: Any) -> Any:
        kind = op["kind"]
        try:
            self._apply(op, kind)
        except ApiError as error:
            return {"apiError": str(error)}
        self._catch_up()
        keys = self.host.queued.taken()
        return {"enqueued": keys} if keys else {}

    def _apply(self, op: Any, kind: str) -> None:
        tree = op.get("object") or {"metadata": op}
        name, namespace = tree["metadata"]["name"], tree["metadata"].get("namespace", "")
        key = f"{namespace}/{name}"
        if op["op"] != "update":  # an update by another client replaces the object past the server
            error = self.server.failure(f"{op['op']}/{kind}", kind, name)
            if error is not None:
                raise error
        old = self.server.objects.get((kind, key))
        if op["op"] == "create":
            if old is not None:
                message = f'{kind}.{KINDS[kind][0].group} "{name}" already exists'
                raise ApiError(409, {"message": message.replace('. "', ' "')})
            self.server.put(kind, tree)
            return
        if old is None:
            raise not_found(kind, name)
        if op["op"] == "delete":
            self.server.remove(kind, old)
        else:
            self.server.write(kind, tree)


def answer(case: Any) -> Any:
    run = _Run(case)
    run.host.queued.taken()
    added = run.added()
    return {"addEvents": added, "ops": [run.step(op) for op in case["ops"]]}
