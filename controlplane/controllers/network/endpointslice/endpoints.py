"""One endpoint of a slice: from a pod, its node and the service. Upstream: k8s.io/endpointslice/utils.go."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from controlplane.api.fnv import fnv1a_128
from controlplane.controllers.common.pods import is_ready
from controlplane.controllers.network.service_members import hostname_for
from controlplane.sharing.memory import by_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.node import Node
    from controlplane.api.pod import Pod, PodSpec
    from controlplane.api.service import Service, ServicePort
    from controlplane.api.tree import Tree

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"
NO_CLUSTER_IP: Final = "None"
ZONE: Final = "topology.kubernetes.io/zone"

Identity = tuple[tuple[str, ...], str, str, str]


def address_types(service: Service) -> tuple[str, ...]:
    """The kinds of addresses a service has slices of."""
    spec = service.spec
    asked = tuple(each for each in (IPV4, IPV6) if each in spec.ip_families)
    if asked:
        return asked
    if spec.cluster_ip and spec.cluster_ip != NO_CLUSTER_IP:
        return (IPV6,) if is_v6(spec.cluster_ip) else (IPV4,)
    return IPV4, IPV6


def is_v6(text: str) -> bool:
    """Return whether an address is one of IPv6."""
    return normal_address(text)[1]


def normal_address(text: str) -> tuple[str, bool]:
    """Return an address as Go prints it, and whether it is one of IPv6; leading zeros are let through.

    Raises ValueError for a text with a colon that is no address.
    """
    if ":" not in text:
        return ".".join(part.lstrip("0") or "0" for part in text.split(".")), False
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (str(mapped), False) if mapped is not None else (str(address), True)


def addresses(pod: Pod, address_type: str) -> list[str]:
    """A pod's addresses of one kind."""
    found = [normal_address(each.ip) for each in pod.status.pod_ips]
    return [text for text, v6 in found if v6 == (address_type == IPV6)]


def find_port(pod: Pod, port: ServicePort) -> int | None:
    """The number of the port of a pod that a service's port leads to; None if it names none."""
    target = port.target_port
    if not isinstance(target, str):
        return target or 0
    return _named_ports(pod.spec).get((target, port.protocol))


@by_identity
def _named_ports(spec: PodSpec) -> dict[tuple[str, str], int]:
    """The numbers of a pod's ports by name and protocol; the first container that names one counts."""
    sidecars = [each for each in spec.init_containers if each.restart_policy == "Always"]
    found: dict[tuple[str, str], int] = {}
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            found.setdefault((port.name, port.protocol), port.container_port)
    return found


def endpoint_ports(service: Service, pod: Pod) -> list[Tree]:
    """The ports of a slice that this pod can be in."""
    found: list[Tree] = []
    trees = (service.tree.get("spec") or {}).get("ports") or ()
    for port, tree in zip(service.spec.ports, trees, strict=True):
        number = find_port(pod, port)
        if number is None:
            continue
        entry: Tree = {"name": port.name, "port": number, "protocol": port.protocol}
        if tree.get("appProtocol") is not None:
            entry["appProtocol"] = tree["appProtocol"]
        found.append(entry)
    return found


def sorted_ports(ports: Sequence[Tree] | None) -> list[Tree]:
    """In the order of the ports' hashes, in which upstream keeps them."""
    return sorted(ports or (), key=_port_hash)


def _port_hash(port: Tree) -> str:
    return _hash_of(*(port.get(name) for _, _, name in _PORT_FIELDS))


_PORT_FIELDS: Final = (
    ("Name", "*string", "name"),
    ("Protocol", "*v1.Protocol", "protocol"),
    ("Port", "*int32", "port"),
    ("AppProtocol", "*string", "appProtocol"),
)


_FIRST: Final = "Name:(*string)"
_BEGUN: Final = fnv1a_128(f"(v1.EndpointPort){{{_FIRST}".encode())
"""The hash of the text with which every port begins."""


@lru_cache(maxsize=1 << 15)
def _hash_of(*values: object) -> str:
    """The hash of a port; each port of a slice is asked for it several times in one reconcile."""
    shown = [
        f"{name}:({kind}){'<nil>' if value is None else value}"
        for (name, kind, _), value in zip(_PORT_FIELDS, values, strict=True)
    ]
    return f"{fnv1a_128((' '.join(shown)[len(_FIRST) :] + '}').encode(), _BEGUN):032x}"


def port_key(ports: Sequence[Tree]) -> tuple[tuple[object, ...], ...]:
    """Return the key by which slices are grouped; `ports` in their order of hashes."""
    names = ("name", "protocol", "port", "appProtocol")
    return tuple(tuple(port.get(name) for name in names) for port in ports)


def pod_endpoint(pod: Pod, node: Node | None, service: Service, address_type: str) -> Tree:
    """The endpoint that a pod is. Ready means, of one that is ending, only that the service publishes all."""
    serving = is_ready(pod)
    terminating = pod.metadata.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    found: Tree = {
        "addresses": addresses(pod, address_type),
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
    }
    if pod.spec.node_name:
        found["nodeName"] = pod.spec.node_name
    if node is not None and node.labels.get(ZONE):
        found["zone"] = node.labels[ZONE]
    hostname = hostname_for(pod, service)
    if hostname:
        found["hostname"] = hostname
    return found


def identity(endpoint: Tree) -> Identity:
    """Return the identity of an endpoint: addresses, hostname and pod."""
    target = endpoint.get("targetRef") or {}
    return (
        tuple(sorted(endpoint.get("addresses") or ())),
        endpoint.get("hostname") or "",
        target.get("namespace", ""),
        target.get("name", ""),
    )


def equal_beyond_identity(one: Tree, other: Tree) -> bool:
    """Return whether two endpoints of one identity agree in all that is not a hint."""
    return _rest(one) == _rest(other)


def _rest(endpoint: Tree) -> tuple[object, ...]:
    conditions = endpoint.get("conditions") or {}
    target = endpoint.get("targetRef")
    return (
        endpoint.get("nodeName"),
        endpoint.get("zone"),
        *(conditions.get(name) for name in ("ready", "serving", "terminating")),
        None if target is None else {**target, "resourceVersion": ""},
    )
