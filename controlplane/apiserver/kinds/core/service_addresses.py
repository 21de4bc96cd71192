"""Cluster addresses, node ports and IP families of services. Upstream: pkg/registry/core/service/storage.

The cluster is single-stack IPv4. Addresses and ports that upstream draws at random from the upper band of
their range are drawn in order from that band here, and one that was freed comes last. The lower band,
left for requests of one address, serves when the upper one is full.
"""

from __future__ import annotations

import ipaddress
from collections import ChainMap
from collections.abc import Container, Sequence
from typing import Any

from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import optional_one_of, problems, when
from controlplane.apiserver.kinds.strategy import Context, without
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)

__all__ = [
    "cluster_ip_errors",
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
_EXPOSED = ("NodePort", "LoadBalancer")


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
    if old_many and not many and single == old_single:
        return {**spec, "clusterIPs": old_many}
    if single == old_single or many != old_many:
        return spec
    return {**spec, "clusterIPs": [single]} if single else without(spec, "clusterIPs")


def with_kept(spec: Tree, was: Tree) -> Tree:
    """A replacement that leaves allocated fields out keeps them."""
    out = dict(spec)
    if not is_external(spec) and not is_external(was):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and was.get(key):
                out[key] = was[key]
    if _wants_node_ports(spec) and _wants_node_ports(was):
        out["ports"] = _kept_ports(spec.get("ports", []), was.get("ports", []))
    if _wants_health_port(spec) and _wants_health_port(was) and not spec.get("healthCheckNodePort"):
        out["healthCheckNodePort"] = was.get("healthCheckNodePort", 0)
    return out


def _kept_ports(ports: list[Tree], was: list[Tree]) -> list[Tree]:
    """The ports with the node ports that those of the same names had, unless these are in use as before."""
    known = {port.get("name", ""): port.get("nodePort", 0) for port in was}
    new, old = (frozenset(port.get("nodePort", 0) for port in part) for part in (ports, was))
    out = []
    for port in ports:
        earlier = known.get(port.get("name", ""), 0)
        if not port.get("nodePort") and earlier and not (earlier in new and earlier in old):
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
    if is_external(spec) and "internalTrafficPolicy" in spec:  # upstream: left out when read
        spec = without(spec, "internalTrafficPolicy")
    if was is None:
        return spec
    kind, old_kind = spec.get("type"), was.get("type")
    if kind == "ExternalName" and old_kind != "ExternalName":
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(key) == was.get(key):
                spec = without(spec, key)
    if old_kind in _EXPOSED and kind not in _EXPOSED:
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
    return spec


def _external_traffic(spec: Tree) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer") or bool(
        spec.get("type") == "ClusterIP" and spec.get("externalIPs")
    )


def _same_ports(spec: Tree, was: Tree) -> bool:
    """Return whether all node ports were there before."""
    old = [port.get("nodePort", 0) for port in was.get("ports", [])]
    return all(port["nodePort"] in old for port in spec.get("ports", []) if port.get("nodePort"))


def with_policy(spec: Tree) -> Tree:
    """The spec with a policy of IP families."""
    if spec.get("type") == "ClusterIP" and spec.get("externalIPs"):
        if "externalTrafficPolicy" not in spec:
            spec = {**spec, "externalTrafficPolicy": "Cluster"}
    return spec


def with_families(ctx: Context, tree: Tree, spec: Tree, was: Tree | None) -> Tree:
    """Default the IP families of a single-stack cluster; ApiError 422 for what it cannot give."""
    if is_external(spec) or (was is not None and _stays_dual(spec, was)):
        return spec
    anywhere = spec.get("clusterIP") == "None" and not spec.get("selector")
    if "ipFamilyPolicy" not in spec:
        policy = "RequireDualStack" if anywhere else "SingleStack"
        spec = {**spec, "ipFamilyPolicy": (was or {}).get("ipFamilyPolicy") or policy}
    _refuse(ctx, tree, cluster_ip_errors(spec, (was or {}).get("clusterIPs") or []))
    if was is not None and spec["ipFamilyPolicy"] == "SingleStack":
        for key in ("clusterIPs", "ipFamilies"):
            if len(spec.get(key) or ()) > 1 and spec[key] == was.get(key):
                spec = {**spec, key: spec[key][:1]}
    errors = _reduced(spec, was) + _too_many(spec)
    spec, more = _inferred(spec)
    _refuse(ctx, tree, errors + more)
    families = spec.get("ipFamilies") or []
    if anywhere:
        families = families or ["IPv4"]
        if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
            families = [*families, "IPv6" if families[0] == "IPv4" else "IPv4"]
        return {**spec, "ipFamilies": families}
    text = "this cluster is not configured for dual-stack services"
    policy, path = spec["ipFamilyPolicy"], "spec.ipFamilyPolicy"
    errors = when(policy == "RequireDualStack", invalid, path, policy, text)
    for index, family in enumerate(families):
        path, text = f"spec.ipFamilies[{index}]", "not configured on this cluster"
        errors += when(family != "IPv4", invalid, path, family, text)
    _refuse(ctx, tree, errors)
    return spec if families else {**spec, "ipFamilies": ["IPv4"]}


