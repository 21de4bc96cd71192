"""Cluster addresses, node ports and IP families of services. Upstream: pkg/registry/core/service/storage.

The cluster is single-stack IPv4. Addresses and ports that upstream draws at random are the lowest
free ones here.
"""

from __future__ import annotations

import ipaddress

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import optional_one_of, problems, when
from controlplane.apiserver.kinds.strategy import Context, without
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import FieldError, duplicate, invalid, not_supported

__all__ = [
    "is_external",
    "normal_ips",
    "with_address",
    "with_families",
    "with_kept",
    "with_policy",
    "with_ports",
    "without_dropped",
]

SERVICE_RANGE = ipaddress.IPv4Network("10.0.0.0/24")
NODE_PORTS = range(30000, 32768)
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FAMILIES = ("IPv4", "IPv6")


def is_external(spec: Tree) -> bool:
    """Return whether a service is a name outside of the cluster."""
    return bool(spec.get("type") == "ExternalName")


def _headless(spec: Tree) -> bool:
    return "None" in (spec.get("clusterIPs") or [spec.get("clusterIP", "")])


def normal_ips(spec: Tree, was: Tree | None) -> Tree:
    """ClusterIP and clusterIPs follow each other."""
    single, many = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if was is None:
        if single and not many:
            return {**spec, "clusterIPs": [single]}
        return spec
    old_single, old_many = was.get("clusterIP", ""), was.get("clusterIPs", [])
    if single == old_single and many == old_many:
        return spec
    if single != old_single and many == old_many:
        if not single:
            return without(without(spec, "clusterIPs"), "clusterIP")
        return {**spec, "clusterIPs": [single, *many[1:]]}
    if many != old_many and not many and single == old_single:
        return without(spec, "clusterIP")
    return spec


def with_kept(spec: Tree, was: Tree) -> Tree:
    """A replacement that leaves allocated fields out keeps them."""
    if is_external(spec) or is_external(was):
        return spec
    out = dict(spec)
    if not spec.get("clusterIP") and spec.get("clusterIPs", []) in ([], was.get("clusterIPs")):
        for key in ("clusterIP", "clusterIPs"):
            if key in was:
                out[key] = was[key]
    elif not spec.get("clusterIPs") and spec.get("clusterIP") == was.get("clusterIP"):
        out["clusterIPs"] = was.get("clusterIPs", [])
    if "ipFamilyPolicy" not in spec and "ipFamilyPolicy" in was:
        out["ipFamilyPolicy"] = was["ipFamilyPolicy"]
    if not spec.get("ipFamilies") and "ipFamilies" in was:
        out["ipFamilies"] = was["ipFamilies"]
    if _wants_node_ports(spec) and _wants_node_ports(was):
        out["ports"] = _kept_ports(spec.get("ports", []), was.get("ports", []))
    if _wants_health_port(spec) and _wants_health_port(was) and not spec.get("healthCheckNodePort"):
        out["healthCheckNodePort"] = was.get("healthCheckNodePort", 0)
    return out


def _kept_ports(ports: list[Tree], was: list[Tree]) -> list[Tree]:
    known = {(p.get("protocol"), p.get("port")): p.get("nodePort", 0) for p in was}
    taken = {p.get("nodePort") for p in ports}
    out = []
    for port in ports:
        earlier = known.get((port.get("protocol"), port.get("port")), 0)
        if not port.get("nodePort") and earlier and earlier not in taken:
            port = {**port, "nodePort": earlier}
        out.append(port)
    return out


def _wants_node_ports(spec: Tree) -> bool:
    if spec.get("type") == "NodePort":
        return True
    return spec.get("type") == "LoadBalancer" and bool(
        spec.get("allocateLoadBalancerNodePorts", True)
    )


def _wants_health_port(spec: Tree) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def without_dropped(spec: Tree, was: Tree | None) -> Tree:
    """Fields that lose their meaning when the type changes are dropped."""
    if was is None:
        return spec
    kind, old_kind = spec.get("type"), was.get("type")
    if kind == "ExternalName" and old_kind != "ExternalName":
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(key) == was.get(key):
                spec = without(spec, key)
    if _wants_node_ports(was) and not _wants_node_ports(spec):
        if _same_ports(spec, was):
            ports = [without(port, "nodePort") for port in spec.get("ports", [])]
            spec = {**spec, "ports": ports}
    if _wants_health_port(was) and not _wants_health_port(spec):
        if spec.get("healthCheckNodePort") == was.get("healthCheckNodePort"):
            spec = without(spec, "healthCheckNodePort")
    if old_kind == "LoadBalancer" and kind != "LoadBalancer":
        for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(key) == was.get(key):
                spec = without(spec, key)
    if _external_traffic(was) and not _external_traffic(spec):
        if spec.get("externalTrafficPolicy") == was.get("externalTrafficPolicy"):
            spec = without(spec, "externalTrafficPolicy")
    if old_kind != "ExternalName" and kind == "ExternalName":
        if spec.get("internalTrafficPolicy") == was.get("internalTrafficPolicy"):
            spec = without(spec, "internalTrafficPolicy")
    return spec


