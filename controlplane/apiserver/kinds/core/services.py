"""Services: defaults, rules and the strategy. Upstream: pkg/registry/core/service, pkg/apis/core/validation."""

from __future__ import annotations

import ipaddress
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, labels_text, name_of, part_of
from controlplane.apiserver.kinds.checks import (
    cidr_problems,
    name_at,
    problems,
    when,
    word,
)
from controlplane.apiserver.kinds.core import earlier_services
from controlplane.apiserver.kinds.core.pods.probes import port_or_name
from controlplane.apiserver.kinds.core.service_addresses import (
    cluster_ip_errors,
    is_external,
    normal_ips,
    with_address,
    with_families,
    with_kept,
    with_policy,
    with_ports,
    without_dropped,
)
from controlplane.apiserver.kinds.kind import META, Kind
from controlplane.apiserver.kinds.metadata import validate_labels
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.kinds.strategy import Context, Strategy, with_status
from controlplane.apiserver.kinds.trees import each, filled, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["KIND", "validate_ingress_points", "validate_not_special"]


def _service_port(port: Tree) -> Tree:
    if not port.get("protocol"):
        port = {**port, "protocol": "TCP"}
    if port.get("targetPort") in (None, 0, ""):
        port = {**port, "targetPort": port.get("port", 0)}
    return port


