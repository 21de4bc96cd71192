"""The namespace controller. Upstream: pkg/controller/namespace/namespace_controller.go, deletion/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.calls import delete_options
from controlplane.client.errors import ApiError, is_conflict, is_not_found
from controlplane.client.resources import NAMESPACES, PODS, Resource
from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry, aggregate
from controlplane.controllers.lifecycle.namespace.conditions import (
    Findings,
    discovery_error,
    updated,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.api.core import Namespace
    from controlplane.api.object import Object
    from controlplane.api.view import View
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.controllers.common.rest_mapper import ServedKind

WORKERS = 10
GRACE_NS = 5 * SECOND
"""The time for other servers to notice that the namespace takes no more objects."""
BACKOFF_NS = (5_000_000, 60 * SECOND)
FINALIZER = "kubernetes"
FINALIZER_ESTIMATE = 15
NOT_ALLOWED = 405


class ResourcesRemaining(Retry):
    """Content is on its way out; look again after a while. `estimate` is in seconds."""

    def __init__(self, estimate: int) -> None:
        super().__init__(
            f"some content remains in the namespace, estimate {estimate} seconds before it is removed"
        )
        self.estimate = estimate


class _Unexpected(Retry):
    """Objects are left that nothing holds."""

    def __init__(self, text: str, left: int) -> None:
        super().__init__(text)
        self.left = left


class _Removed(NamedTuple):
    """The result for one resource: estimated seconds, the number of remaining objects, and their finalizers."""

    estimate: int = 0
    left: int = 0
    finalizers: dict[str, int] = {}  # noqa: RUF012 - a NamedTuple's default, never written to


class NamespaceController(Controller):
    """Deletes the content of namespaces that are being deleted, pods first, then lets them go."""

    name = "namespace-controller"
    any_kind = True

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("namespace")
        self._namespaces = caches.of(NAMESPACES)

    def work(self) -> tuple[Work, ...]:
        """One queue of namespaces."""
        return (Work("namespace", self._process, workers=WORKERS, backoff_ns=BACKOFF_NS),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Namespaces that are being deleted."""

        def changed(obj: Object[Namespace]) -> None:
            if obj.view.metadata.deletion_timestamp is not None:
                self.queue.add_after(obj.key, GRACE_NS)

        return {NAMESPACES: Handlers(changed, lambda _old, new: changed(new), ignore)}

    def _process(self, key: str) -> Reconcile[None]:
        if key not in self._namespaces:
            return
        try:
            yield from self.delete(key)
        except ResourcesRemaining as error:
            self.queue.add_after(key, (error.estimate // 2 + 1) * SECOND)

    def delete(self, name: str) -> Reconcile[None]:
        """Remove the content of a namespace; once there is none, let the namespace go."""
        try:
            live = yield from calls.get(NAMESPACES, "", name)
            if live.view.metadata.deletion_timestamp is None:
                return
            live = yield from self._written(live, self._mark)
        except ApiError as error:
            if is_not_found(error):
                return
            raise
        deleted_at = live.view.metadata.deletion_timestamp
        if deleted_at is None or not live.tree.get("spec", {}).get("finalizers"):
            return
        estimate = yield from self._delete_content(live, deleted_at)
        if estimate:
            raise ResourcesRemaining(estimate)
        try:
            yield from self._written(live, self._finalize)
        except ApiError as error:
            if not is_not_found(error):
                raise

    # ------------------------------------------------------------------ the namespace itself

    def _written(
        self, found: Object[Namespace], write: Callable[[Object[Namespace]], Reconcile[Any]]
    ) -> Reconcile[Object[Namespace]]:
        """Write, again over a live read as long as others write in between."""
        while True:
            try:
                written: Object[Namespace] = yield from write(found)
            except ApiError as error:
                if not is_conflict(error):
                    raise
                live = yield from calls.get(NAMESPACES, "", found.name)
                if live.uid != found.uid:
                    raise Retry("namespace uid has changed across retries") from error
                found = live
            else:
                return written

    def _mark(self, found: Object[Namespace]) -> Reconcile[Object[Namespace]]:
        """The namespace says that it is terminating."""
        if found.view.metadata.deletion_timestamp is None:
            return found
        status = found.tree.get("status") or {}
        if status.get("phase") == "Terminating":
            return found
        tree = {**found.tree, "status": {**status, "phase": "Terminating"}}
        return (yield from calls.update(NAMESPACES, tree, "status"))

    def _finalize(self, found: Object[Namespace]) -> Reconcile[Object[Namespace]]:
        """Take our finalizer off."""
        spec: Tree = found.tree.get("spec") or {}
        left = sorted({each for each in spec.get("finalizers", ()) if each != FINALIZER})
        rest = {key: value for key, value in spec.items() if key != "finalizers"}
        tree: Tree = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": found.tree["metadata"],
            "spec": {**rest, "finalizers": left} if left else rest,
        }
        return (yield from calls.update(NAMESPACES, tree, "finalize"))

    # ------------------------------------------------------------------ its content

    def _delete_content(self, found: Object[Namespace], deleted_at: int) -> Reconcile[int]:
        """Delete everything in the namespace; the estimate in seconds until it is gone, 0 when it is."""
        mapper = self.host.rest_mapper
        findings = Findings(undiscovered=mapper.undiscovered)
        errors: list[Exception] = []
        if mapper.undiscovered:
            errors.append(Retry(discovery_error(mapper.undiscovered)))
        kinds = {
            each.resource: each
            for each in mapper.preferred()
            if each.namespaced and each.has("delete")
        }
        estimate = 0
        # # Before 126587 (OrderedNamespaceDeletion) pods were one kind among others, and no kind waited for them.
        first = self.host.fixes.fixed("126587")
        pods = kinds.pop(PODS, None) if first else None
        if pods is not None:
            try:
                removed = yield from self._delete_kind(pods, found.name, deleted_at)
            except (*RequestFailed, Retry) as error:
                text = f"failed to delete pods for namespace: {found.name}, err: {error}"
                errors.append(Retry(text))
                findings.problems.append(str(error))
                kinds = {}
            else:
                estimate = removed.estimate
                if removed.left:  # what is left of pods is in no condition
                    kinds = {}
        for kind in kinds.values():
            try:
                removed = yield from self._delete_kind(kind, found.name, deleted_at)
            except (*RequestFailed, Retry) as error:
                errors.append(error)
                findings.problems.append(str(error))
                if isinstance(error, _Unexpected):
                    findings.remaining[kind.resource] = error.left
            else:
                estimate = max(estimate, removed.estimate)
                _count(findings, kind.resource, removed)
        yield from self._report(found, findings)
        if errors:
            raise aggregate(errors)
        return estimate

    def _delete_kind(
        self, kind: ServedKind, namespace: str, deleted_at: int
    ) -> Reconcile[_Removed]:
        """Delete all objects of a kind, and see what is left."""
        resource = kind.resource
        estimate = 0
        if resource == PODS:
            pods = yield from calls.list_objects(PODS, namespace)
            estimate = max((_grace(obj.view) for obj in pods.items), default=0)
            if self.host.now - deleted_at >= estimate * SECOND:
                estimate = 0
        collected = kind.has("deletecollection")
        if collected:
            collected = yield from self._delete_collection(resource, namespace)
        if not collected:
            yield from self._delete_each(kind, namespace)
        if not kind.has("list"):
            return _Removed(estimate)
        left = yield from calls.list_objects(resource, namespace)
        if not left.items:
            return _Removed()
        finalizers: dict[str, int] = {}
        for obj in left.items:
            for finalizer in obj.metadata.get("finalizers") or ():
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
        if estimate or finalizers:
            return _Removed(estimate or FINALIZER_ESTIMATE, len(left.items), finalizers)
        place = f"{resource.group}/{resource.version}, Resource={resource.name}"
        text = f"unexpected items still remain in namespace: {namespace} for gvr: {place}"
        raise _Unexpected(text, len(left.items))

    def _delete_collection(self, resource: Resource[Any], namespace: str) -> Reconcile[bool]:
        """Return whether the server can delete a whole collection of this resource."""
        options = delete_options(propagation_policy="Background")
        try:
            yield from calls.delete_collection(resource, namespace, options)
        except ApiError as error:
            if error.code == NOT_ALLOWED or is_not_found(error):
                return False
            raise
        return True

    def _delete_each(self, kind: ServedKind, namespace: str) -> Reconcile[None]:
        options = delete_options(propagation_policy="Background")
        found = yield from calls.list_objects(kind.resource, namespace)
        for obj in found.items:
            try:
                yield from calls.delete(kind.resource, namespace, obj.name, options)
            except ApiError as error:
                if not is_not_found(error) and error.code != NOT_ALLOWED:
                    raise

    def _report(self, found: Object[Namespace], findings: Findings) -> Reconcile[None]:
        """Write the conditions if they changed; that this fails is of no consequence."""
        status = found.tree.get("status") or {}
        before = status.get("conditions") or []
        conditions = updated(before, findings, self.host.now)
        if conditions == before:
            return
        tree = {**found.tree, "status": {**status, "conditions": conditions}}
        try:
            yield from calls.update(NAMESPACES, tree, "status")
        except RequestFailed:
            return


def _grace(pod: View) -> int:
    status: Tree = pod.tree.get("status") or {}
    if status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    return int((pod.tree.get("spec") or {}).get("terminationGracePeriodSeconds") or 0)


def _count(findings: Findings, resource: Resource[Any], removed: _Removed) -> None:
    if removed.left:
        findings.remaining[resource] = removed.left
    for finalizer, count in removed.finalizers.items():
        findings.finalizers[finalizer] = findings.finalizers.get(finalizer, 0) + count