def _external_traffic(spec: Tree) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer") or bool(
        spec.get("type") == "ClusterIP" and spec.get("externalIPs")
    )


def _same_ports(spec: Tree, was: Tree) -> bool:
    new = sorted(p.get("nodePort", 0) for p in spec.get("ports", []))
    old = sorted(p.get("nodePort", 0) for p in was.get("ports", []))
    return new == old


def with_policy(spec: Tree) -> Tree:
    """The spec with a policy of IP families."""
    if spec.get("type") == "ClusterIP" and spec.get("externalIPs"):
        if "externalTrafficPolicy" not in spec:
            spec = {**spec, "externalTrafficPolicy": "Cluster"}
    return spec


def with_families(ctx: Context, tree: Tree, spec: Tree) -> Tree:
    """Default the IP families of a single-stack cluster; refuse what it cannot give."""
    if is_external(spec):
        return spec
    errors = _family_errors(spec)
    if errors:
        raise status.invalid(ctx.info, tree["metadata"].get("name", ""), errors)
    anywhere = _headless(spec) and not spec.get("selector")
    if "ipFamilyPolicy" not in spec:
        policy = "SingleStack"
        if anywhere and len(spec.get("ipFamilies") or ("", "")) > 1:
            policy = "RequireDualStack"
        spec = {**spec, "ipFamilyPolicy": policy}
    if anywhere and spec["ipFamilyPolicy"] != "SingleStack":
        families = spec.get("ipFamilies") or ["IPv4"]
        if len(families) == 1:
            families = [*families, "IPv6" if families[0] == "IPv4" else "IPv4"]
        return {**spec, "ipFamilies": families}
    if not spec.get("ipFamilies"):
        ips = [ip for ip in spec.get("clusterIPs", []) if ip != "None"]
        family = "IPv6" if ips and ":" in ips[0] else "IPv4"
        spec = {**spec, "ipFamilies": [family]}
    return spec