def default_service(tree: Tree) -> Tree:
    """Defaults of a service."""

    def spec(spec: Tree) -> Tree:
        spec = filled(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
        kind = spec["type"]
        defaults: Tree = {}
        if spec["sessionAffinity"] == "None":
            spec = {key: value for key, value in spec.items() if key != "sessionAffinityConfig"}
        elif spec["sessionAffinity"] == "ClientIP":
            config = spec.get("sessionAffinityConfig") or {}
            client = config.get("clientIP") or {}
            if "timeoutSeconds" not in client:
                config = {**config, "clientIP": {**client, "timeoutSeconds": 10800}}
                spec = {**spec, "sessionAffinityConfig": config}
        if kind in {"NodePort", "LoadBalancer"}:
            defaults["externalTrafficPolicy"] = "Cluster"
        if kind in {"NodePort", "LoadBalancer", "ClusterIP"}:
            defaults["internalTrafficPolicy"] = "Cluster"
        if kind == "LoadBalancer":
            defaults["allocateLoadBalancerNodePorts"] = True
        return each(filled(spec, defaults), "ports", _service_port)

    tree = in_spec(tree, spec)
    if (tree.get("spec") or {}).get("type") != "LoadBalancer":
        return tree
    return inside(tree, "status", _ingress_modes)


def _ingress_modes(status: Tree) -> Tree:
    """Addresses of a load balancer are virtual ones unless they say otherwise."""

    def point(point: Tree) -> Tree:
        return filled(point, {"ipMode": "VIP"}) if point.get("ip") else point

    return inside(status, "loadBalancer", lambda balancer: each(balancer, "ingress", point))


_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_MAX_AFFINITY = 86400


def _wants_ip(spec: Tree) -> bool:
    return spec.get("type") in ("ClusterIP", "NodePort", "LoadBalancer")


def validate_service(tree: Tree) -> list[FieldError]:
    """Return the errors of a new service."""
    return _service_errors(tree, {})


def _service_errors(tree: Tree, was: Tree) -> list[FieldError]:
    """Return the errors of a service whose spec was `was`: addresses that stand already are not read again."""
    spec = tree.get("spec") or {}
    kind = spec.get("type", "")
    headless = (spec.get("clusterIPs") or [""])[0] == "None"
    ports = spec.get("ports") or []
    errors = when(not ports and not headless and kind != "ExternalName", required, "spec.ports")
    if kind == "LoadBalancer":
        for index, port in enumerate(ports):
            text = "may not expose port 10250 externally since it is used by kubelet"
            errors += when(
                port.get("port") == 10250, invalid, f"spec.ports[{index}]", port.get("port"), text
            )
        text = "may not be set to 'None' for LoadBalancer services"
        errors += when(headless, invalid, "spec.clusterIPs[0]", "None", text)
    elif kind == "NodePort":
        text = "may not be set to 'None' for NodePort services"
        errors += when(headless, invalid, "spec.clusterIPs[0]", "None", text)
    elif kind == "ExternalName":
        errors += _external_name(spec)
    several = len(ports) > 1
    seen: dict[str, None] = {}
    for index, port in enumerate(ports):
        errors += _port(port, several, seen, f"spec.ports[{index}]")
    if spec.get("selector"):
        errors += validate_labels(spec["selector"], "spec.selector")
    errors += _affinity(spec)
    errors += word(kind, "spec.type", _TYPES)
    errors += _cluster_ips(spec, was.get("clusterIPs") or [])
    errors += _external_ips(spec.get("externalIPs") or [], "spec.externalIPs")
    if kind in ("ClusterIP", ""):
        for index, port in enumerate(ports):
            text = "may not be used when `type` is 'ClusterIP'"
            errors += when(port.get("nodePort"), forbidden, f"spec.ports[{index}].nodePort", text)
    errors += _unique_ports(ports)
    errors += _source_ranges(tree, spec)
    errors += when(
        "allocateLoadBalancerNodePorts" in spec and kind != "LoadBalancer",
        forbidden,
        "spec.allocateLoadBalancerNodePorts",
        "may only be used when `type` is 'LoadBalancer'",
    )
    errors += _balancer_class(spec)
    errors += _external_traffic(spec)
    errors += _internal_traffic(spec)
    return errors + _distribution(spec)


def _external_name(spec: Tree) -> list[FieldError]:
    text = "may not be set for ExternalName services"
    errors = when(spec.get("clusterIPs"), forbidden, "spec.clusterIPs", text)
    errors += when(spec.get("ipFamilies"), forbidden, "spec.ipFamilies", text)
    errors += when("ipFamilyPolicy" in spec, forbidden, "spec.ipFamilyPolicy", text)
    name = spec.get("externalName", "").removesuffix(".")
    if name:
        errors += problems("spec.externalName", name, names.dns_subdomain(name))
    else:
        errors.append(required("spec.externalName"))
    return errors


def _port(port: Tree, several: bool, seen: dict[str, None], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = port.get("name", "")
    if several and not name:
        errors.append(required(f"{path}.name"))
    elif name:
        errors += problems(f"{path}.name", name, names.dns_label(name))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        else:
            seen[name] = None
    number = port.get("port", 0)
    errors += problems(f"{path}.port", number, names.port_number(number))
    protocol = port.get("protocol", "")
    errors += word(protocol, f"{path}.protocol", _PROTOCOLS)
    errors += port_or_name(port.get("targetPort", 0), f"{path}.targetPort")
    app = port.get("appProtocol")
    if app is not None:
        errors += label_name(app, f"{path}.appProtocol")
    return errors


def _affinity(spec: Tree) -> list[FieldError]:
    affinity = spec.get("sessionAffinity", "")
    if affinity not in ("ClientIP", "None"):
        if not affinity:
            return [required("spec.sessionAffinity")]
        return [not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))]
    config = spec.get("sessionAffinityConfig")
    if affinity == "None":
        if config is not None:
            text = "must not be set when session affinity is None"
            return [forbidden("spec.sessionAffinityConfig", text)]
        return []
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None:
        return [required(path)]
    if not 0 < seconds <= _MAX_AFFINITY:
        text = f"must be greater than 0 and less than or equal to {_MAX_AFFINITY}"
        return [invalid(path, seconds, text)]
    return []


