"""The eviction of pods from tainted devices: handlers fed directly, a queue that only notes, and a clock."""

from __future__ import annotations

from typing import Any, Final

from controlplane.api.times import format_time, parse_time
from controlplane.client.errors import ApiError
from controlplane.controllers.common.controller import Caches
from controlplane.controllers.common.effects import Retry
from controlplane.controllers.devices.resourceclaim.templates import (
    GENERIC_WORKLOAD,
    WORKLOAD_CLAIMS,
)
from controlplane.controllers.devices.tainteviction.controller import (
    TAINT_RULES,
    DeviceTaintEvictionController,
)
from controlplane.gates import FixGates
from tests.golden.devices_server import FakeServer

SECOND: Final = 1_000_000_000
START: Final = parse_time("2000-01-01T00:00:00Z")
GIVEN: Final = {
    "resourceSlices": "resourceslices",
    "deviceTaintRules": "devicetaintrules",
    "resourceClaims": "resourceclaims",
    "pods": "pods",
}


def _shown(key: str) -> str:
    """A key of the queue as the cases show it: without the uid."""
    kind, _, place = key.partition(":")
    return f"{kind} {place.rpartition('/')[0]}"


def _place(write: Any) -> tuple[str, str]:
    return write["resource"], write["name"]


def _span(ns: int) -> str:
    """A duration as Go prints it; whole seconds, or with a fraction."""
    seconds, rest = divmod(ns, SECOND)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    text = f"{seconds}{fraction}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


class _Queue:
    """As upstream's mock: delays do not run by themselves, and a failure only counts."""

    def __init__(self) -> None:
        self.ready: list[str] = []
        self.later: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    def add(self, key: str) -> None:
        if key not in self.ready:
            self.ready.append(key)

    def add_after(self, key: str, delay_ns: int) -> None:
        self.later[key] = min(self.later.get(key, delay_ns), delay_ns)


class _Host:
    def __init__(self, groups: bool) -> None:
        self.features = {TAINT_RULES: True, GENERIC_WORKLOAD: True, WORKLOAD_CLAIMS: groups}
        self.fixes = FixGates()
        self.now = START
        self.queued = _Queue()
        self.events: list[str] = []

    def queue(self, _name: str) -> _Queue:
        return self.queued

    def event(self, about: Any, kind: str, reason: str, message: str) -> None:
        self.events.append(f"{about['namespace']}/{about['name']} {kind} {reason}: {message}")


class _Run:
    def __init__(self, case: Any) -> None:
        host: Any = _Host(case.get("workloadResourceClaims", False))
        self.host = host
        self.queue = host.queued
        self.server = FakeServer()
        self.caches = Caches()
        self.controller = DeviceTaintEvictionController(host, self.caches)
        self.stores = {resource.name: store for resource, store in self.caches.stores.items()}
        self.handlers = {
            resource.name: handlers for resource, handlers in self.controller.handlers().items()
        }
        self.seen: dict[str, Any] = {}
        self.told = False
        for kind in GIVEN.values():
            for tree in case.get(next(f for f, k in GIVEN.items() if k == kind)) or ():
                self.server.put(kind, tree)
        for kind in GIVEN.values():
            for obj in self.server.of(kind):
                if kind in {"pods", "devicetaintrules"}:
                    self.stores[kind].put(obj)
                self.handlers[kind].added(obj)

    def news(self) -> Any:
        """The sections that differ from the last time."""
        taints = self.controller.taints

        def planned(eviction: Any) -> Any:
            if eviction is None:
                return "none"
            return {"when": format_time(eviction.when), "reason": str(eviction)}

        now = {
            "deletePodAt": {ref.key: planned(each) for ref, each in taints.delete_at.items()},
            "allocatedClaims": {key: planned(each.eviction) for key, each in taints.claims.items()},
            "ready": sorted(_shown(key) for key in self.queue.ready),
            "later": sorted(
                f"{_shown(key)} in {_span(delay)}" for key, delay in self.queue.later.items()
            ),
            "failures": sorted(f"{_shown(key)} x{n}" for key, n in self.queue.counts.items()),
        }
        found = {
            name: value
            for name, value in now.items()
            if value != self.seen.get(name, type(value)())
        }
        self.seen = now
        # The recorder of the cases shows the events of the first step that has any, and no others.
        if self.host.events and not self.told:
            found["events"], self.told = sorted(self.host.events), True
        self.host.events = []
        if self.server.writes:
            found["writes"], self.server.writes = sorted(self.server.writes, key=_place), []
        return found

    def step(self, op: Any) -> Any:
        extra: dict[str, Any] = {}
        if op["op"] == "fail":
            self.server.failures.setdefault(op["key"], []).extend(op["errors"])
        elif op["op"] == "advance":
            extra["now"] = self._advance(op["seconds"])
        elif op["op"] == "process":
            self._process()
        else:
            self._event(op)
        return {**self.news(), **extra}

    def _advance(self, seconds: int) -> int:
        self.host.now += seconds * SECOND
        for key, delay in list(self.queue.later.items()):
            left = delay - seconds * SECOND
            if left <= 0:
                del self.queue.later[key]
                self.queue.add(key)
            else:
                self.queue.later[key] = left
        return int((self.host.now - START) // SECOND)

    def _process(self) -> None:
        queue = self.queue
        while queue.ready:
            key = queue.ready.pop(0)
            try:
                again = self.server.run(self.controller.process(key))
            except (ApiError, Retry):
                queue.counts[key] = queue.counts.get(key, 0) + 1
            else:
                if again > 0:
                    queue.add_after(key, again)
                else:
                    queue.counts.pop(key, None)
        for kind in ("pods", "devicetaintrules"):
            store, now = self.stores[kind], {each.key: each for each in self.server.of(kind)}
            for key in store.keys():  # noqa: SIM118
                if key not in now:
                    gone = store.remove(key)
                    if kind == "pods" and gone is not None:
                        self.handlers[kind].deleted(gone, False)
            for obj in now.values():
                store.put(obj)

    def _event(self, op: Any) -> None:
        kind, handlers = op["kind"], self.handlers[op["kind"]]
        old_tree, new_tree = op.get("old"), op.get("new")
        stored = kind in {"pods", "devicetaintrules"}
        old = None if old_tree is None else self.server.stored(kind, old_tree)
        if old is not None and (kind, old.key) in self.server.objects:
            old = self.server.objects[kind, old.key]
        new = None if new_tree is None else self.server.put(kind, new_tree)
        if new is None:
            assert old is not None
            self.server.objects.pop((kind, old.key), None)
            if stored:
                self.stores[kind].remove(old.key)
            handlers.deleted(old, False)
            return
        if stored:
            self.stores[kind].put(new)
        if old is None:
            handlers.added(new)
        else:
            handlers.updated(old, new)


def answer(case: Any) -> Any:
    run = _Run(case)
    return {
        "startTime": format_time(START),
        "initial": run.news(),
        "ops": [run.step(op) for op in case["ops"]],
    }
