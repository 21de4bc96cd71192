"""The claims that are prepared on a node, and the checkpoint file that outlives the kubelet.

Upstream: pkg/kubelet/cm/dra/claiminfo.go, pkg/kubelet/cm/dra/state. The checksum is CRC-32 of the text in `Data`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from zlib import crc32

import attrs

from controlplane.api.go_values import HTML_ESCAPES
from controlplane.api.resource_claims import allocated_devices
from controlplane.api.tree import Tree
from controlplane.kubelet.cm.checkpoint import CheckpointError, corrupted
from controlplane.kubelet.cm.dra.messages import ClaimRef, Device
from controlplane.kubelet.cm.go_json import (
    STRING,
    GoJSONError,
    Map,
    Scalar,
    Slice,
    Struct,
    unmarshal,
)

__all__ = ["FILE", "ClaimCache", "ClaimInfo", "StateFile", "new_claim"]

FILE: Final = "dra_manager_state"
_KIND: Final = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}
_FILE: Final = Struct(
    "Checkpoint", {"Data": STRING, "Checksum": Scalar("uint32", text=False, unsigned=True)}
)
_STRINGS: Final = Slice("[]string", STRING)
_DEVICE: Final = Struct(
    "Device",
    {
        "PoolName": STRING,
        "DeviceName": STRING,
        "ShareID": STRING,
        "RequestNames": _STRINGS,
        "CDIDeviceIDs": _STRINGS,
    },
)
_CLAIM: Final = Struct(
    "ClaimInfoState",
    {
        "ClaimUID": STRING,
        "ClaimName": STRING,
        "Namespace": STRING,
        "PodUIDs": Map("sets.Set[string]", Struct("Empty", {})),
        "DriverState": Map(
            "map[string]state.DriverState",
            Struct("DriverState", {"Devices": Slice("[]state.Device", _DEVICE)}),
        ),
    },
)
_DATA: Final = Struct(
    "CheckpointData",
    {"ClaimInfoStateList": Slice("state.ClaimInfoStateList", _CLAIM)},
)


@attrs.frozen
class ClaimInfo:
    """A claim on the node: the pods that use it, and the devices that each driver has prepared.

    `prepared` is not in the file: after a restart every claim is prepared again. A driver whose value is None has
    prepared nothing yet.
    """

    ref: ClaimRef
    pods: tuple[str, ...] = ()
    drivers: Mapping[str, tuple[Device, ...] | None] = attrs.field(factory=dict)
    prepared: bool = False

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.ref.namespace}/{self.ref.name}"

    def with_pod(self, uid: str) -> ClaimInfo:
        """One more pod uses it."""
        return self if uid in self.pods else attrs.evolve(self, pods=(*self.pods, uid))

    def without_pod(self, uid: str) -> ClaimInfo:
        """A pod uses it no more."""
        return attrs.evolve(self, pods=tuple(each for each in self.pods if each != uid))

    def with_devices(self, driver: str, devices: Iterable[Device]) -> ClaimInfo:
        """Add devices of a driver; those of an earlier try that failed elsewhere stay, too, as upstream."""
        found = tuple(devices)
        if not found:
            return self
        known = self.drivers.get(driver) or ()
        return attrs.evolve(self, drivers={**self.drivers, driver: (*known, *found)})

    def cdi_devices(self, request: str) -> list[str]:
        """Return the CDI ids of the devices for a request; "" means all."""
        return [
            cdi
            for devices in self.drivers.values()
            for device in devices or ()
            if not request or not device.requests or request in device.requests
            for cdi in device.cdi_ids
        ]

    def tree(self) -> Tree:
        """As in the file: fields in Go's order, maps by key."""
        return {
            "ClaimUID": self.ref.uid,
            "ClaimName": self.ref.name,
            "Namespace": self.ref.namespace,
            "PodUIDs": {uid: {} for uid in sorted(self.pods)},
            "DriverState": {
                name: {"Devices": None if devices is None else [_tree(each) for each in devices]}
                for name, devices in sorted(self.drivers.items())
            },
        }