def _cluster_ips(spec: Tree, had: list[str]) -> list[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    needed = when(_wants_ip(spec) and not policy, required, "spec.ipFamilyPolicy")
    return needed + cluster_ip_errors(spec, had)


def _external_ips(ips: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, text in enumerate(ips):
        place = f"{path}[{index}]"
        texts = names.ip_problems(text)
        if texts:
            errors += problems(place, text, texts)
            continue
        errors += validate_not_special(text, place)
    return errors


def validate_not_special(text: str, path: str) -> list[FieldError]:
    """Return the errors of an address that no endpoint can have."""
    ip = ipaddress.ip_address(text)
    if ip.is_unspecified:
        return [invalid(path, text, f"may not be unspecified ({text})")]
    if ip.is_loopback:
        return [invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if ip.is_link_local:
        problem = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        return [invalid(path, text, problem)]
    if ip.is_multicast and str(ip).startswith(("224.0.0.", "ff02:")):
        problem = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        return [invalid(path, text, problem)]
    return []


def _unique_ports(ports: list[Tree]) -> list[FieldError]:
    errors: list[FieldError] = []
    node_ports: dict[tuple[str, int], None] = {}
    numbers: dict[tuple[str, int], None] = {}
    for index, port in enumerate(ports):
        number = port.get("nodePort", 0)
        if not number:
            continue
        key = (port.get("protocol", ""), number)
        errors += when(key in node_ports, duplicate, f"spec.ports[{index}].nodePort", number)
        node_ports[key] = None
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in numbers:
            errors.append(
                duplicate(
                    f"spec.ports[{index}]",
                    {
                        "Name": "",
                        "Protocol": port.get("protocol", ""),
                        "AppProtocol": None,
                        "Port": port.get("port", 0),
                        "TargetPort": 0,
                        "NodePort": 0,
                    },
                )
            )
        numbers[key] = None
    return errors


_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"


def _source_ranges(tree: Tree, spec: Tree) -> list[FieldError]:
    ranges = spec.get("loadBalancerSourceRanges") or []
    errors: list[FieldError] = []
    path = "spec.LoadBalancerSourceRanges"
    if ranges:
        problem = "may only be used when `type` is 'LoadBalancer'"
        errors += when(spec.get("type") != "LoadBalancer", forbidden, path, problem)
        for index, text in enumerate(ranges):
            errors += problems(f"{path}[{index}]", text, cidr_problems(text.strip()))
        return errors
    annotations = tree["metadata"].get("annotations") or {}
    if annotations.get(_RANGES_ANNOTATION):
        place = f"metadata.annotations[{_RANGES_ANNOTATION}]"
        problem = "may only be used when `type` is 'LoadBalancer'"
        errors += when(spec.get("type") != "LoadBalancer", forbidden, place, problem)
        for text in annotations[_RANGES_ANNOTATION].strip().split(","):
            errors += problems(place, text, cidr_problems(text.strip()))
    return errors


def _balancer_class(spec: Tree) -> list[FieldError]:
    name = spec.get("loadBalancerClass")
    if name is None:
        return []
    if spec.get("type") != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        return [forbidden("spec.loadBalancerClass", text)]
    return label_name(name, "spec.loadBalancerClass")


def _external_traffic(spec: Tree) -> list[FieldError]:
    policy, kind = spec.get("externalTrafficPolicy", ""), spec.get("type")
    exposed = kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )
    errors: list[FieldError] = []
    if not exposed:
        text = "may only be set for externally-accessible services"
        errors += when(policy, invalid, "spec.externalTrafficPolicy", policy, text)
    elif not policy:
        errors.append(required("spec.externalTrafficPolicy"))
    elif policy not in ("Cluster", "Local"):
        errors.append(not_supported("spec.externalTrafficPolicy", policy, ("Cluster", "Local")))
    port = spec.get("healthCheckNodePort", 0)
    wants = kind == "LoadBalancer" and policy == "Local"
    if wants:
        errors += name_at(port, "spec.healthCheckNodePort", names.port_number)
    elif port:
        errors.append(
            invalid(
                "spec.healthCheckNodePort",
                port,
                (
                    "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
                ),
            )
        )
    return errors


def _internal_traffic(spec: Tree) -> list[FieldError]:
    if spec.get("type") == "ExternalName":
        return []
    policy = spec.get("internalTrafficPolicy")
    if policy is None:
        if spec.get("type") in ("NodePort", "LoadBalancer", "ClusterIP"):
            return [required("spec.internalTrafficPolicy")]
        return []
    if policy not in ("Cluster", "Local"):
        return [not_supported("spec.internalTrafficPolicy", policy, ("Cluster", "Local"))]
    return []


def _distribution(spec: Tree) -> list[FieldError]:
    choice = spec.get("trafficDistribution")
    choices = ("PreferClose", "PreferSameZone", "PreferSameNode")
    if choice is None or choice in choices:
        return []
    return [not_supported("spec.trafficDistribution", choice, choices, sort=False)]


def validate_service_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed service; addresses once given stay."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors: list[FieldError] = []
    if _wants_ip(was) and _wants_ip(spec):
        ips, had = spec.get("clusterIPs") or [], was.get("clusterIPs") or []
        text = "may not change once set"
        errors += when(ips and had and ips[0] != had[0], invalid, "spec.clusterIPs[0]", ips, text)
        families, before = spec.get("ipFamilies") or [], was.get("ipFamilies") or []
        errors += when(
            families and before and families[0] != before[0],
            invalid,
            "spec.ipFamilies[0]",
            families,
            "may not change once set",
        )
    if was.get("type") == "LoadBalancer" and spec.get("type") == "LoadBalancer":
        name = spec.get("loadBalancerClass")
        changed = name != was.get("loadBalancerClass")
        text = "may not change once set"
        errors += when(changed, invalid, "spec.loadBalancerClass", name, text)
    return errors + _balancer_class(spec) + _service_errors(new, was)


def validate_service_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Addresses of a load balancer."""
    spec, status = new.get("spec") or {}, new.get("status") or {}
    ingress = (status.get("loadBalancer") or {}).get("ingress") or []
    return validate_ingress_points(
        ingress, spec.get("type") == "LoadBalancer", "status.loadBalancer"
    )


def validate_ingress_points(points: list[Tree], allowed: bool, path: str) -> list[FieldError]:
    """Return the errors of the ingress points of a load balancer."""
    errors: list[FieldError] = []
    if not allowed and points:
        text = "may only be used when `spec.type` is 'LoadBalancer'"
        errors.append(forbidden(f"{path}.ingress", text))
        return errors
    for index, point in enumerate(points):
        place = f"{path}.ingress[{index}]"
        ip, host = point.get("ip", ""), point.get("hostname", "")
        if ip:
            errors += problems(f"{place}.ip", ip, names.ip_problems(ip))
        mode = point.get("ipMode")
        errors += when(
            ip and mode is not None and mode not in ("Proxy", "VIP"),
            not_supported,
            f"{place}.ipMode",
            mode,
            ("Proxy", "VIP"),
        )
        if host:
            errors += problems(f"{place}.hostname", host, names.dns_subdomain(host))
            text = "must be a DNS name, not an IP address"
            errors += when(not names.ip_problems(host), invalid, f"{place}.hostname", host, text)
    return errors


_HINTS = "service.kubernetes.io/topology-aware-hints"


def service_warnings(tree: Tree) -> list[str]:
    """Warnings for a service."""
    spec = tree.get("spec") or {}
    found: list[str] = []
    if _HINTS in (tree["metadata"].get("annotations") or {}):
        found.append(
            f"annotation {_HINTS} is deprecated, please use "
            "service.kubernetes.io/topology-mode instead"
        )
    external = spec.get("type") == "ExternalName"
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"
    if headless:
        found += [
            f"spec.{shown} is ignored for headless services"
            for key, shown in (
                ("loadBalancerIP", "loadBalancerIP"),
                ("externalIPs", "externalIPs"),
                ("sessionAffinity", "SessionAffinity"),
            )
            if spec.get(key) not in (None, "", [], "None")
        ]
    if spec.get("externalIPs") and not headless and not external:
        found.append(earlier_services.EXTERNAL_IPS)
    if external and spec.get("externalIPs"):
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not external and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


class ServiceStrategy(Strategy):
    """The strategy of services."""

    def defaults(self, tree: Tree, old: Tree | None) -> Tree:
        """The defaults of this kind."""
        parts = ("spec", "status")
        if old is not None and all(tree.get(key) is old.get(key) for key in parts):
            return tree
        return super().defaults(tree, old)

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new service."""
        errors = super().validate(ctx, tree)
        if not ctx.earlier:
            return errors
        named = earlier_services.name_errors(tree, ctx.earlier)
        return named + earlier_services.errors_of(tree, errors, ctx.earlier, ctx.gates)

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an updated service."""
        errors = super().validate_update(ctx, new, old)
        if not ctx.earlier:
            return errors
        return earlier_services.errors_of(new, errors, ctx.earlier, ctx.gates)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """Return the warnings about a written service."""
        texts = super().warnings(ctx, tree, old)
        return earlier_services.warnings_of(texts, ctx.earlier)

    def begin_create(self, ctx: Context, tree: Tree) -> Tree:
        """Allocate what a new object needs."""
        spec = normal_ips(tree["spec"], None)
        spec = with_policy(spec)
        spec = with_families(ctx, tree, spec, None)
        if not is_external(spec):
            spec = with_address(ctx, tree, spec)
        spec = with_ports(ctx, tree, spec, None)
        return {**tree, "spec": spec}

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        tree = {**tree, "status": {"loadBalancer": {}}}
        return {**tree, "spec": without_dropped(tree["spec"], None)}

    def begin_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Allocate what a changed object needs."""
        if new.get("spec") is old.get("spec"):
            return new
        was = old["spec"]
        spec = with_kept(new["spec"], was)
        spec = normal_ips(spec, was)
        spec = with_policy(spec)
        spec = with_families(ctx, new, spec, was)
        if is_external(was) and not is_external(spec):
            spec = with_address(ctx, new, spec)
        spec = with_ports(ctx, new, spec, was)
        return {**new, "spec": without_dropped(spec, was)}

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = with_status(new, old)
        if new["spec"].get("type") != "LoadBalancer" and (new.get("status") or {}).get(
            "loadBalancer"
        ):
            new = {**new, "status": {**new["status"], "loadBalancer": {}}}
        return new


def _external_ip(tree: Tree) -> str:
    spec = part_of(tree, "spec")
    kind, ips = spec.get("type"), spec.get("externalIPs") or []
    if kind == "LoadBalancer":
        points = part_of(part_of(tree, "status"), "loadBalancer").get("ingress") or []
        found = list(dict.fromkeys(p.get("ip") or p.get("hostname") or "" for p in points))
        text = ",".join(item for item in found if item)
        if ips:
            return ",".join([text, *ips] if text else ips)
        return text or "<pending>"
    if kind == "ExternalName":
        return spec.get("externalName") or "<none>"
    return ",".join(ips) or "<none>"


def _row(tree: Tree, now: int) -> list[Any]:
    spec = part_of(tree, "spec")
    ports = []
    for port in spec.get("ports") or ():
        text = f"{port.get('port', 0)}"
        if port.get("nodePort"):
            text += f":{port['nodePort']}"
        ports.append(f"{text}/{port.get('protocol', '')}")
    ips = spec.get("clusterIPs") or []
    return [
        name_of(tree),
        spec.get("type", ""),
        ips[0] if ips else "<none>",
        _external_ip(tree),
        ",".join(ports) or "<none>",
        age_of(tree, now),
        labels_text(spec.get("selector")),
    ]


KIND = Kind(
    strategy=ServiceStrategy(
        default=default_service,
        rule=validate_service,
        update_rule=validate_service_update,
        status_rule=validate_service_status,
        warn=service_warnings,
        empty_status={"loadBalancer": {}},
        allocates=True,
        returns_deleted=True,
        create_on_update=True,
        name_rule=names.dns_label,
    ),
    row=_row,
    selectable={**META, "spec.clusterIP": "", "spec.type": ""},
)
