"""APIServices. Upstream: kube-aggregator pkg/registry/apiservice, pkg/apis/apiregistration."""

from __future__ import annotations

import base64

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import entries, present, problems
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.kinds.trees import filled, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    invalid,
    not_supported,
    required,
)

__all__ = ["CONDITION_STATES", "KIND"]


def default_api_service(tree: Tree) -> Tree:
    """The port of a served group."""
    return in_spec(
        tree, lambda spec: inside(spec, "service", lambda service: filled(service, {"port": 443}))
    )


def validate_api_service(tree: Tree) -> list[FieldError]:
    """Return the errors of an APIService; its name is version and group."""
    spec = tree.get("spec") or {}
    name = (tree.get("metadata") or {}).get("name", "")
    group, version = spec.get("group", ""), spec.get("version", "")
    wanted = f"{version}.{group}"
    errors: list[FieldError] = []
    if name and not names.path_segment(name) and name != wanted:
        text = f'must be `spec.version+"."+spec.group`: {quote(wanted)}'
        errors.append(invalid("metadata.name", name, text))
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required("spec.group", text))
    if group:
        errors += problems("spec.group", group, names.dns_subdomain(group))
    errors += problems("spec.version", version, names.dns_1035_label(version))
    for key, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(key, 0)
        if not 0 < value <= most:
            text = f"must be positive and less than {most}"
            errors.append(invalid(f"spec.{key}", value, text))
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    trusting = bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        if bundle:
            size = len(base64.b64decode(bundle))
            text = "local APIServices may not have a caBundle"
            errors.append(invalid("spec.caBundle", f"{size} bytes", text))
        if trusting:
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
        return errors
    errors += present(service, "namespace", "spec.service") + present(
        service, "name", "spec.service"
    )
    port = service.get("port", 443)
    found = names.port_number(port)
    if found:
        text = f"port is not valid: {','.join(found)}"
        errors.append(invalid("spec.service.port", port, text))
    if trusting and bundle:
        text = "may not be true if caBundle is present"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return errors


def validate_api_service_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Conditions of an APIService are true, false, or not known."""
    return [
        not_supported(f"{path}.status", condition.get("status", ""), CONDITION_STATES, sort=False)
        for condition, path in entries(new.get("status") or {}, "conditions", "status")
        if condition.get("status", "") not in CONDITION_STATES
    ]


CONDITION_STATES = ("True", "False", "Unknown")


def local_available(at: str) -> Tree:
    """The condition of an APIService that this server itself answers for."""
    return {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": at,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


class APIServiceStrategy(Strategy):
    """APIServices; those without a service are available at once."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        if (tree.get("spec") or {}).get("service") is not None:
            return {**tree, "status": {}}
        return {**tree, "status": {"conditions": [local_available(format_time(ctx.now))]}}


def _hosted(tree: Tree) -> tuple[str, str]:
    """Return the place of an API service, and its availability."""
    service = part_of(tree, "spec").get("service")
    place = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    for each in part_of(tree, "status").get("conditions") or ():
        if each.get("type") == "Available":
            state = each.get("status", "")
            return place, state if state == "True" else f"{state} ({each.get('reason', '')})"
    return place, "Unknown"


KIND = Kind(
    strategy=APIServiceStrategy(
        default=default_api_service,
        rule=validate_api_service,
        status_rule=validate_api_service_status,
        name_rule=names.path_segment,
        unconditional_update=False,
        status_keeps_meta=True,
        meta_steps="UA",
        standard_finalizers=False,
    ),
    row=lambda tree, now: [
        name_of(tree),
        *_hosted(tree),
        age_of(tree, now),
    ],
)