def new_claim(claim: Tree) -> ClaimInfo | None:
    """Return the entry for a claim that nothing is prepared for yet; None if it is not allocated."""
    if (claim.get("status") or {}).get("allocation") is None:
        return None
    meta = claim["metadata"]
    drivers = dict.fromkeys(result.get("driver", "") for result in allocated_devices(claim))
    ref = ClaimRef(meta.get("namespace", ""), meta["name"], meta.get("uid", ""))
    return ClaimInfo(ref, drivers=drivers)


def _tree(device: Device) -> Tree:
    return {
        "PoolName": device.pool,
        "DeviceName": device.name,
        "ShareID": device.share_id,
        "RequestNames": list(device.requests) or None,
        "CDIDeviceIDs": list(device.cdi_ids) or None,
    }


def _go_json(value: Any) -> str:
    """As encoding/json writes: compact, with the characters escaped that HTML gives a meaning."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(HTML_ESCAPES)


@attrs.frozen
class StateFile:
    """The content of the checkpoint file. `claims` None is the file of a node that never had a claim."""

    claims: tuple[ClaimInfo, ...] | None

    @property
    def data(self) -> str:
        """The text that the checksum is of."""
        listed = None if self.claims is None else [each.tree() for each in self.claims]
        return _go_json({**_KIND, "ClaimInfoStateList": listed})

    @property
    def text(self) -> str:
        """The file, to the byte."""
        data = self.data
        return _go_json({"Data": data, "Checksum": crc32(data.encode())})


def _read(text: str) -> tuple[ClaimInfo, ...]:
    """The claims of a file. Raises CheckpointError or GoJSONError.

    Upstream reads it into the content of a new file: a field that is absent has the value of that.
    """
    found = {key: value for key, value in unmarshal(text, _FILE).items() if value is not None}
    empty = StateFile(None).data
    data: str = found.get("Data", empty)
    if crc32(data.encode()) != found.get("Checksum", crc32(empty.encode())):
        raise corrupted()
    entries = unmarshal(data, _DATA).get("ClaimInfoStateList") or ()
    return tuple(_entry(each or {}) for each in entries)


def _entry(tree: Tree) -> ClaimInfo:
    ref = ClaimRef(
        tree.get("Namespace") or "", tree.get("ClaimName") or "", tree.get("ClaimUID") or ""
    )
    drivers: dict[str, tuple[Device, ...] | None] = {}
    for name, state in (tree.get("DriverState") or {}).items():
        devices = (state or {}).get("Devices")
        drivers[name] = None if devices is None else tuple(_device(each or {}) for each in devices)
    return ClaimInfo(ref, tuple(tree.get("PodUIDs") or ()), drivers)


def _device(tree: Tree) -> Device:
    return Device(
        tree.get("PoolName") or "",
        tree.get("DeviceName") or "",
        tuple(tree.get("RequestNames") or ()),
        tuple(tree.get("CDIDeviceIDs") or ()),
        tree.get("ShareID"),
    )


class ClaimCache:
    """The claims of a node by namespace and name."""

    def __init__(self, claims: Iterable[ClaimInfo] = ()) -> None:
        self.claims: dict[str, ClaimInfo] = {each.key: each for each in claims}

    @classmethod
    def restore(cls, text: str | None) -> ClaimCache:
        """The cache after a start of the kubelet, from the file (None: there is none). Raises CheckpointError."""
        try:
            return cls(() if text is None else _read(text))
        except (CheckpointError, GoJSONError) as error:
            message = f"GetOrCreate() on checkpoint state: failed to get checkpoint {FILE}: {error}"
            raise CheckpointError(f"create ResourceClaim cache: {message}") from None

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        """Return an entry."""
        return self.claims.get(f"{namespace}/{name}")

    def put(self, info: ClaimInfo) -> None:
        """Add an entry, or replace it."""
        self.claims[info.key] = info

    def remove(self, namespace: str, name: str) -> None:
        """Remove an entry."""
        self.claims.pop(f"{namespace}/{name}", None)

    def has_pod(self, uid: str) -> bool:
        """Return whether a pod uses any claim."""
        return any(uid in each.pods for each in self.claims.values())

    def file(self) -> StateFile:
        """Return what the file has to hold."""
        return StateFile(tuple(self.claims.values()))
