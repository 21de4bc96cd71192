"""The EndpointSlice controller. Upstream: pkg/controller/endpointslice and staging k8s.io/endpointslice.

Point: `endpointslice.slice` (a batch of ports of pods was looked at).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND, format_time
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from controlplane.controllers.common.controller import WARNING, Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry, aggregate
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.network.endpointslice import endpoints, hints, packing
from controlplane.controllers.network.endpointslice.endpoints import ZONE, Identity
from controlplane.controllers.network.endpointslice.packing import (
    MANAGER,
    Plan,
)
from controlplane.controllers.network.endpointslice.topology import Report, TopologyCache
from controlplane.controllers.network.endpointslice.tracker import (
    SliceHandlers,
    SliceTracker,
    managed_by,
    service_name,
)
from controlplane.controllers.network.service_members import PodChanges, has_address, selected_pods
from controlplane.controllers.network.trigger_times import ANNOTATION, TriggerTimes
from controlplane.decisions import Point, immediate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.service import Service
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

MAX_ENDPOINTS: Final = 100
MAX_RETRIES: Final = 15
SLICE: Final = 20_000
"""The number of ports of pods that are handled before other tasks may run."""
SLICE_DELAY_NS: Final = SECOND
_TOPOLOGY: Final = "topologyQueueItemKey"


class EndpointSliceController(Controller):
    """Keeps, for each service with a selector, slices of the addresses of the pods that it selects."""

    name = "endpointslice-controller"
    component = "endpoint-slice-controller"

    def __init__(self, host: Host, caches: Caches, max_endpoints: int = MAX_ENDPOINTS) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("endpoint_slice")
        self._topology_queue = host.queue("endpoint_slice_topology")
        self._limit = max_endpoints
        self._pods = caches.of(PODS, namespace=namespace_index)
        self._services = caches.of(SERVICES, namespace=namespace_index)
        self._nodes = caches.of(NODES)
        self._slices = caches.of(ENDPOINT_SLICES, namespace=namespace_index)
        self._tracker = SliceTracker()
        self._trigger_times = TriggerTimes()
        self._topology = TopologyCache()
        self._pod_changes = PodChanges(
            "endpoint_slice_pods", host.queue("endpoint_slice_pods"), self.queue, self._services
        )

    def work(self) -> tuple[Work, ...]:
        """Services; changes of pods, from which services follow; and the nodes' zones."""
        return (
            Work("endpoint_slice", self.sync, MAX_RETRIES, backoff_ns=(SECOND, 1000 * SECOND)),
            self._pod_changes.work(),
            Work("endpoint_slice_topology", immediate(self._count_nodes), workers=1),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Services, their pods and slices; nodes only for their zones."""
        return {
            **self._pod_changes.handlers(),
            ENDPOINT_SLICES: SliceHandlers(
                self._tracker, MANAGER, lambda key: self.queue.add_after(key, SLICE_DELAY_NS)
            ).handlers(),
            NODES: Handlers(
                lambda _obj: self._topology_queue.add(_TOPOLOGY),
                self._node_updated,
                lambda _obj, _unknown: self._topology_queue.add(_TOPOLOGY),
            ),
        }

    # ------------------------------------------------------------------ handlers

    def _node_updated(self, old: Object[Node], new: Object[Node]) -> None:
        if _place(old.view) != _place(new.view):
            self._topology_queue.add(_TOPOLOGY)

    # ------------------------------------------------------------------ reconcile

    def _count_nodes(self, _key: str) -> None:
        """Count the zones' CPU anew, and ask for the services that no longer fit."""
        self._topology.set_nodes(obj.view for obj in self._nodes)
        for key in self._topology.overloaded():
            self.queue.add(key)

    def sync(self, key: str) -> Reconcile[None]:
        """Bring the slices of a service to what its pods are."""
        obj = self._services.get(key)
        if obj is None:
            self._trigger_times.forget(key)
            self._tracker.forget(key)
            return
        service = obj.view
        pods = selected_pods(service, self._pods)
        if pods is None:
            return
        slices = [
            each.tree
            for each in self._slices.by_index("namespace", obj.namespace)
            if service_name(each.tree) == service.name
            and managed_by(each.tree, MANAGER)
            and "deletionTimestamp" not in each.tree["metadata"]
        ]
        if self._tracker.stale(key, slices):
            raise Retry("EndpointSlice informer cache is out of date")
        trigger = self._trigger_times.next(service, pods)
        try:
            yield from self._reconcile(service, pods, slices, trigger)
        except (*RequestFailed, Retry) as error:
            text = f"Error updating Endpoint Slices for Service {key}: {error}"
            self.host.event(service, WARNING, "FailedToUpdateEndpointSlices", text)
            raise

    def _reconcile(
        self, service: Service, pods: Sequence[Pod], slices: Sequence[Tree], trigger: int | None
    ) -> Reconcile[None]:
        kinds = endpoints.address_types(service)
        superfluous = [each for each in slices if each.get("addressType") not in kinds]
        for each in superfluous:
            self._topology.remove(service.key, each.get("addressType", ""))
        errors: list[Exception] = []
        for kind in kinds:
            existing = [each for each in slices if each.get("addressType") == kind]
            plan, skipped = yield from self._plan(service, pods, existing, kind)
            errors += skipped
            reports = self._give_hints(service, plan, existing, kind)
            try:
                yield from self._write(service, plan, trigger)
            except Retry as error:
                errors.append(error)
            for report in reports:
                self.host.event(service, *report)
        for each in superfluous:
            try:
                yield from self._delete(each)
            except RequestFailed as error:
                name = packing.name_of(each)
                text = f"error deleting {name} EndpointSlice for Service {service.key}: {error}"
                errors.append(Retry(text))
        if errors:
            raise aggregate(errors)

    def _plan(
        self, service: Service, pods: Sequence[Pod], existing: Sequence[Tree], kind: str
    ) -> Reconcile[tuple[Plan, list[Exception]]]:
        """Return the changes to the slices of one kind of address; pods on unknown nodes are left out."""
        groups: dict[tuple[Any, ...], list[Tree]] = {}
        plan = Plan()
        for found in existing:
            if packing.owned_by(found, service):
                ports = endpoints.sorted_ports(found.get("ports"))
                groups.setdefault(endpoints.port_key(ports), []).append(found)
            else:
                plan.delete.append(found)
        desired: dict[tuple[Any, ...], dict[Identity, Tree]] = {}
        empty: dict[tuple[Any, ...], Tree] = {}
        skipped: list[Exception] = []
        looked_at = 0
        for pod in pods:
            if not has_address(pod, terminating=True):
                continue
            ports = endpoints.sorted_ports(endpoints.endpoint_ports(service, pod))
            looked_at += 1 + len(ports)
            if looked_at >= SLICE:
                looked_at = 0
                yield Point("endpointslice.slice")
            group = endpoints.port_key(ports)
            members = desired.setdefault(group, {})
            if group not in empty:
                empty[group] = packing.new_slice(service, kind, ports)
            node = self._nodes.get(pod.spec.node_name)
            if node is None and not service.spec.publish_not_ready_addresses:
                missing = f"Node {pod.spec.node_name} Not Found"
                skipped.append(
                    Retry(f"skipping Pod {pod.name} for Service {service.key}: {missing}")
                )
                continue
            view = None if node is None else node.view
            endpoint = endpoints.pod_endpoint(pod, view, service, kind)
            if endpoint["addresses"]:
                members[endpoints.identity(endpoint)] = endpoint
        for group, members in desired.items():
            there = groups.get(group, ())
            plan.add(packing.pack(service, there, members, empty[group], self._limit))
        for group, there in groups.items():
            if group not in desired:
                plan.delete += there
        if len(existing) == len(plan.delete) and not plan.create:
            placeholder = packing.new_slice(service, kind, ())
            if len(plan.delete) == 1 and packing.same_placeholder(plan.delete[0], placeholder):
                plan.delete.clear()
            else:
                plan.create.append(placeholder)
        return plan, skipped

    def _give_hints(
        self, service: Service, plan: Plan, existing: Sequence[Tree], kind: str
    ) -> list[Report]:
        """Put hints on the endpoints, or take them away; what is to be said about it."""
        if hints.by_topology(service):
            return self._topology.add_hints(service.key, kind, plan, existing)
        reports = self._topology.drop(service.key, kind)
        if hints.distributed(service):
            hints.distribute(service, plan, existing)
        else:
            hints.remove_hints(plan, existing)
        return reports

    # ------------------------------------------------------------------ writes

    def _write(self, service: Service, plan: Plan, trigger: int | None) -> Reconcile[None]:
        """Create, update and delete; a slice that would go takes the place of one that would come."""
        going: list[Tree] = []
        for found in plan.delete:
            fits = (
                plan.create
                and found.get("addressType") == plan.create[-1]["addressType"]
                and packing.owned_by(found, service)
            )
            if fits:
                mine = plan.create.pop()
                mine["metadata"]["name"] = packing.name_of(found)
                plan.update.append(mine)
            else:
                going.append(found)
        if service.metadata.deletion_timestamp is None:
            for mine in plan.create:
                try:
                    made = yield from calls.create(
                        ENDPOINT_SLICES, service.namespace, _stamped(mine, trigger)
                    )
                except RequestFailed as error:
                    if namespace_is_terminating(error):
                        return
                    text = f"failed to create EndpointSlice for Service {service.key}: {error}"
                    raise Retry(text) from error
                self._tracker.written(made.tree)
        for mine in plan.update:
            try:
                written = yield from calls.update(ENDPOINT_SLICES, _stamped(mine, trigger))
            except RequestFailed as error:
                raise self._failed("update", mine, service, error) from error
            self._tracker.written(written.tree)
        for found in going:
            try:
                yield from self._delete(found)
            except RequestFailed as error:
                raise self._failed("delete", found, service, error) from error

    def _failed(self, verb: str, found: Tree, service: Service, error: Exception) -> Retry:
        name = packing.name_of(found)
        return Retry(f"failed to {verb} {name} EndpointSlice for Service {service.key}: {error}")

    def _delete(self, found: Tree) -> Reconcile[None]:
        """Delete a slice; one that is gone already is not waited for."""
        metadata = found["metadata"]
        try:
            yield from calls.delete(ENDPOINT_SLICES, metadata["namespace"], metadata["name"])
        except ApiError as error:
            if not is_not_found(error):
                raise
        else:
            self._tracker.expect_deletion(found)


def _place(node: Node) -> tuple[bool, str]:
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    return ready is not None and ready.status == "True", node.labels.get(ZONE, "")


def _stamped(mine: Tree, trigger: int | None) -> Tree:
    """The body of a write: with the time of the change that it answers to, or without any."""
    metadata = mine["metadata"]
    annotations = {key: each for key, each in metadata["annotations"].items() if key != ANNOTATION}
    if trigger is not None:
        annotations[ANNOTATION] = format_time(trigger)
    rest = {key: each for key, each in metadata.items() if key != "annotations"}
    if annotations:
        rest["annotations"] = annotations
    return {**mine, "metadata": rest}
