"""The endpoints controller. Upstream: pkg/controller/endpoint/endpoints_controller.go.

Point: `endpoint.slice` (a batch of ports of pods was looked at).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND, format_time
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import ENDPOINTS, PODS, SERVICES
from controlplane.controllers.common.controller import (
    WARNING,
    Controller,
    Handlers,
    Periodic,
    Work,
    ignore,
)
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.pods import is_ready
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.network.endpoints import subsets
from controlplane.controllers.network.endpoints.subsets import CAPACITY, Entry
from controlplane.controllers.network.endpointslice.endpoints import (
    IPV6,
    NO_CLUSTER_IP,
    find_port,
    is_v6,
)
from controlplane.controllers.network.endpointslice.packing import HEADLESS
from controlplane.controllers.network.service_members import (
    PodChanges,
    has_address,
    hostname_for,
    selected_pods,
)
from controlplane.controllers.network.trigger_times import ANNOTATION, TriggerTimes
from controlplane.decisions import Point, immediate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.pod import Pod
    from controlplane.api.service import Service
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

MAX_RETRIES: Final = 15
SLICE: Final = 20_000
"""The number of ports of pods that are handled before other tasks may run."""
MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
TRUNCATED: Final = "truncated"
ONCE_NS: Final = 100 * 365 * 86400 * SECOND
"""A period so long that a task of the start never comes again."""


class EndpointsController(Controller):
    """Keeps, for each service with a selector, one object with the addresses of the pods that it selects."""

    name = "endpoints-controller"
    component = MANAGER

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("endpoint")
        self._pods = caches.of(PODS, namespace=namespace_index)
        self._services = caches.of(SERVICES, namespace=namespace_index)
        self._endpoints = caches.of(ENDPOINTS)
        self._trigger_times = TriggerTimes()
        self._stale: dict[str, int] = {}
        self._pod_changes = PodChanges(
            "endpoint_pods", host.queue("endpoint_pods"), self.queue, self._services
        )

    def work(self) -> tuple[Work, ...]:
        """Services, and changes of pods, from which services follow."""
        return (
            Work("endpoint", self.sync, MAX_RETRIES),
            self._pod_changes.work(),
        )

    def periodic(self) -> tuple[Periodic, ...]:
        """Return the clean-up of leftovers, which runs once."""
        return (Periodic("endpoint.leftover", ONCE_NS, immediate(self._leftover)),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Services, their pods, and endpoints that go."""
        return {
            **self._pod_changes.handlers(),
            ENDPOINTS: Handlers(ignore, ignore, lambda obj, _unknown: self.queue.add(obj.key)),
        }

    # ------------------------------------------------------------------ reconcile

    def _leftover(self) -> None:
        """Ask for all endpoints that this controller made: their service may be gone."""
        for obj in self._endpoints:
            if obj.view.labels.get(MANAGED_BY) == MANAGER:
                self.queue.add(obj.key)

    def sync(self, key: str) -> Reconcile[None]:
        """Bring the endpoints of a service to what its pods are."""
        obj = self._services.get(key)
        if obj is None:
            yield from self._delete(key)
            return
        service = obj.view
        pods = selected_pods(service, self._pods)
        if pods is None:
            return
        trigger = self._trigger_times.next(service, pods)
        entries: list[Entry] = []
        due = SLICE
        for pod in pods:
            entries += _entries(service, pod)
            if len(entries) >= due:
                due = len(entries) + SLICE
                yield Point("endpoint.slice")
        wanted = subsets.pack(entries)
        current = self._endpoints.get(key)
        if current is not None:
            if self._stale.get(key) == current.resource_version:
                raise Retry(
                    "endpoints informer cache is out of date, resource version "
                    f"{current.resource_version} already processed for endpoints {key}"
                )
            if _is_right(current.tree, service, wanted):
                return
        tree = _new(service, None if current is None else current.tree, wanted, trigger)
        try:
            if current is None:
                yield from calls.create(ENDPOINTS, service.namespace, tree)
                return
            written = yield from calls.update(ENDPOINTS, tree)
        except RequestFailed as error:
            if current is None and namespace_is_terminating(error):
                return
            self._complain(tree, key, error, new=current is None)
            raise
        if written.resource_version != current.resource_version:
            self._stale[key] = current.resource_version

    def _complain(self, tree: Tree, key: str, error: Exception, *, new: bool) -> None:
        namespace, name = key.split("/")
        about = {"apiVersion": "v1", "kind": "Endpoints", "name": name, "namespace": namespace}
        if uid := tree["metadata"].get("uid"):
            about["uid"] = uid
        reason, text = (
            ("FailedToCreateEndpoint", f"Failed to create endpoint for service {key}: {error}")
            if new
            else ("FailedToUpdateEndpoint", f"Failed to update endpoint {key}: {error}")
        )
        self.host.event(about, WARNING, reason, text)

    def _delete(self, key: str) -> Reconcile[None]:
        """The service is gone, and so are its endpoints to be."""
        namespace, name = key.split("/")
        try:
            yield from calls.delete(ENDPOINTS, namespace, name)
        except ApiError as error:
            if not is_not_found(error):
                raise
        self._trigger_times.forget(key)
        self._stale.pop(key, None)


