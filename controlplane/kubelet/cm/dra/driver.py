"""Decisions of an emulated DRA driver: the slices that it publishes, and the claims that it prepares.

It stands for a vendor's driver, built on upstream's helper: one pool per node with the node's name, slices owned by
the Node. Upstream: staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
from attrs import frozen

from controlplane.api.resource_claims import allocated_devices, base_request
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.kubelet.cm.dra.health import HEALTHY, TIMEOUT_NS, UNHEALTHY, DeviceHealth
from controlplane.kubelet.cm.dra.messages import ClaimRef, Device, Prepared

__all__ = [
    "DEVICES",
    "FAILS",
    "Connect",
    "Connected",
    "DeviceFault",
    "DriverFault",
    "DriverOptions",
    "HealthReport",
    "HealthSilence",
    "WatchHealth",
    "devices_of",
    "device_health",
    "driver_actor",
    "drivers_of_node",
    "outcome",
    "slice_tree",
]

PREFIX: Final = "emulate.controlplane/"
DEVICES: Final = f"{PREFIX}dra-devices"
FAILS: Final = f"{PREFIX}dra-prepare-fails"
HEALTH: Final = f"{PREFIX}dra-health"
ILL: Final = f"{PREFIX}unhealthy-devices"
MAYBE: Final = -1
"""As the number of failures: each one is a choice."""


@frozen
class DriverOptions:
    """An emulated driver on one node.

    Args:
        name: the driver's name.
        devices: the names of the devices that it publishes; none for one whose slices are written by the user.
        failures: how many calls of NodePrepareResources fail; MAYBE makes each failure a choice.
        health_ns: the time for which a report of its devices' health lasts; 0 for a driver that reports none.
    """

    name: str
    devices: tuple[str, ...] = ()
    failures: int = 0
    health_ns: int = 0


@frozen
class Connect:
    """A kubelet opens a connection; the stream stays as long as both live."""

    node: str


@frozen
class Connected:
    """The driver serves, and says whether it reports the health of devices."""

    driver: str
    health: bool = False


@frozen
class WatchHealth:
    """A kubelet's call of NodeWatchResources: a stream of reports."""


@frozen
class HealthReport:
    """All devices of a driver on a node with their health."""

    devices: tuple[DeviceHealth, ...]


@frozen
class DeviceFault:
    """A driver is to report this health for a device from now on, whatever the Node's annotation says."""

    device: str
    health: str
    message: str = ""


@frozen
class HealthSilence:
    """A driver is to report no health any more (`on`), though its stream stays; or to report again."""

    on: bool = True


@frozen
class DriverFault:
    """Failures of the next calls: `count` calls of a method fail with `message`, after `delay_ns`.

    With `claim` (a uid) only that claim fails, in an answer that is well otherwise. With `lost` the work is done, and
    the answer is lost.
    """

    method: str
    message: str = "not now"
    count: int = 1
    delay_ns: int = 0
    claim: str = ""
    lost: bool = False


def driver_actor(driver: str, node: str) -> str:
    """Return the name of the actor that is a driver on a node."""
    return f"{driver}@{node}"


def devices_of(count: int) -> tuple[str, ...]:
    """Return the names of a number of devices."""
    return tuple(f"device-{number}" for number in range(count))


def drivers_of_node(tree: Tree) -> Mapping[str, DriverOptions]:
    """Return the drivers that a Node's annotations ask for, by name; what cannot be read is ignored.

    `dra-devices: "gpu.example.com=4 nic.example.com=1"` says how many devices each publishes.
    """
    notes = (tree.get("metadata") or {}).get("annotations") or {}
    failures, health = _failures(notes.get(FAILS, "")), health_of(tree)
    found: dict[str, DriverOptions] = {}
    for word in notes.get(DEVICES, "").replace(",", " ").split():
        name, equals, text = word.partition("=")
        count = parse_int64(text) if equals else None
        if name and count is not None and count >= 0:
            found[name] = DriverOptions(name, devices_of(count), failures, health.get(name, 0))
    return found


def failures_of(tree: Tree) -> int:
    """Return how many calls of a node's drivers fail, as its annotation says."""
    return _failures(((tree.get("metadata") or {}).get("annotations") or {}).get(FAILS, ""))


