"""The EndpointSliceMirroring controller. Upstream: pkg/controller/endpointslicemirroring.

Endpoints that a user keeps for a service without a selector become slices, so that those who read slices alone see
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND
from controlplane.client import calls
from controlplane.client.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from controlplane.controllers.common.controller import WARNING, Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.network.endpointslice.packing import (
    name_of,
)
from controlplane.controllers.network.endpointslice.tracker import (
    SliceHandlers,
    SliceTracker,
    managed_by,
    service_name,
)
from controlplane.controllers.network.endpointslicemirroring.mirroring import (
    MANAGER,
    desired_of,
    mirrored,
    plan_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.api.view import View
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.controllers.network.endpointslice.packing import Plan

MAX_RETRIES: Final = 15
MAX_ENDPOINTS: Final = 1000
"""The number of addresses of a subset that are mirrored (--mirroring-max-endpoints-per-subset)."""


class EndpointSliceMirroringController(Controller):
    """Keeps slices for the Endpoints of services that have no selector."""

    name = "endpointslice-mirroring-controller"
    component = "endpoint-slice-mirroring-controller"

    def __init__(self, host: Host, caches: Caches, max_endpoints: int = MAX_ENDPOINTS) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("endpoint_slice_mirroring")
        self._limit = max_endpoints
        self._endpoints = caches.of(ENDPOINTS)
        self._services = caches.of(SERVICES, namespace=namespace_index)
        self._slices = caches.of(ENDPOINT_SLICES, namespace=namespace_index)
        self._tracker = SliceTracker()

    def work(self) -> tuple[Work, ...]:
        """Endpoints by name."""
        backoff = (SECOND, 100 * SECOND)
        return (Work("endpoint_slice_mirroring", self.sync, MAX_RETRIES, backoff_ns=backoff),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Endpoints, their services, and the slices that are made for them."""
        return {
            ENDPOINTS: Handlers(
                self._endpoints_changed,
                self._endpoints_updated,
                lambda obj, _unknown: self._endpoints_changed(obj),
            ),
            SERVICES: Handlers(
                self._service_changed,
                self._service_updated,
                lambda obj, _unknown: self._service_changed(obj),
            ),
            ENDPOINT_SLICES: SliceHandlers(self._tracker, MANAGER, self.queue.add).handlers(),
        }

    # ------------------------------------------------------------------ handlers

    def _endpoints_changed(self, obj: Object[Any]) -> None:
        if mirrored(obj.tree):
            self.queue.add(obj.key)

    def _endpoints_updated(self, old: Object[Any], new: Object[Any]) -> None:
        if mirrored(old.tree) or mirrored(new.tree):
            self.queue.add(new.key)

    def _service_changed(self, obj: Object[Any]) -> None:
        if not _has_selector(obj):
            self.queue.add(obj.key)

    def _service_updated(self, old: Object[Any], new: Object[Any]) -> None:
        if _has_selector(old) != _has_selector(new):
            self.queue.add(new.key)

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Bring the slices to what the Endpoints of a service are; none where they are not to be mirrored."""
        found, service = self._endpoints.get(key), self._services.get(key)
        namespace, _, name = key.partition("/")
        slices = [
            each.tree
            for each in self._slices.by_index("namespace", namespace)
            if managed_by(each.tree, MANAGER) and service_name(each.tree) == name
        ]
        if found is None or not mirrored(found.tree) or service is None or _has_selector(service):
            self._tracker.forget(key)
            yield from self._delete_all(key, slices)
            return
        if self._tracker.stale(key, slices):
            raise Retry("EndpointSlice informer cache is out of date")
        desired = desired_of(found.tree, self._limit)
        if desired.invalid:
            text = (
                f"Skipped {desired.invalid} invalid IP addresses when mirroring to EndpointSlices"
            )
            self.host.event(found.view, WARNING, "InvalidIPAddress", text)
        if desired.skipped > desired.invalid:
            text = (
                f"A max of {self._limit} addresses can be mirrored to EndpointSlices per Endpoints "
                f"subset. {desired.skipped} addresses were skipped"
            )
            self.host.event(found.view, WARNING, "TooManyAddressesToMirror", text)
        yield from self._write(found.view, plan_of(found.view, desired, slices, self._limit))

    def _write(self, owner: View, plan: Plan) -> Reconcile[None]:
        if owner.metadata.deletion_timestamp is None:
            for mine in plan.create:
                try:
                    made = yield from calls.create(ENDPOINT_SLICES, owner.namespace, mine)
                except RequestFailed as error:
                    if namespace_is_terminating(error):
                        return
                    text = f"failed to create EndpointSlice for Endpoints {owner.key}: {error}"
                    raise Retry(text) from error
                self._tracker.written(made.tree)
        for mine in plan.update:
            try:
                written = yield from calls.update(ENDPOINT_SLICES, mine)
            except RequestFailed as error:
                raise _failed("update", mine, owner, error) from error
            self._tracker.written(written.tree)
        for found in plan.delete:
            try:
                yield from calls.delete(ENDPOINT_SLICES, owner.namespace, name_of(found))
            except RequestFailed as error:
                raise _failed("delete", found, owner, error) from error
            self._tracker.expect_deletion(found)

    def _delete_all(self, key: str, slices: Sequence[Tree]) -> Reconcile[None]:
        """Delete slices that mirror nothing any more."""
        errors: list[str] = []
        for found in slices:
            try:
                yield from calls.delete(
                    ENDPOINT_SLICES, found["metadata"]["namespace"], name_of(found)
                )
            except RequestFailed as error:
                errors.append(str(error))
        if errors:
            raise Retry(
                f"error(s) deleting {len(errors)}/{len(slices)} EndpointSlices for {key} Endpoints, "
                f"including: {errors[0]}"
            )


def _failed(verb: str, found: Tree, owner: View, error: Exception) -> Retry:
    name = name_of(found)
    return Retry(f"failed to {verb} {name} EndpointSlice for Endpoints {owner.key}: {error}")


def _has_selector(service: Object[Any]) -> bool:
    return (service.tree.get("spec") or {}).get("selector") is not None
