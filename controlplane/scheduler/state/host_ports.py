"""Host ports in use on a node.

Upstream: kube-scheduler `framework/types.go` (HostPortInfo), `pkg/scheduler/util/utils.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

ANY_IP = "0.0.0.0"  # noqa: S104

Port = tuple[str, str, int]
"""ip, protocol, port."""


def pod_host_ports(pod: Pod) -> Iterator[Port]:
    """Host ports the pod takes: of sidecars, then of containers."""
    spec = pod.spec
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            for port in container.ports:
                if port.host_port > 0:
                    yield port.host_ip, port.protocol, port.host_port
    for container in spec.containers:
        for port in container.ports:
            if port.host_port > 0:
                yield port.host_ip, port.protocol, port.host_port


class HostPorts:
    """A set of ports, not a count: two pods with one port lose it when the first one goes."""

    __slots__ = ("_by_ip",)

    def __init__(self) -> None:
        self._by_ip: dict[str, dict[tuple[str, int], None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_ip.values()))

    def __iter__(self) -> Iterator[Port]:
        for ip, ports in self._by_ip.items():
            for protocol, port in ports:
                yield ip, protocol, port

    def add(self, ip: str, protocol: str, port: int) -> None:
        """Mark a port as used; port 0 and below is none."""
        if port > 0:
            self._by_ip.setdefault(ip or ANY_IP, {})[protocol or "TCP", port] = None

    def remove(self, ip: str, protocol: str, port: int) -> None:
        """Mark a port as free."""
        ip = ip or ANY_IP
        ports = self._by_ip.get(ip)
        if ports is None:
            return
        ports.pop((protocol or "TCP", port), None)
        if not ports:
            del self._by_ip[ip]

    def conflicts(self, ip: str, protocol: str, port: int) -> bool:
        """Return whether the port is taken; 0.0.0.0 collides with every address."""
        if port <= 0 or not self._by_ip:
            return False
        ip = ip or ANY_IP
        key = (protocol or "TCP", port)
        if ip == ANY_IP:
            return any(key in ports for ports in self._by_ip.values())
        return any(key in self._by_ip.get(each, ()) for each in (ANY_IP, ip))

    def clone(self) -> HostPorts:
        """An independent copy."""
        copy = HostPorts()
        copy._by_ip = {ip: dict(ports) for ip, ports in self._by_ip.items()}
        return copy
