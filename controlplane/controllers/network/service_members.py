"""The services of a pod, and the changes of a pod that matter to them. Upstream:
endpointslice/util/controller_utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from controlplane.api.labels import from_set
from controlplane.client.resources import PODS, SERVICES
from controlplane.controllers.common.controller import Handlers, Work
from controlplane.controllers.common.pods import is_ready
from controlplane.decisions import immediate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.service import Service
    from controlplane.client.indexer import Indexer
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Queue

TERMINAL = ("Succeeded", "Failed")


class PodChange(NamedTuple):
    """The part of a pod's change that selects the services; `before` only if its labels changed."""

    namespace: str
    labels: Mapping[str, str]
    before: Mapping[str, str] | None = None
    pod_changed: bool = False


def change_of(old: Object[Pod] | None, new: Object[Pod]) -> PodChange | None:
    """Return the keys for the lookup of services; None when no service is concerned."""
    pod = new.view
    if old is None:
        return PodChange(new.namespace, pod.labels)
    if old.resource_version == new.resource_version:
        return None
    before = old.view
    moved = (before.labels, before.spec.hostname, before.spec.subdomain) != (
        pod.labels,
        pod.spec.hostname,
        pod.spec.subdomain,
    )
    changed = (
        before.metadata.deletion_timestamp != pod.metadata.deletion_timestamp
        or is_ready(before) != is_ready(pod)
        or [each.ip for each in before.status.pod_ips] != [each.ip for each in pod.status.pod_ips]
    )
    if moved:
        return PodChange(new.namespace, pod.labels, before.labels, changed)
    return PodChange(new.namespace, pod.labels) if changed else None


def selects(service: Service, labels: Mapping[str, str]) -> bool:
    """Return whether a service has a selector, and it matches; an empty one matches everything."""
    selector = (service.tree.get("spec") or {}).get("selector")
    return selector is not None and from_set(selector).matches(labels)


def services_of(services: Indexer[Service], change: PodChange) -> list[str]:
    """The keys of the services that a pod's change concerns. `services` needs index "namespace"."""
    known = services.by_index("namespace", change.namespace)
    now = [obj.key for obj in known if selects(obj.view, change.labels)]
    if change.before is None:
        return now
    before = [obj.key for obj in known if selects(obj.view, change.before)]
    if change.pod_changed:
        return list(dict.fromkeys((*now, *before)))
    return [key for key in now if key not in before] + [key for key in before if key not in now]


class PodChanges:
    """Turns changes of pods into work on the services that they concern, as both endpoint controllers do.

    Each change has an item of its own in `changes`, as equal ones are not the same one upstream.
    """

    def __init__(self, name: str, changes: Queue, services: Queue, known: Indexer[Service]) -> None:
        self._name = name
        self._changes = changes
        self._services = services
        self._known = known
        self._noted: dict[str, PodChange] = {}
        self._seen = 0

    def work(self) -> Work:
        """Return the work that takes the changes up."""
        return Work(self._name, immediate(self._ask_for_services))

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Services ask for themselves, pods for the services that they are behind."""
        return {
            SERVICES: Handlers(
                lambda obj: self._services.add(obj.key),
                lambda _old, new: self._services.add(new.key),
                lambda obj, _unknown: self._services.add(obj.key),
            ),
            PODS: Handlers(
                lambda obj: self._note(change_of(None, obj)),
                lambda old, new: self._note(change_of(old, new)),
                lambda obj, _unknown: self._note(change_of(None, obj)),
            ),
        }

    def _note(self, change: PodChange | None) -> None:
        if change is not None:
            self._seen += 1
            key = f"{change.namespace}/{self._seen}"
            self._noted[key] = change
            self._changes.add(key)

    def _ask_for_services(self, key: str) -> None:
        for service in services_of(self._known, self._noted.pop(key)):
            self._services.add(service)


def selected_pods(service: Service, pods: Indexer[Pod]) -> list[Pod] | None:
    """The pods behind a service; None if it names none itself. `pods` needs index "namespace"."""
    selector = (service.tree.get("spec") or {}).get("selector")
    if service.spec.type == "ExternalName" or selector is None:
        return None
    matcher = from_set(selector)
    known = pods.by_index("namespace", service.namespace)
    return [each.view for each in known if matcher.matches(each.view.labels)]


def has_address(pod: Pod, *, terminating: bool) -> bool:
    """Return whether a pod can be behind a service: it goes on and has an address; `terminating` ones too if asked."""
    if pod.status.phase in TERMINAL or not (pod.status.pod_ip or pod.status.pod_ips):
        return False
    return terminating or pod.metadata.deletion_timestamp is None


def hostname_for(pod: Pod, service: Service) -> str:
    """The name under which a pod is found below a service's own; "" if it has none there."""
    same = pod.spec.subdomain == service.name and pod.namespace == service.namespace
    return pod.spec.hostname if same else ""
