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
from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.kubelet.cm.dra.messages import ClaimRef, Device, Prepared

__all__ = [
    "DEVICES",
    "FAILS",
    "Connect",
    "Connected",
    "DriverFault",
    "DriverOptions",
    "devices_of",
    "driver_actor",
    "drivers_of_node",
    "outcome",
    "slice_tree",
]

PREFIX: Final = "emulate.controlplane/"
DEVICES: Final = f"{PREFIX}dra-devices"
FAILS: Final = f"{PREFIX}dra-prepare-fails"
MAYBE: Final = -1
"""As the number of failures: each one is a choice."""


@frozen
class DriverOptions:
    """An emulated driver on one node.

    Args:
        name: the driver's name.
        devices: the names of the devices that it publishes; none for one whose slices are written by the user.
        failures: how many calls of NodePrepareResources fail; MAYBE makes each failure a choice.
    """

    name: str
    devices: tuple[str, ...] = ()
    failures: int = 0


@frozen
class Connect:
    """A kubelet opens a connection; the stream stays as long as both live."""

    node: str


@frozen
class Connected:
    """The driver serves."""

    driver: str


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
    failures = _failures(notes.get(FAILS, ""))
    found: dict[str, DriverOptions] = {}
    for word in notes.get(DEVICES, "").replace(",", " ").split():
        name, equals, text = word.partition("=")
        count = parse_int64(text) if equals else None
        if name and count is not None and count >= 0:
            found[name] = DriverOptions(name, devices_of(count), failures)
    return found


def failures_of(tree: Tree) -> int:
    """Return how many calls of a node's drivers fail, as its annotation says."""
    return _failures(((tree.get("metadata") or {}).get("annotations") or {}).get(FAILS, ""))


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
    drivers: Mapping[str, DriverOptions], names: Sequence[str], failures: int
) -> dict[str, DriverOptions]:
    """Return the drivers of a node with those whose slices a user writes."""
    given: dict[str, Any] = {name: DriverOptions(name, failures=failures) for name in names}
    return {**given, **drivers}