def _entries(service: Service, pod: Pod) -> Iterator[Entry]:
    """The addresses and ports of a pod. One that is ending counts only if the service publishes all."""
    everything = service.spec.publish_not_ready_addresses
    if not has_address(pod, terminating=everything):
        return
    v6 = _family_is_v6(service, pod)
    ip = next((each.ip for each in pod.status.pod_ips if is_v6(each.ip) == v6), None)
    if ip is None:
        return
    reference = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    address: Tree = {"ip": ip, "nodeName": pod.spec.node_name, "targetRef": reference}
    hostname = hostname_for(pod, service)
    if hostname:
        address["hostname"] = hostname
    ready = everything or is_ready(pod)
    if not service.spec.ports:
        if service.spec.cluster_ip == NO_CLUSTER_IP:
            yield Entry(address, None, ready)
        return
    for port in service.spec.ports:
        number = find_port(pod, port)
        if number is None:
            continue
        fields = {"name": port.name, "protocol": port.protocol, "appProtocol": port.app_protocol}
        tree: Tree = {"port": number, **{name: text for name, text in fields.items() if text}}
        yield Entry(address, tree, ready)


def _family_is_v6(service: Service, pod: Pod) -> bool:
    spec = service.spec
    if spec.ip_families:
        return spec.ip_families[0] == IPV6
    if spec.cluster_ip and spec.cluster_ip != NO_CLUSTER_IP:
        return is_v6(spec.cluster_ip)
    return is_v6(pod.status.pod_ip)


def _is_right(tree: Tree, service: Service, wanted: list[Tree]) -> bool:
    """Return whether endpoints need no write."""
    metadata = tree["metadata"]
    labels = metadata.get("labels") or {}
    own = {key: text for key, text in labels.items() if key not in (MANAGED_BY, HEADLESS)}
    there = tree.get("subsets") or ()
    return (
        subsets.equal(there, wanted)
        and labels.get(MANAGED_BY) == MANAGER
        and own == service.labels
        and subsets.count(there, "addresses", "notReadyAddresses") <= CAPACITY
        and OVER_CAPACITY not in (metadata.get("annotations") or {})
    )


def _new(service: Service, current: Tree | None, wanted: list[Tree], trigger: int | None) -> Tree:
    """The endpoints to be written."""
    metadata: Tree = {"name": service.name, "namespace": service.namespace}
    if current is not None:
        metadata = dict(current["metadata"])
    dropped = (ANNOTATION, OVER_CAPACITY)
    known = metadata.pop("annotations", None) or {}
    annotations = {key: text for key, text in known.items() if key not in dropped}
    if trigger is not None:
        annotations[ANNOTATION] = format_time(trigger)
    truncated = subsets.truncate(wanted)
    if truncated is not None:
        annotations[OVER_CAPACITY] = TRUNCATED
    if annotations:
        metadata["annotations"] = annotations
    labels = {key: text for key, text in service.labels.items() if key != HEADLESS}
    labels[MANAGED_BY] = MANAGER
    if service.spec.cluster_ip in ("", NO_CLUSTER_IP):
        labels[HEADLESS] = ""
    return {
        **(current or {"apiVersion": "v1", "kind": "Endpoints"}),
        "metadata": {**metadata, "labels": labels},
        "subsets": wanted if truncated is None else truncated,
    }