def health_of(tree: Tree) -> Mapping[str, int]:
    """Return the drivers of a node that report health, with the time for which a report lasts.

    `dra-health: "gpu.example.com nic.example.com=60"`: in seconds, 30 where it does not say.
    """
    notes = (tree.get("metadata") or {}).get("annotations") or {}
    found = {}
    for word in notes.get(HEALTH, "").replace(",", " ").split():
        name, equals, text = word.partition("=")
        seconds = parse_int64(text) if equals else TIMEOUT_NS // SECOND
        if name and seconds is not None and seconds > 0:
            found[name] = seconds * SECOND
    return found


def device_health(
    options: DriverOptions, node: Tree, slices: Iterable[Tree], faults: Mapping[str, DeviceFault]
) -> HealthReport:
    """Return a driver's report: the devices of its slices, unhealthy where the Node or a fault says so.

    `unhealthy-devices: "gpu.example.com=device-0,device-2"`.
    """
    notes = (node.get("metadata") or {}).get("annotations") or {}
    ill: dict[str, None] = {}
    for word in notes.get(ILL, "").split():
        driver, _, names = word.partition("=")
        if driver == options.name:
            ill.update(dict.fromkeys(names.split(",")))
    found = []
    for each in slices:
        pool = (each["spec"].get("pool") or {}).get("name", "")
        for device in each["spec"].get("devices") or ():
            name = device.get("name", "")
            fault = faults.get(name)
            health, message = UNHEALTHY if name in ill else HEALTHY, ""
            if fault is not None:
                health, message = fault.health, fault.message
            found.append(DeviceHealth(pool, name, health, message, options.health_ns))
    return HealthReport(tuple(found))


def _failures(text: str) -> int:
    if text == "maybe":
        return MAYBE
    number = parse_int64(text)
    return number if number is not None and number > 0 else 0


def slice_tree(options: DriverOptions, node: Tree) -> Tree:
    """Return the ResourceSlice of a driver with devices of its own on a node."""
    meta = node["metadata"]
    name = meta["name"]
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": name,
        "uid": meta.get("uid", ""),
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": f"{name}-{options.name}-", "ownerReferences": [owner]},
        "spec": {
            "driver": options.name,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": each} for each in options.devices],
        },
    }


def outcome(driver: str, ref: ClaimRef, claim: Tree | None) -> Prepared:
    """Prepare the devices of a claim, as the server has it (None: it is not there)."""
    place = f"{ref.namespace}/{ref.name}"
    if claim is None or (claim.get("metadata") or {}).get("uid", "") != ref.uid:
        return Prepared(error=f"claim {place} with uid {ref.uid} is not there")
    results = [each for each in allocated_devices(claim) if each.get("driver") == driver]
    if not results:
        return Prepared(error=f"claim {place} holds no devices of {driver}")
    return Prepared(tuple(_device(driver, ref, each) for each in results))


def _device(driver: str, ref: ClaimRef, result: Tree) -> Device:
    device = result.get("device", "")
    cdi = f"{driver}/claim={ref.uid}-{device}"
    request = base_request(result.get("request", ""))
    share = result.get("shareID")
    return Device(result.get("pool", ""), device, (request,), (cdi,), share)


@attrs.define
class Faults:
    """The faults of one life of a driver that have not happened yet."""

    waiting: list[DriverFault] = attrs.field(factory=list)

    def take(self, method: str) -> DriverFault | None:
        """Return the fault of a call, if it has one, and count it."""
        for at, fault in enumerate(self.waiting):
            if fault.method == method:
                if fault.count > 1:
                    self.waiting[at] = attrs.evolve(fault, count=fault.count - 1)
                else:
                    del self.waiting[at]
                return fault
        return None


def prepared_text(prepared: Iterable[ClaimRef]) -> str:
    """Return the content of a driver's file: a claim per line."""
    return "".join(f"{ref.namespace} {ref.name} {ref.uid}\n" for ref in prepared)


def prepared_in(text: str) -> dict[str, ClaimRef]:
    """Return the claims of a driver's file by uid."""
    refs = [ClaimRef(*line.split(" ")) for line in text.splitlines()]
    return {ref.uid: ref for ref in refs}


def with_given(
    drivers: Mapping[str, DriverOptions], names: Sequence[str], node: Tree
) -> dict[str, DriverOptions]:
    """Return the drivers of a node with those whose slices a user writes."""
    failures, health = failures_of(node), health_of(node)
    given: dict[str, Any] = {
        name: DriverOptions(name, failures=failures, health_ns=health.get(name, 0))
        for name in names
    }
    return {**given, **drivers}
