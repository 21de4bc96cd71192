"""Validation of the smaller core kinds. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

import base64
import ipaddress
from typing import Any

from controlplane.api import quantity
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.metadata import validate_finalizer_name
from controlplane.apiserver.kinds.validation.containers import port_or_name
from controlplane.apiserver.kinds.validation.pods import validate_template
from controlplane.apiserver.kinds.validation.resources import (
    STANDARD_QUOTA,
    is_extended,
    is_native,
    overcommit_allowed,
    validate_amount,
    validate_quota_name,
    validate_resource_name,
)
from controlplane.apiserver.kinds.validation.selectors import label_name, validate_taint_effect
from controlplane.apiserver.kinds.validation.shared import cidr_problems, immutable, non_negative
from controlplane.apiserver.schema import go_json
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

Tree = dict[str, Any]

_DATA_LIMIT = 1024 * 1024


# -- config maps and secrets ---------------------------------------------------------------------


def validate_config_map(tree: Tree) -> list[FieldError]:
    """A config map."""
    errors: list[FieldError] = []
    data, binary = tree.get("data") or {}, tree.get("binaryData") or {}
    total = 0
    for key in sorted(data):
        errors += [invalid(f"data[{key}]", key, problem) for problem in names.config_key(key)]
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        total += len(data[key].encode())
    for key in sorted(binary):
        errors += [invalid(f"binaryData[{key}]", key, p) for p in names.config_key(key)]
        total += len(base64.b64decode(binary[key] or ""))
    if total > _DATA_LIMIT:
        errors.append(too_long("", _DATA_LIMIT))
    return errors


_FIXED = "field is immutable when `immutable` is set"


def _immutable_object(new: Tree, old: Tree, keys: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not old.get("immutable"):
        return errors
    if not new.get("immutable"):
        errors.append(forbidden("immutable", _FIXED))
    for key in keys:
        if (new.get(key) or {}) != (old.get(key) or {}):
            errors.append(forbidden(key, _FIXED))
    return errors


def validate_config_map_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed config map."""
    return _immutable_object(new, old, ("data", "binaryData")) + validate_config_map(new)


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def validate_secret(tree: Tree) -> list[FieldError]:
    """A secret."""
    errors: list[FieldError] = []
    data = tree.get("data") or {}
    total = 0
    for key in sorted(data):
        errors += [invalid(f"data[{key}]", key, problem) for problem in names.config_key(key)]
        total += len(base64.b64decode(data[key] or ""))
    if total > _DATA_LIMIT:
        errors.append(too_long("data", _DATA_LIMIT))
    kind = tree.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        key = "kubernetes.io/service-account.name"
        if not (tree["metadata"].get("annotations") or {}).get(key):
            errors.append(required(f"metadata.annotations[{key}]"))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors += [required("data[username]"), required("data[password]")]
    elif kind in _SECRET_KEYS:
        errors += [required(f"data[{key}]") for key in _SECRET_KEYS[kind] if key not in data]
    elif kind in _DOCKER_KEYS:
        key = _DOCKER_KEYS[kind]
        if key not in data:
            errors.append(required(f"data[{key}]"))
        else:
            text = base64.b64decode(data[key] or "").decode("utf-8", "replace")
            problem = go_json.syntax_error(text)
            if problem:
                errors.append(invalid(f"data[{key}]", "<secret contents redacted>", problem))
    return errors


def validate_secret_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed secret; its type stays."""
    errors = immutable(new.get("type"), old.get("type"), "type")
    return errors + _immutable_object(new, old, ("data",)) + validate_secret(new)


# -- namespaces and nodes ------------------------------------------------------------------------


def validate_namespace(tree: Tree) -> list[FieldError]:
    """A namespace."""
    errors: list[FieldError] = []
    for finalizer in (tree.get("spec") or {}).get("finalizers") or ():
        errors += validate_finalizer_name(finalizer, "spec.finalizers")
    return errors


def validate_namespace_status(new: Tree, _old: Tree) -> list[FieldError]:
    """A namespace's phase follows its deletion."""
    phase = (new.get("status") or {}).get("phase", "")
    if new["metadata"].get("deletionTimestamp"):
        if phase != "Terminating":
            return [invalid("status.Phase", phase,
                            "may only be 'Terminating' if `deletionTimestamp` is not empty"
                            )]  # fmt: skip
    elif phase != "Active":
        return [invalid("status.Phase", phase,
                        "may only be 'Active' if `deletionTimestamp` is empty")]  # fmt: skip
    return []


