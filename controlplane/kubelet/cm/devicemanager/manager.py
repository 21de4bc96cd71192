"""The device manager: which container owns which device of a device plugin.

Upstream: pkg/kubelet/cm/devicemanager/manager.go. Calls of plugins are made without the mutex: others may run there.
Where Go walks a set in any order, devices are taken in the order in which their plugin lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import Options, pod_limits
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.decisions import Write
from controlplane.kubelet.cm.devicemanager import hints
from controlplane.kubelet.cm.devicemanager.plugin import (
    ALLOCATE,
    PREFERRED,
    Listed,
    PluginDevice,
)
from controlplane.kubelet.cm.devicemanager.pod_devices import (
    FILE,
    NO_NUMA,
    ByNUMA,
    DeviceState,
    Entry,
    devices_in,
    restored,
)
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.go_json import GoJSONError
from controlplane.kubelet.cm.requests import is_init
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.cm.topologymanager.hints import Hints, TopologyHint
from controlplane.kubelet.effects import PluginCall, Steps

__all__ = ["GRACE_NS", "DeviceManager", "Endpoint"]

GRACE_NS: Final = 300_000_000_000
"""The time for which a resource outlives its plugin."""
_WITHOUT_OVERHEAD: Final = Options(exclude_overhead=True)
Devices = dict[str, None]
"""Device ids in the plugin's order."""


@attrs.frozen
class Endpoint:
    """A plugin as the manager knows it; `stopped` is when it went away, None while it serves."""

    prefers: bool = False
    stopped: int | None = None


