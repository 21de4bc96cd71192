"""Carry the effects of Kueue's decisions out as requests of the process's client.

Kueue's reconcilers and its scheduler yield `kueue.controllers.effects`; the loop of controllers carries
requests, points and tasks out. Upstream: the clients of controller-runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from controlplane.api.request import JSON, MERGE_PATCH
from controlplane.client.calls import Call, delete_options
from controlplane.client.errors import RequestFailed
from controlplane.controllers.common.effects import Retry
from controlplane.decisions import Spawn, Together
from controlplane.kueue.controllers.effects import (
    ApplyStatus,
    Create,
    Delete,
    Emit,
    MergePatch,
    ReconcileError,
    Update,
)
from controlplane.kueue.names import ADMISSION_MANAGER
from controlplane.kueue.process.kinds import KINDS, Kinds
from controlplane.kueue.workload.status import FINISHED

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Host

T = TypeVar("T")
Carried = Generator[Any, Any, T]
APPLY: Final = "application/apply-patch+yaml"
END_MANAGER: Final = "kueue-finish"
"""The field manager of the condition Finished, with gate here9."""


def merge_patch(old: Any, new: Any) -> dict[str, Any]:
    """The JSON merge patch that makes `new` of `old`."""
    patch: dict[str, Any] = {}
    for name in {**old, **new}:
        if name not in new:
            patch[name] = None
        elif name not in old:
            patch[name] = new[name]
        elif isinstance(old[name], dict) and isinstance(new[name], dict):
            inner = merge_patch(old[name], new[name])
            if inner:
                patch[name] = inner
        elif old[name] != new[name]:
            patch[name] = new[name]
    return patch


class Carrier:
    """Carries effects out for one process.

    Gate here9 (proposed here; not reported): upstream's field manager of admissions owns the condition
    Finished, too, and the scheduler writes without a version. A write that was decided before a workload
    finished has no such condition, so the server takes it away: the workload is admitted after its end. The
    repair gives the condition a manager of its own.

    Args:
        host: The controller's host, which records events.
        after_task: Called when a task that a decision spawned has ended.
        kinds: The resource of each kind.
    """

    def __init__(
        self,
        host: Host,
        after_task: Callable[[], None] = lambda: None,
        kinds: Kinds = KINDS,
    ) -> None:
        self._host = host
        self._after_task = after_task
        self._kinds = kinds
        self._ends_apart = host.fixes.fixed("here9")

    def run(
        self,
        decision: Generator[Any, Any, T],
        within: Callable[[bool], None] = lambda _: None,
    ) -> Carried[T]:
        """Carry a decision's effects out; `within` hears when its own code runs and when it stops.

        Raises:
            Retry: The decision failed in a way that has to be tried again.
        """
        answer: Any = None
        failure: Exception | None = None
        while True:
            within(True)
            try:
                effect = decision.send(answer) if failure is None else decision.throw(failure)
            except StopIteration as stop:
                result: T = stop.value
                return result
            except ReconcileError as error:
                raise Retry(str(error)) from None
            finally:
                within(False)
            answer = failure = None
            try:
                answer = yield from self._carry(effect)
            except RequestFailed as error:
                failure = error

    def _carry(self, effect: Any) -> Carried[Any]:
        if isinstance(effect, Emit):
            about = reference(effect.kind, effect.regarding, self._kinds)
            self._host.event(about, effect.type, effect.reason, effect.message)
            return None
        if isinstance(effect, Spawn):
            return (yield Spawn(effect.name, self._task(effect.part)))
        if isinstance(effect, Together):
            return (yield Together(effect.name, [self.run(each) for each in effect.parts]))
        if self._ends_apart and isinstance(effect, ApplyStatus):
            effect = _end_apart(effect)
        call = call_of(effect, self._kinds)
        if call is None:
            return (yield effect)
        found = yield call
        return getattr(found, "tree", None)

    def _task(self, part: Generator[Any, Any, None]) -> Carried[None]:
        with suppress(Retry, *RequestFailed):  # upstream only logs it
            yield from self.run(part)
        self._after_task()


def _end_apart(effect: ApplyStatus) -> ApplyStatus:
    """The write of a finished workload's end alone, in place of one of all that admissions own."""
    ended = [
        each
        for each in effect.body["status"].get("conditions") or ()
        if each["type"] == FINISHED and effect.manager == ADMISSION_MANAGER
    ]
    if not ended:
        return effect
    return ApplyStatus(effect.kind, {**effect.body, "status": {"conditions": ended}}, END_MANAGER)


def call_of(effect: Any, kinds: Kinds = KINDS) -> Call | None:
    """The request for an effect, None if it is none."""
    if not isinstance(effect, ApplyStatus | Create | Delete | MergePatch | Update):
        return None
    resource = kinds[effect.kind]
    whole = {"apiVersion": resource.api_version, "kind": effect.kind, **effect.body}
    match effect:
        case ApplyStatus():
            query = {"fieldManager": effect.manager, "force": "true"}
            return _call("patch", resource, effect.body, "status", whole, APPLY, query)
        case Update():
            return _call("update", resource, effect.body, effect.subresource, whole)
        case MergePatch():
            patch = merge_patch(effect.old, effect.body)
            version = effect.old["metadata"].get("resourceVersion")
            if effect.strict and version:
                patch.setdefault("metadata", {})["resourceVersion"] = version
            return _call("patch", resource, effect.old, effect.subresource, patch, MERGE_PATCH)
        case Create():
            return _call("create", resource, effect.body, "", whole, named=False)
        case Delete():
            options = delete_options(propagation_policy=effect.propagation)
            return _call("delete", resource, effect.body, "", options)


def _call(
    verb: str,
    resource: Resource[Any],
    tree: Tree,
    subresource: str,
    body: Any,
    content_type: str = JSON,
    query: dict[str, str] | None = None,
    *,
    named: bool = True,
) -> Call:
    metadata = tree["metadata"]
    name = metadata["name"] if named else ""
    namespace = metadata.get("namespace", "")
    return Call(verb, resource, namespace, name, subresource, query or {}, body, content_type)


def reference(kind: str, tree: Tree, kinds: Kinds = KINDS) -> Tree:
    """The reference of an object that an event is about."""
    metadata = tree["metadata"]
    found = {
        "apiVersion": kinds[kind].api_version,
        "kind": kind,
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    return {name: value for name, value in found.items() if value}