def validate_node(tree: Tree) -> list[FieldError]:
    """A node."""
    spec = tree.get("spec") or {}
    errors = _taints(spec.get("taints") or [], "metadata.taints")
    errors += _node_resources(tree.get("status") or {})
    cidrs = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    bad = False
    for index, text in enumerate(cidrs):
        problems = cidr_problems(text)
        bad = bad or bool(problems)
        errors += [invalid(f"spec.podCIDRs[{index}]", text, problem) for problem in problems]
    if len(cidrs) > 1 and not bad:
        versions = [ipaddress.ip_network(text, strict=False).version for text in cidrs]
        if len(cidrs) > 2 or len(set(versions)) < len(versions):
            errors.append(invalid("spec.podCIDRs", cidrs,
                                  "may specify no more than one CIDR for each IP family"
                                  ))  # fmt: skip
    return errors


def _node_resources(status: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text in sorted((status.get("capacity") or {}).items()):
        path = f"status.capacity.{name}"
        errors += validate_amount(name, text, path)
    for name, text in sorted((status.get("allocatable") or {}).items()):
        path = f"status.allocatable.{name}"
        errors += validate_amount(name, text, path)
    return errors


def _taints(taints: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[tuple[str, str]] = []
    for index, taint in enumerate(taints):
        place = f"{path}[{index}]"
        key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
        errors += label_name(key, f"{place}.key")
        problems = names.label_value(value)
        if problems:
            errors.append(invalid(f"{place}.value", value, ";".join(problems)))
        if not effect:
            errors.append(required(f"{place}.effect"))
        else:
            errors += validate_taint_effect(effect, f"{place}.effect")
        if (key, effect) in seen:
            error = duplicate(place, {"Key": key, "Value": value, "Effect": effect,
                                      "TimeAdded": taint.get("timeAdded")})  # fmt: skip
            errors.append(FieldError(error.reason, place, error.value,
                                     "taints must be unique by key and effect pair"
                                     ))  # fmt: skip
        seen.append((key, effect))
    return errors


_NODE_MUTABLE = ("podCIDR", "podCIDRs", "providerID", "taints", "unschedulable", "configSource")


def validate_node_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed node."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = _node_resources(new.get("status") or {}) if new.get("status") is not old.get(
        "status") else []  # fmt: skip
    addresses: list[Tree] = []
    for index, address in enumerate((new.get("status") or {}).get("addresses") or ()):
        if address in addresses:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            errors.append(duplicate(f"status.addresses[{index}]", shown))
        addresses.append(address)
    cidrs = was.get("podCIDRs") or []
    if cidrs and spec.get("podCIDRs", []) != cidrs:
        errors.append(forbidden("spec.podCIDRs",
                                "node updates may not change podCIDR except from \"\" to valid"
                                ))  # fmt: skip
    if was.get("providerID") and spec.get("providerID") != was["providerID"]:
        errors.append(forbidden("spec.providerID",
                                "node updates may not change providerID except from \"\" to valid"
                                ))  # fmt: skip
    if spec.get("taints") is not was.get("taints"):
        errors += (
            _taints(spec.get("taints") or [], "metadata.taints") * 2
        )  # in both upstream checks
    kept = {k: v for k, v in spec.items() if k not in _NODE_MUTABLE}
    before = {k: v for k, v in was.items() if k not in _NODE_MUTABLE}
    if kept != before:
        errors.append(forbidden("spec", (
            "node updates may only change labels, taints, or capacity (or configSource, if the "
            "DynamicKubeletConfig feature gate is enabled)"
        )))  # fmt: skip
    return errors


# -- events --------------------------------------------------------------------------------------


def validate_event(tree: Tree, ctx: Any = None) -> list[FieldError]:
    """An event, by the older rules where it comes in the core group."""
    errors: list[FieldError] = []
    involved = tree.get("involvedObject") or {}
    meta = tree["metadata"]
    namespace = meta.get("namespace", "")
    legacy = ctx is None or ctx.info.group == "" or ctx.request.verb != "create"
    if legacy:
        errors += _event_namespace(involved, namespace)
        return errors
    if namespace != "default" and involved.get("namespace", "") != namespace:
        if involved.get("namespace"):
            errors.append(invalid("involvedObject.namespace",
                                  involved.get("namespace", ""), "does not match event.namespace"
                                  ))  # fmt: skip
    if not tree.get("eventTime"):
        errors.append(required("eventTime"))
    errors += _new_event(tree)
    return errors


def _event_namespace(involved: Tree, namespace: str) -> list[FieldError]:
    given = involved.get("namespace", "")
    if not given:
        if namespace not in ("", "default"):
            return [invalid("involvedObject.namespace", given, "does not match event.namespace")]
        return []
    if given != namespace and not (not given and namespace == "default"):
        return [invalid("involvedObject.namespace", given, "does not match event.namespace")]
    return []


def _new_event(tree: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = tree.get("reportingComponent", "")
    if not controller:
        errors.append(required("reportingController"))
    else:
        errors += [invalid("reportingController", controller, p)
                   for p in names.qualified_name(controller)]  # fmt: skip
    instance = tree.get("reportingInstance", "")
    if not instance:
        errors.append(required("reportingInstance"))
    elif len(instance) > 128:
        errors.append(invalid("reportingInstance", "", "can have at most 128 characters"))
    if not tree.get("action"):
        errors.append(required("action"))
    elif len(tree["action"]) > 128:
        errors.append(invalid("action", "", "can have at most 128 characters"))
    if not tree.get("reason"):
        errors.append(required("reason"))
    elif len(tree["reason"]) > 128:
        errors.append(invalid("reason", "", "can have at most 128 characters"))
    if len(tree.get("message", "")) > 1024:
        errors.append(invalid("message", "", "can have at most 1024 characters"))
    kind = tree.get("type", "")
    if not kind:
        errors.append(required("type"))
    elif kind not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    if tree.get("series") is not None:
        if not tree["series"].get("count"):
            errors.append(required("series.count"))
        if not tree["series"].get("lastObservedTime"):
            errors.append(required("series.lastObservedTime"))
    return errors


# -- endpoints -----------------------------------------------------------------------------------


def validate_endpoints(tree: Tree) -> list[FieldError]:
    """Endpoints."""
    errors: list[FieldError] = []
    for index, subset in enumerate(tree.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for key in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(key) or ()):
                errors += _endpoint_address(address, f"{path}.{key}[{number}]")
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            errors += _endpoint_port(port, len(ports) > 1, f"{path}.ports[{number}]")
    return errors


def _endpoint_address(address: Tree, path: str) -> list[FieldError]:
    ip = address.get("ip", "")
    errors = [invalid(f"{path}.ip", ip, problem) for problem in names.ip_problems(ip)]
    host = address.get("hostname", "")
    if host:
        errors += [invalid(f"{path}.hostname", host, p) for p in names.dns_label(host)]
    node = address.get("nodeName")
    if node is not None:
        errors += [invalid(f"{path}.nodeName", node, p) for p in names.dns_subdomain(node)]
    if not errors or not names.ip_problems(ip):
        from controlplane.apiserver.kinds.validation.services import _not_special

        if not names.ip_problems(ip):
            errors += _not_special(ip, f"{path}.ip")
    return errors


def _endpoint_port(port: Tree, several: bool, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = port.get("name", "")
    if several and not name:
        errors.append(required(f"{path}.name"))
    elif name:
        errors += [invalid(f"{path}.name", name, problem) for problem in names.dns_label(name)]
    number = port.get("port", 0)
    errors += [invalid(f"{path}.port", number, problem) for problem in names.port_number(number)]
    protocol = port.get("protocol", "")
    if not protocol:
        errors.append(required(f"{path}.protocol"))
    elif protocol not in ("SCTP", "TCP", "UDP"):
        errors.append(not_supported(f"{path}.protocol", protocol, ("SCTP", "TCP", "UDP")))
    return errors


_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def validate_endpoint_slice(tree: Tree) -> list[FieldError]:
    """An endpoint slice."""
    kind = tree.get("addressType", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        errors.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    endpoints = tree.get("endpoints") or []
    if len(endpoints) > 1000:
        from controlplane.apiserver.schema.field_errors import too_many

        errors.append(too_many("endpoints", len(endpoints), 1000))
        return errors
    for index, endpoint in enumerate(endpoints):
        errors += _slice_endpoint(endpoint, kind, f"endpoints[{index}]")
    seen: dict[str, None] = {}
    for index, port in enumerate(tree.get("ports") or ()):
        path = f"ports[{index}]"
        name = port.get("name") or ""
        if name:
            errors += [invalid(f"{path}.name", name, problem) for problem in names.dns_label(name)]
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen[name] = None
        protocol = port.get("protocol") or ""
        if not protocol:
            errors.append(required(f"{path}.protocol"))
        elif protocol not in ("SCTP", "TCP", "UDP"):
            errors.append(not_supported(f"{path}.protocol", protocol, ("SCTP", "TCP", "UDP")))
        app = port.get("appProtocol")
        if app is not None:
            errors += label_name(app, f"{path}.appProtocol")
    return errors


def _slice_endpoint(endpoint: Tree, kind: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    addresses = endpoint.get("addresses") or []
    if not addresses:
        errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > 100:
        from controlplane.apiserver.schema.field_errors import too_many

        errors.append(too_many(f"{path}.addresses", len(addresses), 100))
    if kind in {"IPv4", "IPv6"}:
        wanted = 4 if kind == "IPv4" else 6
        article = "an" if kind[0] in "aeiouI" else "a"
        for index, text in enumerate(addresses):
            place = f"{path}.addresses[{index}]"
            problems = names.ip_problems(text)
            if problems:
                errors += [invalid(place, text, problem) for problem in problems]
                continue
            if ipaddress.ip_address(text).version != wanted:
                errors.append(invalid(f"{path}.addresses", text,
                                      f"must be {article} {kind} address"))  # fmt: skip
            from controlplane.apiserver.kinds.validation.services import _not_special

            errors += _not_special(text, place)
    elif kind == "FQDN":
        for index, text in enumerate(addresses):
            errors += [
                invalid(f"{path}.addresses[{index}]", text, p) for p in names.dns_subdomain(text)
            ]
    node = endpoint.get("nodeName")
    if node is not None:
        errors += [invalid(f"{path}.nodeName", node, p) for p in names.dns_subdomain(node)]
    for key, value in sorted((endpoint.get("deprecatedTopology") or {}).items()):
        errors += label_name(key, f"{path}.deprecatedTopology[{key}]")
        errors += [invalid(f"{path}.deprecatedTopology[{key}]", value, p)
                   for p in names.label_value(value)]  # fmt: skip
    host = endpoint.get("hostname")
    if host is not None:
        errors += [invalid(f"{path}.hostname", host, p) for p in names.dns_label(host)]
    return errors


# -- limit ranges and quotas ---------------------------------------------------------------------


def validate_limit_range(tree: Tree) -> list[FieldError]:
    """A limit range."""
    errors: list[FieldError] = []
    kinds: dict[str, None] = {}
    for index, limit in enumerate((tree.get("spec") or {}).get("limits") or ()):
        errors += _limit(limit, kinds, f"spec.limits[{index}]")
    return errors


def _limit_name(kind: str, name: str, path: str) -> list[FieldError]:
    if kind in ("Pod", "Container"):
        errors = validate_resource_name(name, path)
        if "/" not in name and name not in ("cpu", "memory", "ephemeral-storage") and not (
            name.startswith("hugepages-")):  # fmt: skip
            errors.append(invalid(path, name, "must be a standard resource for containers"))
        elif "/" in name and not is_native(name) and not is_extended(name):
            errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
        return errors
    return validate_resource_name(name, path)


def _limit(limit: Tree, kinds: dict[str, None], path: str) -> list[FieldError]:
    kind = limit.get("type", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{path}.type"))
    else:
        problems = names.qualified_name(kind)
        errors += [invalid(f"{path}.type", kind, problem) for problem in problems]
        if not problems and "/" not in kind and kind not in (
            "Pod", "Container", "PersistentVolumeClaim"):  # fmt: skip
            errors.append(invalid(f"{path}.type", kind,
                                  "must be a standard limit type or fully qualified"
                                  ))  # fmt: skip
    if kind in kinds:
        errors.append(duplicate(f"{path}.type", kind))
    kinds[kind] = None
    parts = {key: limit.get(key) or {} for key in
             ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")}  # fmt: skip
    for key in ("max", "min"):
        for name in sorted(parts[key]):
            errors += _limit_name(kind, name, f"{path}.{key}[{name}]")
    if kind == "Pod":
        for key in ("default", "defaultRequest"):
            if parts[key]:
                errors.append(forbidden(f"{path}.{key}",
                                        "may not be specified when `type` is 'Pod'"
                                        ))  # fmt: skip
    else:
        for key in ("default", "defaultRequest"):
            for name in sorted(parts[key]):
                errors += _limit_name(kind, name, f"{path}.{key}[{name}]")
    if kind == "PersistentVolumeClaim":
        if "storage" not in parts["min"] and "storage" not in parts["max"]:
            errors.append(required(f"{path}.limits", (
                "either minimum or maximum storage value is required, but neither was provided"
            )))  # fmt: skip
    for name in sorted(parts["maxLimitRequestRatio"]):
        errors += _limit_name(kind, name, f"{path}.maxLimitRequestRatio[{name}]")
    keys = sorted({name for part in parts.values() for name in part})
    for name in keys:
        errors += _limit_order(name, parts, path)
    return errors


def _limit_order(name: str, parts: dict[str, Tree], path: str) -> list[FieldError]:
    """Minimum, default request, default and maximum do not cross."""
    errors: list[FieldError] = []
    text = {key: part.get(name) for key, part in parts.items()}
    amount = {key: None if value is None else quantity.parse(value) for key, value in text.items()}

    def above(a: str, b: str) -> bool:
        left, right = amount[a], amount[b]
        return left is not None and right is not None and left.cmp(right) > 0

    if above("min", "max"):
        errors.append(invalid(f"{path}.min[{name}]", text["min"],
                              f"min value {text['min']} is greater than max value {text['max']}"
                              ))  # fmt: skip
    if above("min", "defaultRequest"):
        errors.append(invalid(
            f"{path}.defaultRequest[{name}]", text["defaultRequest"],
            f"min value {text['min']} is greater than default request value "
            f"{text['defaultRequest']}",
        ))  # fmt: skip
    if above("defaultRequest", "max"):
        errors.append(invalid(
            f"{path}.defaultRequest[{name}]", text["defaultRequest"],
            f"default request value {text['defaultRequest']} is greater than max value "
            f"{text['max']}",
        ))  # fmt: skip
    if above("defaultRequest", "default"):
        errors.append(invalid(
            f"{path}.defaultRequest[{name}]", text["defaultRequest"],
            f"default request value {text['defaultRequest']} is greater than default limit value "
            f"{text['default']}",
        ))  # fmt: skip
    if above("min", "default"):
        errors.append(invalid(
            f"{path}.default[{name}]", text["min"],
            f"min value {text['min']} is greater than default value {text['default']}",
        ))  # fmt: skip
    if above("default", "max"):
        errors.append(invalid(
            f"{path}.default[{name}]", text["max"],
            f"default value {text['default']} is greater than max value {text['max']}",
        ))  # fmt: skip
    ratio = amount["maxLimitRequestRatio"]
    if ratio is not None and ratio.cmp(quantity.parse("1")) < 0:
        errors.append(invalid(f"{path}.maxLimitRequestRatio[{name}]", text["maxLimitRequestRatio"],
                              f"ratio {text['maxLimitRequestRatio']} is less than 1"
                              ))  # fmt: skip
    if not overcommit_allowed(name) and amount["default"] is not None and (
        amount["defaultRequest"] is not None
        and amount["default"].cmp(amount["defaultRequest"]) != 0
    ):  # fmt: skip
        errors.append(invalid(
            f"{path}.defaultRequest[{name}]", text["defaultRequest"],
            f"default value {text['default']} must equal to defaultRequest value "
            f"{text['defaultRequest']} in {name}",
        ))  # fmt: skip
    return errors


_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass",
           "CrossNamespacePodAffinity", "VolumeAttributesClass")  # fmt: skip
_POD_COUNTED = ("pods",)
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
            "pods", "ephemeral-storage", "requests.ephemeral-storage",
            "limits.ephemeral-storage")  # fmt: skip


def _scope_fits(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name in _POD_COUNTED
    if scope == "VolumeAttributesClass":
        return name in ("requests.storage", "persistentvolumeclaims")
    if scope in ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass"):
        return name in _COMPUTE or (name.startswith(("requests.", "hugepages-")) and (
            name != "requests.storage"))  # fmt: skip
    if scope == "CrossNamespacePodAffinity":
        return name in _POD_COUNTED or name in _COMPUTE
    return True


def validate_quota(tree: Tree) -> list[FieldError]:
    """A resource quota."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    errors = _hard(spec.get("hard") or {}, "spec.hard")
    errors += _scopes(spec, "spec")
    errors += _scope_selector(spec, "spec")
    errors += _hard(status.get("hard") or {}, "status.hard")
    return errors + _hard(status.get("used") or {}, "status.used")


def _hard(hard: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in sorted(hard):
        errors += validate_quota_name(name, f"{path}[{name}]")
        errors += validate_amount(name, hard[name], f"{path}[{name}]")
    return errors


def _scopes(spec: Tree, path: str) -> list[FieldError]:
    scopes = spec.get("scopes") or []
    place = f"{path}.scopes"
    errors: list[FieldError] = []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid(place, scopes, "unsupported scope"))
        else:
            for name in sorted(spec.get("hard") or {}):
                if name in STANDARD_QUOTA and not _scope_fits(scope, name):
                    errors.append(invalid(place, scopes, "unsupported scope applied to resource"))
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if all(scope in scopes for scope in pair):
            errors.append(invalid(place, scopes, "conflicting scopes"))
    return errors


def _scope_selector(spec: Tree, path: str) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if not selector:
        return []
    place = f"{path}.scopeSelector.matchExpressions"
    expressions = selector.get("matchExpressions") or []
    shown = {"MatchExpressions": [
        {"ScopeName": e.get("scopeName", ""), "Operator": e.get("operator", ""),
         "Values": e.get("values")} for e in expressions
    ]}  # fmt: skip
    errors: list[FieldError] = []
    names_seen = [e.get("scopeName", "") for e in expressions]
    for expression in expressions:
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{place}.scopeName", scope, "unsupported scope"))
        else:
            for name in sorted(spec.get("hard") or {}):
                if name in STANDARD_QUOTA and not _scope_fits(scope, name):
                    errors.append(invalid(place, shown, "unsupported scope applied to resource"))
        if scope in ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating",
                     "CrossNamespacePodAffinity") and operator != "Exists":  # fmt: skip
            errors.append(invalid(f"{place}.operator", operator, (
                "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )))  # fmt: skip
        values = expression.get("values") or []
        if operator in {"In", "NotIn"}:
            if not values:
                errors.append(required(f"{place}.values", (
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
                    "selector"
                )))  # fmt: skip
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                errors.append(invalid(f"{place}.values", values, (
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
                    "selector"
                )))  # fmt: skip
        else:
            errors.append(invalid(f"{place}.operator", operator, "not a valid selector operator"))
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if all(scope in names_seen for scope in pair):
            errors.append(invalid(f"{path}.scopeSelector.matchExpressions", shown,
                                  "conflicting scopes"))  # fmt: skip
    return errors


def validate_quota_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed quota; its scopes stay."""
    errors = validate_quota(new)
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    if sorted(spec.get("scopes") or []) != sorted(was.get("scopes") or []):
        errors.append(invalid("spec.scopes", spec.get("scopes"), "field is immutable"))
    return errors


def validate_quota_status(new: Tree, _old: Tree) -> list[FieldError]:
    """What a quota reports."""
    state = new.get("status") or {}
    errors = _hard(state.get("hard") or {}, "status.hard")
    return errors + _hard(state.get("used") or {}, "status.used")


# -- templates and revisions ---------------------------------------------------------------------


def validate_pod_template(tree: Tree) -> list[FieldError]:
    """A pod template."""
    return validate_template(tree.get("template") or {}, "template")


def validate_controller_revision(tree: Tree) -> list[FieldError]:
    """A controller revision."""
    errors: list[FieldError] = []
    if tree.get("data") is None:
        errors.append(required("data", "data is mandatory"))
    return errors + non_negative(tree.get("revision", 0), "revision")


def validate_controller_revision_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed controller revision; its data stays."""
    return validate_controller_revision(new) + immutable(new.get("data"), old.get("data"), "data")


__all__ = [
    "validate_config_map", "validate_config_map_update", "validate_controller_revision",
    "validate_controller_revision_update", "validate_endpoint_slice", "validate_endpoints",
    "validate_event", "validate_limit_range", "validate_namespace", "validate_namespace_status",
    "validate_node", "validate_node_update", "validate_pod_template", "validate_quota",
    "validate_quota_status", "validate_quota_update", "validate_secret", "validate_secret_update", "port_or_name",
]  # fmt: skip