class DeviceManager:
    """Operations are generators: see `controlplane.decisions`. Its memory is lost with the kubelet's process."""

    def __init__(
        self,
        numa_nodes: Sequence[int],
        affinity: Callable[[str, str], TopologyHint],
        view: KubeletView,
        now: Callable[[], int],
        running: Callable[[str, str], bool] = lambda _uid, _container: False,
    ) -> None:
        """`running` returns whether the runtime had a container running when the kubelet started."""
        self._numa_nodes = tuple(numa_nodes)
        self._affinity = affinity
        self._view = view
        self._now = now
        self._running = running
        self.endpoints: dict[str, Endpoint] = {}
        self.devices: dict[str, dict[str, PluginDevice]] = {}
        self.healthy: dict[str, Devices] = {}
        self.unhealthy: dict[str, Devices] = {}
        self.allocated: dict[str, Devices] = {}
        """By resource, the devices that are taken, those of allocations in flight too."""
        self.owned: Mapping[Entry, ByNUMA] = {}
        """The owners of devices; a change makes a new map, for observers."""
        self.removed: Devices = {}
        """Resources whose plugins stayed away: the Node shows 0 of them."""
        self._reusable: dict[str, dict[str, Devices]] = {}

    # ------------------------------------------------------------------ plugins

    def start(self, text: str | None) -> str:
        """Begin with the checkpoint file; why it cannot be used, "" if it can: the manager goes on without it."""
        if text is None:
            return ""
        try:
            state = restored(text)
        except (ManagerError, GoJSONError) as error:
            return f"Continue after failing to read checkpoint file: {error}"
        self.owned = dict(state.owned)
        self._recount()
        for resource in state.registered:
            self.healthy[resource], self.unhealthy[resource] = {}, {}
            self.endpoints[resource] = Endpoint(stopped=self._now())
        return ""

    def listed(self, resource: str, told: Listed) -> Steps[None]:
        """A plugin has listed its devices; the first list registers it."""
        self.endpoints[resource] = Endpoint(told.prefers)
        self.removed.pop(resource, None)
        self.devices[resource] = {each.id: each for each in told.devices}
        self.healthy[resource] = dict.fromkeys(each.id for each in told.devices if each.healthy)
        ill = (each.id for each in told.devices if not each.healthy)
        self.unhealthy[resource] = dict.fromkeys(ill)
        yield self._write()

    def pods_affected(self, resource: str, told: Listed) -> dict[str, None]:
        """Return the pods with a device whose health a new list changes, or that is new in it; ask before `listed`.

        As upstream, the owner of a device is looked for by its id alone, the first one of any resource.
        """
        known = self.devices.get(resource, {})
        owners: dict[str, str] = {}
        for entry, by_numa in self.owned.items():
            for each in devices_in(by_numa):
                owners.setdefault(each, entry.pod)
        return {
            owners[each.id]: None
            for each in told.devices
            if each.id in owners
            and (each.id not in known or known[each.id].healthy != each.healthy)
        }

    def resource_statuses(self, uid: str, container: str) -> list[Tree]:
        """Return allocatedResourcesStatus of a container: its devices, healthy unless their plugin said otherwise last.

        Upstream: UpdateAllocatedResourcesStatus.
        """
        found = []
        for entry, by_numa in self.owned.items():
            if (entry.pod, entry.container) == (uid, container):
                known = self.devices.get(entry.resource, {})
                resources = [
                    {"resourceID": each, "health": _health(known.get(each))}
                    for each in devices_in(by_numa)
                ]
                found.append({"name": entry.resource, "resources": resources})
        return found

    def disconnected(self, resource: str) -> None:
        """A plugin's stream broke: its devices are unhealthy, and after five minutes its resource is gone."""
        endpoint = self.endpoints.get(resource)
        if endpoint is not None:
            self.unhealthy.setdefault(resource, {}).update(self.healthy.get(resource, {}))
            self.healthy[resource] = {}
            self.endpoints[resource] = attrs.evolve(endpoint, stopped=self._now())

    def expiry(self) -> int | None:
        """Return when the next resource without a plugin is removed."""
        stops = [each.stopped for each in self.endpoints.values() if each.stopped is not None]
        return min(stops) + GRACE_NS + 1 if stops else None

    def remove_expired(self) -> Steps[None]:
        """Forget resources whose plugins stayed away for too long. Upstream: GetCapacity."""
        expired = [
            name
            for name, each in self.endpoints.items()
            if each.stopped is not None and self._now() - each.stopped > GRACE_NS
        ]
        for name in expired:
            del self.endpoints[name]
            self.healthy.pop(name, None)
            self.unhealthy.pop(name, None)
            self.removed[name] = None
        if expired:
            yield self._write()

    def amounts(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return capacity and allocatable of the resources, as the Node has to show them."""
        capacity = dict.fromkeys(self.removed, "0")
        allocatable = dict(capacity)
        for name, healthy in self.healthy.items():
            allocatable[name] = str(len(healthy))
            capacity[name] = str(len(healthy) + len(self.unhealthy.get(name, ())))
        return capacity, allocatable

    def at_least(self, pod: Pod) -> Mapping[str, int]:
        """Return the least amounts that admission counts as allocatable. Upstream: sanitizeNodeAllocatable."""
        if not any(entry.pod == pod.uid for entry in self.owned):
            return {}
        return {name: len(devices) for name, devices in self.allocated.items()}

    # ------------------------------------------------------------------ hints

    def topology_hints(self, pod: Pod, container: Container) -> Steps[Hints]:
        """Return the NUMA nodes from which a container could get its devices."""
        self._update()
        reusable = self._reusable.get(pod.uid, {})
        found = {
            resource: self._hints(
                resource,
                wanted,
                self._of_container(pod.uid, container.name, resource) or {},
                reusable.get(resource, {}),
            )
            for resource, wanted in self._known(container.resources.limits)
        }
        yield from ()
        return found

    def pod_topology_hints(self, pod: Pod) -> Steps[Hints]:
        """Return the NUMA nodes from which all containers of a pod could get their devices."""
        self._update()
        limits = pod_limits(pod, _WITHOUT_OVERHEAD)
        found = {
            resource: self._hints(resource, wanted, self._of_pod(pod.uid, resource), {})
            for resource, wanted in self._known(limits)
        }
        yield from ()
        return found

    def _known(self, limits: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
        for resource, quantity in limits.items():
            if self.is_known(resource):
                yield resource, quantity.value()

    def _hints(
        self, resource: str, wanted: int, allocated: Devices, reusable: Devices
    ) -> Sequence[TopologyHint] | None:
        devices = self.devices.get(resource, {})
        if not hints.has_topology(devices):
            return None
        if allocated:
            if len(allocated) != wanted:
                return []
            return hints.device_hints(devices, self._numa_nodes, allocated, {}, wanted)
        available = self._available(resource)
        if len({**available, **reusable}) < wanted:
            return []
        return hints.device_hints(devices, self._numa_nodes, available, reusable, wanted)

    # ------------------------------------------------------------------ allocation

    def is_known(self, resource: str) -> bool:
        """Return whether a plugin serves a resource, or containers own devices of it."""
        return resource in self.healthy or resource in self.allocated

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Nothing to do: pods as a whole get no devices."""
        yield from ()

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Give a container the devices that it asks for. Raises ManagerError.

        Devices of an init container that ends are used again by those after it.
        """
        reusable = self._reusable.get(pod.uid, {})
        self._reusable = {pod.uid: reusable}
        yield from self._allocate(pod, container, reusable)
        keeps = not is_init(pod, container)
        for entry, by_numa in self.owned.items():
            if (entry.pod, entry.container) == (pod.uid, container.name):
                known = reusable.setdefault(entry.resource, {})
                for each in devices_in(by_numa):
                    if keeps:
                        known.pop(each, None)
                    else:
                        known[each] = None

    def _allocate(
        self, pod: Pod, container: Container, reusable: Mapping[str, Devices]
    ) -> Steps[None]:
        updated = wrote = False
        for resource, quantity in container.resources.limits.items():
            if _by_claim(pod, container.name, resource) or not self.is_known(resource):
                continue
            if not updated:
                self._update()
                updated = True
            chosen = yield from self._choose(
                pod.uid, container.name, resource, quantity.value(), reusable.get(resource, {})
            )
            if not chosen:
                continue
            wrote = True
            try:
                if resource not in self.endpoints:
                    raise ManagerError(f"unknown Device Plugin {resource}")
                yield self._call(PluginCall(resource, ALLOCATE, tuple(chosen)))
            except ManagerError:
                self._recount()
                raise
            entry = Entry(pod.uid, container.name, resource)
            self.owned = {**self.owned, entry: self._by_numa(resource, chosen)}
        if wrote:
            yield self._write()

    def _call(self, call: PluginCall) -> PluginCall:
        if self.endpoints[call.resource].stopped is not None:
            raise ManagerError(f"endpoint {call.resource} has been stopped")
        return call

    def _choose(
        self, uid: str, container: str, resource: str, required: int, reusable: Devices
    ) -> Steps[Devices]:
        """Return the devices to allocate, which count as allocated from now on. Upstream: devicesToAllocate."""
        needed = required
        own = self._of_container(uid, container, resource)
        if own is not None:
            needed -= len(own)
            if needed:
                raise ManagerError(
                    f"pod {quote(uid)} container {quote(container)} changed request for resource "
                    f"{quote(resource)} from {len(own)} to {required}"
                )
        if not self._view.sources_ready() and self._running(uid, container):
            return {}
        self._check(resource, own or {})
        if not needed:
            return {}
        chosen: Devices = {}

        def take(devices: Iterable[str]) -> bool:
            taken = self.allocated.setdefault(resource, {})
            for each in devices:
                if each not in chosen:
                    taken[each] = chosen[each] = None
                    if len(chosen) == needed:
                        return True
            return False

        if take(reusable):
            return chosen
        available = self._available(resource)
        missing = needed - len(chosen)
        if len(available) < missing:
            raise ManagerError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {missing}, Available: {len(available)}"
            )
        devices = self.devices.get(resource, {})
        hint = self._affinity(uid, container)
        groups = hints.by_affinity(devices, hint.mask, available)
        aligned = groups[0]
        ample = missing < len(aligned)
        if not ample and take(aligned):
            return chosen
        offered = dict.fromkeys(aligned) if ample else available
        wishes = yield from self._preferred(resource, offered, chosen, required)
        if take(each for each in wishes if each in offered):
            return chosen
        for group in groups[:1] if ample else groups[1:]:
            if take(group):
                return chosen
        raise ManagerError(
            "unexpectedly allocated less resources than required. "
            f"Requested: {required}, Got: {len(chosen)}"
        )

    def _check(self, resource: str, own: Devices) -> None:
        healthy = self.healthy.get(resource)
        if healthy is None:
            raise ManagerError(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise ManagerError(
                f"no healthy devices present; cannot allocate unhealthy devices {resource}"
            )
        if any(each not in healthy for each in own):
            raise ManagerError(
                "previously allocated devices are no longer healthy; "
                f"cannot allocate unhealthy devices {resource}"
            )

    def _preferred(
        self, resource: str, offered: Devices, chosen: Devices, size: int
    ) -> Steps[Sequence[str]]:
        endpoint = self.endpoints.get(resource)
        if endpoint is None:
            raise ManagerError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.prefers:
            return ()
        devices = tuple({**offered, **chosen})
        try:
            found: Sequence[str] = yield self._call(
                PluginCall(resource, PREFERRED, devices, tuple(chosen), size)
            )
        except ManagerError as error:
            raise ManagerError(
                f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            ) from None
        return found

    # ------------------------------------------------------------------ state

    def state(self) -> DeviceState:
        """Return what the checkpoint file has to hold."""
        registered = {name: tuple(devices) for name, devices in self.healthy.items()}
        return DeviceState(self.owned, registered)

    def _write(self) -> Write:
        return Write(FILE, self.state())

    def _update(self) -> None:
        """Take back the devices of pods that are not active. Upstream: UpdateAllocatedDevices."""
        active = {pod.uid: None for pod in self._view.active_pods()} if self.owned else {}
        if not self._view.sources_ready():
            return
        gone = [entry for entry in self.owned if entry.pod not in active]
        if gone:
            self.owned = {key: ids for key, ids in self.owned.items() if key not in gone}
            self._recount()

    def _recount(self) -> None:
        self.allocated = {}
        for entry, by_numa in self.owned.items():
            known = self.allocated.setdefault(entry.resource, {})
            known.update(dict.fromkeys(devices_in(by_numa)))

    def _available(self, resource: str) -> Devices:
        taken = self.allocated.get(resource, {})
        return {each: None for each in self.healthy.get(resource, {}) if each not in taken}

    def _of_container(self, uid: str, container: str, resource: str) -> Devices | None:
        by_numa = self.owned.get(Entry(uid, container, resource))
        return None if by_numa is None else dict.fromkeys(devices_in(by_numa))

    def _of_pod(self, uid: str, resource: str) -> Devices:
        return {
            each: None
            for entry, by_numa in self.owned.items()
            if (entry.pod, entry.resource) == (uid, resource)
            for each in devices_in(by_numa)
        }

    def _by_numa(self, resource: str, devices: Devices) -> ByNUMA:
        found: dict[int, tuple[str, ...]] = {}
        known = self.devices.get(resource, {})
        for each in devices:
            numa = known[each].numa if each in known else ()
            for node in numa or (NO_NUMA,):
                found[node] = (*found.get(node, ()), each)
        return found


def _health(device: PluginDevice | None) -> str:
    return "Healthy" if device is None or device.healthy else "Unhealthy"


def _by_claim(pod: Pod, container: str, resource: str) -> bool:
    """Return whether a claim gives a container this extended resource."""
    status = (pod.tree.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return any(
        (each.get("containerName"), each.get("resourceName")) == (container, resource)
        for each in status.get("requestMappings") or ()
    )