def _family_errors(spec: Tree) -> list[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    families = spec.get("ipFamilies", [])
    selectorless_headless = _headless(spec) and not spec.get("selector")
    errors = optional_one_of(policy, "spec.ipFamilyPolicy", _POLICIES)
    seen: list[str] = []
    for index, family in enumerate(families):
        path = f"spec.ipFamilies[{index}]"
        if family not in _FAMILIES:
            errors.append(not_supported(path, family, _FAMILIES))
        elif family in seen:
            errors.append(duplicate(path, family))
        elif family == "IPv6" and not selectorless_headless:
            errors.append(invalid(path, family, "not configured on this cluster"))
        seen.append(family)
    if errors:
        return errors
    ips, single = spec.get("clusterIPs", []), spec.get("clusterIP", "")
    text = "first value must match `clusterIP`"
    errors += when(single and ips and ips[0] != single, invalid, "spec.clusterIPs", ips, text)
    text = "must be empty when `clusterIP` is not specified"
    errors += when(not single and ips, invalid, "spec.clusterIPs", ips, text)
    for index, ip in enumerate(ips):
        path = f"spec.clusterIPs[{index}]"
        if index == 0 and ip == "None":
            continue
        texts = names.ip_problems(ip)
        errors += problems(path, ip, texts)
    if errors:
        return errors
    errors += when(
        policy == "RequireDualStack" and not selectorless_headless,
        invalid,
        "spec.ipFamilyPolicy",
        policy,
        "this cluster is not configured for dual-stack services",
    )
    return errors


def with_address(ctx: Context, tree: Tree, spec: Tree) -> Tree:
    """The spec with a cluster address: the wanted or the lowest free one."""
    ips = spec.get("clusterIPs") or []
    if ips == ["None"]:
        return {**spec, "clusterIP": "None", "clusterIPs": ["None"]}
    used = _used_addresses(ctx)
    if ips:
        problem = ""
        wanted = ipaddress.ip_address(ips[0])
        ends = (SERVICE_RANGE.network_address, SERVICE_RANGE.broadcast_address)
        if wanted not in SERVICE_RANGE or wanted in ends:
            problem = "the provided network does not match the current range"
        elif ips[0] in used:
            problem = "provided IP is already allocated"
        if problem:
            raise status.invalid(
                ctx.info,
                tree["metadata"].get("name", ""),
                [invalid("spec.clusterIPs", ips, f"failed to allocate IP {ips[0]}: {problem}")],
            )
        return spec
    if ctx.dry_run:  # as upstream: no free address is looked for
        first_of_range = str(SERVICE_RANGE.network_address)
        return {**spec, "clusterIP": first_of_range, "clusterIPs": [first_of_range]}
    hosts = [str(address) for address in SERVICE_RANGE.hosts()][1:]
    first = ctx.cursors.get("service addresses", 0)
    for step in range(len(hosts)):
        index = (first + step) % len(hosts)
        if hosts[index] not in used:
            ctx.cursors["service addresses"] = index + 1
            return {**spec, "clusterIP": hosts[index], "clusterIPs": [hosts[index]]}
    raise status.internal_error("failed to allocate a serviceIP: range is full")


def _used_addresses(ctx: Context) -> frozenset[str]:
    used = []
    for _, obj in ctx.siblings:
        used += obj.tree["spec"].get("clusterIPs", ())
    return frozenset(used)


def with_ports(ctx: Context, tree: Tree, spec: Tree, was: Tree | None) -> Tree:
    """Node ports of services that want them, and the health check port."""
    meta = tree["metadata"]
    key = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    used: dict[int, None] | None = None
    if was is None:
        key = ""  # one of the same name is in the way like any other
    allocates = _wants_node_ports(spec)
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        used = _used_ports(ctx, key)
        old_ports = {p.get("nodePort") for p in (was or {}).get("ports", ())}
        ports: list[Tree] = []
        own: dict[tuple[str, int], None] = {}
        reserved = {p["nodePort"] for p in spec.get("ports", ()) if p.get("nodePort")}
        reserved |= {part.get("healthCheckNodePort", 0) for part in (spec, was or {})}
        for index, port in enumerate(spec.get("ports", [])):
            number = port.get("nodePort", 0)
            if number:
                path = f"spec.ports[{index}].nodePort"
                if number not in old_ports:
                    _check_port(ctx, tree, path, number, used)
            elif not allocates:  # only ports that were asked for
                ports.append(port)
                continue
            elif ctx.dry_run:  # as upstream: a number beyond the range stands for the one to come
                number = max((NODE_PORTS.stop, *(n for _, n in own))) + 1
            else:
                number = _next_port(used, reserved | {n for _, n in own})
                shared = _shared_port(ports, port)
                if shared:
                    number = shared
            port = {**port, "nodePort": number}
            own[port.get("protocol", "TCP"), number] = None
            ports.append(port)
        if ports:
            spec = {**spec, "ports": ports}
    if _wants_health_port(spec) and not spec.get("healthCheckNodePort"):
        used = used if used is not None else _used_ports(ctx, key)
        taken = {p.get("nodePort", 0) for p in spec.get("ports", ())}
        spec = {**spec, "healthCheckNodePort": _next_port(used, taken)}
    return spec


def _shared_port(ports: list[Tree], port: Tree) -> int:
    """Ports of the same number in different protocols share their node port."""
    for other in ports:
        if other.get("port") == port.get("port") and other.get("protocol") != port.get("protocol"):
            number: int = other.get("nodePort", 0)
            return number
    return 0


def _check_port(ctx: Context, tree: Tree, path: str, number: int, used: dict[int, None]) -> None:
    problem = ""
    if number not in NODE_PORTS:
        problem = (
            "provided port is not in the valid range. The range of valid ports is "
            f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
        )
    elif number in used:
        problem = "provided port is already allocated"
    if problem:
        raise status.invalid(
            ctx.info, tree["metadata"].get("name", ""), [invalid(path, number, problem)]
        )


def _used_ports(ctx: Context, but: str) -> dict[int, None]:
    used: dict[int, None] = {}
    for key, obj in ctx.siblings:
        if key == but:
            continue
        spec = obj.tree["spec"]
        for port in spec.get("ports", ()):
            if port.get("nodePort"):
                used[port["nodePort"]] = None
        if spec.get("healthCheckNodePort"):
            used[spec["healthCheckNodePort"]] = None
    return used


def _next_port(used: dict[int, None], also: set[int]) -> int:
    for number in NODE_PORTS:
        if number not in used and number not in also:
            return number
    raise status.internal_error("failed to allocate a nodePort: range is full")