def _refuse(ctx: Context, tree: Tree, errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid(ctx.info, tree["metadata"].get("name", ""), errors)


def _stays_dual(spec: Tree, was: Tree) -> bool:
    """Return whether a service that prefers two families is left as it is."""
    parts = ("type", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    same = all((spec.get(key) or None) == (was.get(key) or None) for key in parts)
    return same and spec.get("ipFamilyPolicy") == "PreferDualStack"


def _reduced(spec: Tree, was: Tree | None) -> list[FieldError]:
    """Return the errors of an update that gives up one of two families without saying so."""
    policy, path = spec["ipFamilyPolicy"], "spec.ipFamilyPolicy"
    if was is None or policy == "SingleStack":
        return []
    errors: list[FieldError] = []
    for key, name in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, before = spec.get(key) or (), was.get(key) or ()
        text = f"must be 'SingleStack' to release the secondary {name}"
        errors += when(now and len(now) < len(before), invalid, path, policy, text)
    return errors


def _too_many(spec: Tree) -> list[FieldError]:
    """Return the errors of a service of one family that names two."""
    policy, path = spec["ipFamilyPolicy"], "spec.ipFamilyPolicy"
    if policy != "SingleStack":
        return []
    errors: list[FieldError] = []
    for key, name in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
        text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {name} are specified"
        errors += when(len(spec.get(key) or ()) == 2, invalid, path, policy, text)
    return errors


def _inferred(spec: Tree) -> tuple[Tree, list[FieldError]]:
    """The spec with the families of addresses that stand there without one, and the errors of these."""
    errors: list[FieldError] = []
    families, ips = list(spec.get("ipFamilies") or ()), spec.get("clusterIPs") or []
    for index, ip in enumerate(ips):
        if ip == "None":
            break
        if index < len(families):
            continue
        if ":" in ip:
            text = "IPv6 is not configured on this cluster"
            errors.append(invalid(f"spec.clusterIPs[{index}]", ips, text))
        else:
            families.append("IPv4")
    return ({**spec, "ipFamilies": families} if families else spec), errors


def cluster_ip_errors(spec: Tree, had: list[str]) -> list[FieldError]:
    """Return the errors of cluster addresses, families and their policy; those in `had` stand already.

    Upstream: ValidateServiceClusterIPsRelatedFields of pkg/apis/core/validation.
    """
    if is_external(spec):
        return []
    errors: list[FieldError] = []
    ips, single = spec.get("clusterIPs") or [], spec.get("clusterIP", "")
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    where = "spec.clusterIPs"
    if single and not ips:
        errors.append(required(where))
    elif single and ips[0] != single:
        errors.append(invalid(where, ips, "first value must match `clusterIP`"))
    elif ips and not single:
        errors.append(invalid(where, ips, "must be empty when `clusterIP` is not specified"))
    for index, family in enumerate(families):
        path = f"spec.ipFamilies[{index}]"
        errors += when(family not in _FAMILIES, not_supported, path, family, _FAMILIES)
        errors += when(family in families[:index], duplicate, path, family)
    errors += optional_one_of(policy, "spec.ipFamilyPolicy", _POLICIES)
    bad: list[FieldError] = []
    for index, ip in enumerate(ips):
        if index == 0 and ip == "None":
            text = "'None' must be the first and only value"
            bad += when(len(ips) > 1, invalid, where, ips, text)
        elif ip not in had:
            bad += problems(f"{where}[{index}]", ip, names.ip_problems(ip))
    errors += bad
    errors += when(len(ips) > 2, invalid, where, ips, "may only hold up to 2 values")
    return errors if bad else errors + _family_errors(ips, families)


def _family_errors(ips: list[str], families: list[str]) -> list[FieldError]:
    """Return the errors of valid addresses that do not fit each other or their families."""
    errors: list[FieldError] = []
    where = "spec.clusterIPs"
    text = "may specify no more than one IP for each IP family"
    same = len(ips) > 1 and len({":" in ip for ip in ips}) < 2
    errors += when(same, invalid, where, ips, text)
    if ips == ["None"]:
        return errors
    for index, (ip, family) in enumerate(zip(ips, families, strict=False)):
        if family in _FAMILIES and (family == "IPv6") != (":" in ip):
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{where}[{index}]", ip, text))
    return errors


def with_address(ctx: Context, tree: Tree, spec: Tree) -> Tree:
    """The spec with a cluster address: the wanted or the next free one."""
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
        elif ips[0] in used and not ctx.dry_run:
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
    hosts = [str(address) for address in SERVICE_RANGE.hosts()]
    size = SERVICE_RANGE.num_addresses
    found = _drawn(ctx, "service addresses", hosts, min(max(16, size // 16), 256), used)
    if found is None:
        name = quote(tree["metadata"].get("name", ""))
        raise status.internal_error(
            f"failed to allocate a serviceIP for Service {name}: range is full"
        )
    return {**spec, "clusterIP": found, "clusterIPs": [found]}


def _drawn(
    ctx: Context, name: str, values: Sequence[Any], offset: int, used: Container[Any]
) -> Any | None:
    """The next free value of a range: of the band from `offset` on, else of the lower band; None if full."""
    upper, lower = values[offset:], values[:offset]
    first = ctx.cursors.get(name, 0)
    for step in range(len(upper)):
        index = (first + step) % len(upper)
        if upper[index] not in used:
            ctx.cursors[name] = index + 1
            return upper[index]
    return next((value for value in lower if value not in used), None)


def _used_addresses(ctx: Context) -> frozenset[str]:
    used = []
    for _, obj in ctx.siblings:
        used += obj.tree["spec"].get("clusterIPs", ())
    return frozenset(used)


def with_ports(ctx: Context, tree: Tree, spec: Tree, was: Tree | None) -> Tree:
    """Node ports of services that want them, and the health check port."""
    meta = tree["metadata"]
    key = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    draw = _Ports(ctx, tree, "" if was is None else key)
    if spec.get("type") in _EXPOSED and spec.get("ports"):
        ports = draw.created(spec) if was is None else draw.changed(spec, was)
        spec = {**spec, "ports": ports}
    if _wants_health_port(spec) and not (was is not None and _wants_health_port(was)):
        number = spec.get("healthCheckNodePort")
        if not number:
            return {**spec, "healthCheckNodePort": draw.next()}
        problem = draw.problem(number)
        if problem:
            text = f"failed to allocate requested HealthCheck NodePort {number}: {problem}"
            raise status.internal_error(text)
    return spec


class _Ports:
    """The node ports of one write: those that others have, and those that it has drawn itself.

    Upstream: initNodePorts and updateNodePorts of pkg/registry/core/service/storage/alloc.go.
    """

    def __init__(self, ctx: Context, tree: Tree, key: str) -> None:
        self._ctx, self._tree, self._key = ctx, tree, key
        self._others: dict[int, None] | None = None
        self._own: dict[int, None] = {}

    def _used(self) -> Container[int]:
        if self._others is None:
            self._others = _used_ports(self._ctx, self._key)
        return ChainMap(self._own, self._others)

    def problem(self, number: int) -> str:
        """Take a wanted port; return why that is impossible, or ""."""
        if number not in NODE_PORTS:
            return (
                "provided port is not in the valid range. The range of valid ports is "
                f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            )
        if number in self._used():
            return "provided port is already allocated"
        self._own[number] = None
        return ""

    def _take(self, index: int, number: int) -> None:
        problem = self.problem(number)
        if problem:
            path = f"spec.ports[{index}].nodePort"
            _refuse(self._ctx, self._tree, [invalid(path, number, problem)])

    def next(self) -> int:
        """Draw a port. A dry run answers a number beyond the range instead of one to come."""
        if self._ctx.dry_run:
            number = max((NODE_PORTS.stop, *self._own)) + 1
        else:
            offset = min(max(16, len(NODE_PORTS) // 32), 128)
            found = _drawn(self._ctx, "node ports", NODE_PORTS, offset, self._used())
            if found is None:
                raise status.internal_error("failed to allocate a nodePort: range is full")
            number = found
        self._own[number] = None
        return number

    def created(self, spec: Tree) -> list[Tree]:
        """The ports of a new service; those of one number share their node port."""
        given: list[Tree] = spec["ports"]
        chosen: dict[int, int] = {}
        ports: list[Tree] = []
        for index, port in enumerate(given):
            number, service_port = port.get("nodePort", 0), port.get("port", 0)
            if not number and not _wants_node_ports(spec):  # only ports that were asked for
                ports.append(port)
                continue
            shared = chosen.get(service_port)
            if shared is None:
                same = (each for each in given if each.get("port", 0) == service_port)
                number = next((each["nodePort"] for each in same if each.get("nodePort")), 0)
                if number:
                    self._take(index, number)
                else:
                    number = self.next()
                chosen[service_port] = number
            elif not number:
                number = shared
            elif number != shared:
                self._take(index, number)
            ports.append({**port, "nodePort": number})
        return ports

    def changed(self, spec: Tree, was: Tree) -> list[Tree]:
        """The ports of a changed service: ports that it had are not taken again."""
        old = [port.get("nodePort", 0) for port in was.get("ports") or ()]
        old.append(was.get("healthCheckNodePort", 0))
        self._own |= dict.fromkeys(number for number in old if number)
        ports: list[Tree] = []
        wanted: dict[int, None] = {}
        for index, port in enumerate(spec["ports"]):
            number = port.get("nodePort", 0)
            if number and number not in old and number not in wanted:
                self._take(index, number)
                wanted[number] = None
            elif not number and _wants_node_ports(spec):
                number = self.next()
            ports.append({**port, "nodePort": number} if number else port)
        return ports


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
