"""Decisions of an emulated device plugin: what a Node's annotations ask for, and the calls that it serves.

Upstream: staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.effects import PluginCall

__all__ = [
    "ALLOCATE",
    "PREFERRED",
    "Listed",
    "PluginDevice",
    "PluginFailed",
    "PluginOptions",
    "Watch",
    "devices_of",
    "plugin_actor",
    "plugins_of_node",
    "preferred",
]

PREFIX: Final = "emulate.controlplane/"
PLUGINS: Final = f"{PREFIX}device-plugins"
UNHEALTHY: Final = f"{PREFIX}unhealthy-devices"
FAILS: Final = f"{PREFIX}device-plugin-fails"
PREFERS: Final = f"{PREFIX}device-plugin-prefers"
ALLOCATE: Final = "Allocate"
PREFERRED: Final = "GetPreferredAllocation"


class PluginFailed(ManagerError):
    """A call of a device plugin failed. The text is the gRPC error's."""


@frozen
class PluginDevice:
    """A device: its id, the NUMA nodes that it is near to, and whether it is healthy."""

    id: str
    numa: tuple[int, ...] = ()
    healthy: bool = True


@frozen
class PluginOptions:
    """A device plugin on a node.

    Args:
        resource: the extended resource that it serves.
        devices: its devices, as they are while no annotation says otherwise.
        failures: how many calls of Allocate fail.
        prefers: whether it answers GetPreferredAllocation: the last devices first.
    """

    resource: str
    devices: tuple[PluginDevice, ...]
    failures: int = 0
    prefers: bool = False


@frozen
class Watch:
    """A kubelet's call of ListAndWatch: the stream stays as long as both live."""


@frozen
class Listed:
    """The devices now, with the plugin's option GetPreferredAllocationAvailable."""

    devices: tuple[PluginDevice, ...]
    prefers: bool


def plugin_actor(resource: str, node: str) -> str:
    """Return the name of the actor that is a device plugin on a node."""
    return f"{resource}@{node}"


def plugins_of_node(node: Tree) -> Mapping[str, PluginOptions]:
    """Return the plugins that a Node's annotations ask for, by resource; what cannot be read is ignored.

    `device-plugins: "example.com/gpu=4@0,1 example.com/nic=1"`: four devices, the first half near NUMA node 0, the
    second near 1; a device without topology.
    """
    notes = (node.get("metadata") or {}).get("annotations") or {}
    fails = parse_int64(notes.get(FAILS, "")) or 0
    prefers = str(notes.get(PREFERS, "")).lower() == "true"
    found: dict[str, PluginOptions] = {}
    for word in notes.get(PLUGINS, "").split():
        resource, equals, rest = word.partition("=")
        number, _, numa_text = rest.partition("@")
        count = parse_int64(number) if equals else None
        numa = [parse_int64(each) for each in numa_text.split(",")] if numa_text else []
        nodes = [each for each in numa if each is not None and each >= 0]
        if "/" in resource and count is not None and count >= 0 and len(nodes) == len(numa):
            devices = _spread(count, nodes)
            found[resource] = PluginOptions(resource, devices, max(fails, 0), prefers)
    return found


def _spread(count: int, nodes: Sequence[int]) -> tuple[PluginDevice, ...]:
    return tuple(
        PluginDevice(f"device-{i}", (nodes[i * len(nodes) // count],) if nodes else ())
        for i in range(count)
    )


def devices_of(options: PluginOptions, node: Tree) -> tuple[PluginDevice, ...]:
    """Return a plugin's devices with their health, as the Node's annotation has it.

    `unhealthy-devices: "example.com/gpu=device-0,device-2"`.
    """
    notes = (node.get("metadata") or {}).get("annotations") or {}
    ill: dict[str, None] = {}
    for word in notes.get(UNHEALTHY, "").split():
        resource, _, names = word.partition("=")
        if resource == options.resource:
            ill.update(dict.fromkeys(names.split(",")))
    return tuple(PluginDevice(each.id, each.numa, each.id not in ill) for each in options.devices)


def preferred(call: PluginCall) -> tuple[str, ...]:
    """Return the devices that an emulated plugin prefers: those that it must include, then the last ones."""
    rest = [each for each in reversed(call.devices) if each not in call.must]
    return (*call.must, *rest)[: call.size]
