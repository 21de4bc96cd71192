"""Environment variables by which containers find Services.

Upstream: pkg/kubelet/envvars and getServiceEnvVarMap of pkg/kubelet/kubelet_pods.go. Of two Services whose variables
have one name upstream takes any; here the last by name counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from controlplane.api.tree import Tree

__all__ = ["variables_of"]

DEFAULT: Final = "default"
MASTER_SERVICES: Final = ("kubernetes",)
"""Services of the default namespace whose variables every container has."""


def variables_of(services: Iterable[Tree], namespace: str, *, links: bool) -> dict[str, str]:
    """Return the variables of Services for the containers of a pod; `links`: its enableServiceLinks."""
    chosen: dict[str, Tree] = {}
    for service in services:
        meta = service["metadata"]
        name, place = meta["name"], meta.get("namespace", "")
        if not _has_address(service):
            continue
        if place == DEFAULT and name in MASTER_SERVICES:
            chosen.setdefault(name, service)
        elif place == namespace and links:
            chosen[name] = service
    return {key: value for name in sorted(chosen) for key, value in _of_service(chosen[name])}


def _has_address(service: Tree) -> bool:
    return (service["spec"].get("clusterIP") or "None") != "None"


def _of_service(service: Tree) -> Iterator[tuple[str, str]]:
    """Yield the variables of one Service: those of its address and ports, and those that Docker's links had."""
    prefix, address = _variable(service["metadata"]["name"]), service["spec"]["clusterIP"]
    ports = service["spec"].get("ports") or ()
    yield f"{prefix}_SERVICE_HOST", address
    if ports:
        yield f"{prefix}_SERVICE_PORT", str(ports[0]["port"])
    for port in ports:
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{_variable(port['name'])}", str(port["port"])
    host = f"[{address}]" if ":" in address else address
    for number, port in enumerate(ports):
        protocol = port.get("protocol") or "TCP"
        place = f"{protocol.lower()}://{host}:{port['port']}"
        if number == 0:
            yield f"{prefix}_PORT", place
        one = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        yield one, place
        yield f"{one}_PROTO", protocol.lower()
        yield f"{one}_PORT", str(port["port"])
        yield f"{one}_ADDR", address


def _variable(name: str) -> str:
    text = name.replace("-", "_").replace(".", "_").upper()
    return f"_{text}" if text[:1].isdigit() else text
