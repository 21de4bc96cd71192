"""Endpoints as slices: one for each set of ports and kind of address. Upstream: endpointslicemirroring/reconciler.go.

Upstream takes groups of ports and endpoints in the order of its maps; here they have the order of the Endpoints.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from controlplane.controllers.common.ownership import controller_reference
from controlplane.controllers.network.endpoints.subsets import Entry
from controlplane.controllers.network.endpoints.subsets import pack as repacked
from controlplane.controllers.network.endpointslice.endpoints import (
    IPV4,
    IPV6,
    equal_beyond_identity,
    identity,
    normal_address,
    port_key,
    sorted_ports,
)
from controlplane.controllers.network.endpointslice.packing import (
    MANAGED_BY,
    SERVICE_NAME,
    Plan,
    labels_of,
)
from controlplane.controllers.network.trigger_times import ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controlplane.api.tree import Tree
    from controlplane.api.view import View
    from controlplane.controllers.network.endpointslice.endpoints import Identity

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
NAME_LIMIT: Final = 253

Group = tuple[str, tuple[tuple[object, ...], ...]]
"""A kind of address and a set of ports."""


@define
class Desired:
    """The endpoints that slices are to hold, by group, and the numbers of addresses that are left out."""

    ports: dict[Group, list[Tree]] = field(factory=dict)
    endpoints: dict[Group, dict[Identity, Tree]] = field(factory=dict)
    invalid: int = 0
    skipped: int = 0
    """Those that are not valid, too."""


def mirrored(tree: Tree) -> bool:
    """Return whether Endpoints are mirrored: not where a label forbids it, nor where they elect a leader."""
    meta = tree["metadata"]
    if (meta.get("labels") or {}).get(SKIP) == "true":
        return False
    return LEADER not in (meta.get("annotations") or {})


def desired_of(tree: Tree, limit: int) -> Desired:
    """Return what Endpoints ask for; of each subset at most `limit` addresses, ready ones first."""
    found = Desired()
    for subset in repacked(_entries(tree.get("subsets") or ())):
        ports = [_port(each) for each in subset.get("ports") or ()]
        key = port_key(sorted_ports(ports))
        for kind in (IPV4, IPV6):
            found.ports[kind, key] = ports
            found.endpoints.setdefault((kind, key), {})
        added = total = 0
        for part, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(part) or ():
                total += 1
                if added >= limit:
                    continue
                kind, text = _address(address.get("ip", ""))
                if not kind:
                    found.invalid += 1
                    continue
                endpoint = _endpoint(address, text, ready=ready)
                found.endpoints[kind, key][identity(endpoint)] = endpoint
                added += 1
        found.skipped += total - added
    return found


def _entries(subsets: Sequence[Tree]) -> Iterator[Entry]:
    for subset in subsets:
        for part, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(part) or ():
                for port in subset.get("ports") or (None,):
                    yield Entry(address, port, ready)


def _port(port: Tree) -> Tree:
    found: Tree = {
        "name": port.get("name") or "",
        "port": port["port"],
        "protocol": port.get("protocol") or "TCP",
    }
    if port.get("appProtocol") is not None:
        found["appProtocol"] = port["appProtocol"]
    return found


def _address(text: str) -> tuple[str, str]:
    """Return the address type and the canonical form of an IP address, "" for any other text."""
    try:
        shown, v6 = normal_address(text)
        ip_address(shown)
    except ValueError:
        return "", ""
    return IPV6 if v6 else IPV4, shown


def _endpoint(address: Tree, text: str, *, ready: bool) -> Tree:
    found: Tree = {"addresses": [text], "conditions": {"ready": ready}}
    if address.get("targetRef") is not None:
        found["targetRef"] = address["targetRef"]
    if address.get("nodeName") is not None:
        found["nodeName"] = address["nodeName"]
    if address.get("hostname"):
        found["hostname"] = address["hostname"]
    return found


def plan_of(owner: View, desired: Desired, existing: Sequence[Tree], limit: int) -> Plan:
    """Return the changes after which slices mirror Endpoints (`owner`)."""
    groups: dict[Group, list[Tree]] = {}
    for each in existing:
        key = port_key(sorted_ports(each.get("ports")))
        groups.setdefault((each.get("addressType", ""), key), []).append(each)
    plan = Plan()
    for group, members in desired.endpoints.items():
        plan.add(
            _of_group(owner, group, desired.ports[group], members, groups.get(group, ()), limit)
        )
    for group, there in groups.items():
        if group not in desired.endpoints:
            plan.delete += there
    _recycle(plan)
    return plan


def _of_group(
    owner: View,
    group: Group,
    ports: Sequence[Tree],
    members: dict[Identity, Tree],
    existing: Sequence[Tree],
    limit: int,
) -> Plan:
    """Return the changes to the slices of one group: the first one stays, if any endpoint does."""
    if not members:
        return Plan(delete=[*existing])
    plan = Plan(delete=[*existing[1:]])
    if existing and _is_right(owner, existing[0], members):
        return plan
    made = _new_slice(owner, group[0], ports)
    made["endpoints"] = [*members.values()][:limit]
    if existing:
        made["metadata"]["name"] = existing[0]["metadata"]["name"]
        plan.update.append(made)
    else:
        plan.create.append(made)
    return plan


def _is_right(owner: View, found: Tree, members: dict[Identity, Tree]) -> bool:
    there = found.get("endpoints") or ()
    wanted = [members.get(identity(each)) for each in there]
    own = {key: v for key, v in labels_of(found).items() if key not in (MANAGED_BY, SERVICE_NAME)}
    return (
        len(there) == len(members)
        and all(
            one is not None and equal_beyond_identity(one, other)
            for one, other in zip(wanted, there, strict=True)
        )
        and own == dict(owner.labels)
        and (found["metadata"].get("annotations") or {}) == _annotations(owner)
    )


def _annotations(owner: View) -> dict[str, Any]:
    given = owner.metadata.annotations
    return {key: v for key, v in given.items() if key not in (ANNOTATION, LAST_APPLIED)}


def _new_slice(owner: View, kind: str, ports: Sequence[Tree]) -> Tree:
    prefix = f"{owner.name}-"
    reference = {**controller_reference(owner), "apiVersion": "v1", "kind": "Endpoints"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": prefix if len(prefix) <= NAME_LIMIT else owner.name,
            "namespace": owner.namespace,
            "labels": {**owner.labels, SERVICE_NAME: owner.name, MANAGED_BY: MANAGER},
            "annotations": _annotations(owner),
            "ownerReferences": [reference],
        },
        "addressType": kind,
        "endpoints": [],
        "ports": list(ports),
    }


def _recycle(plan: Plan) -> None:
    """Let slices that would go take the place of those of their kind of address that would come."""
    going, coming = list(plan.delete), []
    for made in plan.create:
        place = next((each for each in going if each["addressType"] == made["addressType"]), None)
        if place is None:
            coming.append(made)
            continue
        going.remove(place)
        made["metadata"]["name"] = place["metadata"]["name"]
        plan.update.append(made)
    plan.create, plan.delete = coming, going
