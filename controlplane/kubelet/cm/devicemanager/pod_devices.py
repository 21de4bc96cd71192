"""Devices that containers own, as a value, and the checkpoint file that outlives the kubelet.

Upstream: pkg/kubelet/cm/devicemanager/pod_devices.go and checkpoint. The checksum is that of the other managers' files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from controlplane.api.tree import Tree
from controlplane.kubelet.cm.checkpoint import checksum_of, corrupted
from controlplane.kubelet.cm.go_json import STRING, Map, Scalar, Slice, Struct, unmarshal

__all__ = ["FILE", "NO_NUMA", "ByNUMA", "DeviceState", "Entry", "devices_in", "restored"]

FILE: Final = "kubelet_internal_checkpoint"
NO_NUMA: Final = -1
"""The NUMA node of devices without topology."""
ByNUMA = Mapping[int, tuple[str, ...]]
"""Device ids by NUMA node; a device near to several stands at each."""

_STRINGS: Final = Slice("[]string", STRING)
_ENTRY: Final = Struct(
    "PodDevicesEntry",
    {
        "PodUID": STRING,
        "ContainerName": STRING,
        "ResourceName": STRING,
        "DeviceIDs": Map("checkpoint.DevicesPerNUMA", _STRINGS, integers=True),
        "AllocResp": STRING,
    },
)
_FILE: Final = Struct(
    "Data",
    {
        "Data": Struct(
            "checkpointData",
            {
                "PodDeviceEntries": Slice("[]checkpoint.PodDevicesEntry", _ENTRY),
                "RegisteredDevices": Map("map[string][]string", _STRINGS),
            },
        ),
        "Checksum": Scalar("checksum.Checksum", text=False, unsigned=True),
    },
)


class Entry(NamedTuple):
    """The owner of devices: a container, for one resource."""

    pod: str
    container: str
    resource: str


def devices_in(by_numa: ByNUMA) -> tuple[str, ...]:
    """Return all devices, each once."""
    return tuple(dict.fromkeys(each for devices in by_numa.values() for each in devices))


@attrs.frozen
class DeviceState:
    """The owners of devices, and the healthy devices of each registered resource."""

    owned: Mapping[Entry, ByNUMA] = attrs.field(factory=dict)
    registered: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    @property
    def text(self) -> str:
        """The checkpoint file."""
        entries: list[Tree] | None = [
            {
                "PodUID": entry.pod,
                "ContainerName": entry.container,
                "ResourceName": entry.resource,
                "DeviceIDs": {str(numa): list(ids) for numa, ids in sorted(by_numa.items())},
                "AllocResp": "",
            }
            for entry, by_numa in self.owned.items()
        ] or None
        registered = {name: list(ids) for name, ids in sorted(self.registered.items())}
        tree = {
            "Data": {"PodDeviceEntries": entries, "RegisteredDevices": registered},
            "Checksum": checksum_of(self._dump()),
        }
        return json.dumps(tree, separators=(",", ":"))

    def _dump(self) -> str:
        """The Go object as the checksum sees it."""
        entries = " ".join(_dumped(entry, by_numa) for entry, by_numa in self.owned.items())
        listed = f"{{{entries}}}" if self.owned else "<nil>"
        registered = " ".join(
            f"(string){name}:{_texts(ids)}" for name, ids in sorted(self.registered.items())
        )
        return (
            f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){listed} "
            f"RegisteredDevices:(map[string][]string)map[{registered}]}}"
        )


def _texts(ids: Sequence[str]) -> str:
    return f"([]string){{{' '.join(f'(string){each}' for each in ids)}}}"


def _dumped(entry: Entry, by_numa: ByNUMA) -> str:
    devices = " ".join(f"(int64){numa}:{_texts(ids)}" for numa, ids in sorted(by_numa.items()))
    return (
        f"(checkpoint.PodDevicesEntry){{PodUID:(string){entry.pod} "
        f"ContainerName:(string){entry.container} ResourceName:(string){entry.resource} "
        f"DeviceIDs:(checkpoint.DevicesPerNUMA)map[{devices}] AllocResp:([]uint8){{}}}}"
    )


def restored(text: str) -> DeviceState:
    """Return the state of a file. Raises CheckpointError or GoJSONError."""
    found = unmarshal(text, _FILE)
    data = found.get("Data") or {}
    owned = {
        Entry(
            each.get("PodUID") or "",
            each.get("ContainerName") or "",
            each.get("ResourceName") or "",
        ): {int(numa): tuple(ids or ()) for numa, ids in (each.get("DeviceIDs") or {}).items()}
        for each in data.get("PodDeviceEntries") or ()
    }
    names = data.get("RegisteredDevices") or {}
    state = DeviceState(owned, {name: tuple(ids or ()) for name, ids in names.items()})
    if found.get("Checksum") != json.loads(state.text)["Checksum"]:
        raise corrupted()
    return state
