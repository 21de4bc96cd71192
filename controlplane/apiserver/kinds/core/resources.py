"""Resource names and amounts. Upstream: pkg/apis/core/validation, pkg/apis/core/helper."""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.equality import remembered
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import problems, when
from controlplane.apiserver.kinds.trees import inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from controlplane.apiserver.schema.work import spend

__all__ = [
    "STANDARD_QUOTA",
    "is_extended",
    "is_native",
    "overcommit_allowed",
    "resource_list",
    "resources",
    "validate_amount",
    "validate_positive",
    "validate_quota_name",
    "validate_requirements",
    "validate_resource_name",
]


@remembered(16384)
def _milli(text: str) -> str:
    """Resource amounts are rounded up to thousandths."""
    return str(quantity.parse(text).round_up(quantity.MILLI)[0])


def resource_list(amounts: Tree) -> Tree:
    """A resource list with every amount rounded up to thousandths."""
    for text in amounts.values():
        if _milli(text) != text:
            return {name: _milli(text) for name, text in amounts.items()}
    return amounts


def resources(tree: Tree) -> Tree:
    """Resource requirements with rounded amounts."""
    return inside(inside(tree, "limits", resource_list), "requests", resource_list)


_CONTAINER = ("cpu", "memory", "ephemeral-storage")
STANDARD_QUOTA = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
)


_STANDARD = (*STANDARD_QUOTA, "storage", "requests.hugepages-2Mi")
_INTEGERS = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)


_QOS = ("cpu", "memory")
_RESOURCE = 8
"""Steps to look at a resource: its name is looked at more than once, and its amount."""


def is_huge_page(name: str) -> bool:
    """A huge page resource."""
    return name.startswith("hugepages-")


def is_native(name: str) -> bool:
    """A resource of Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether a resource is an extended one, defined outside of Kubernetes."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name("requests." + name)


def is_standard(name: str) -> bool:
    """A name that means something without a prefix."""
    return name in _STANDARD or name.startswith(("hugepages-", "requests.hugepages-"))


def overcommit_allowed(name: str) -> bool:
    """Return whether limits may exceed requests."""
    return is_native(name) and not is_huge_page(name)


def validate_resource_name(name: str, path: str) -> list[FieldError]:
    """Return the errors of a standard or fully qualified resource name."""
    errors = [invalid(path, name, problem) for problem in names.qualified_name(name)]
    text = "must be a standard resource type or fully qualified"
    errors += when(
        not errors and "/" not in name and not is_standard(name), invalid, path, name, text
    )
    return errors


def validate_container_resource_name(name: str, path: str) -> list[FieldError]:
    """Return the errors of a resource that a container may ask for."""
    if name in _CONTAINER:
        return []
    errors = validate_resource_name(name, path)
    if "/" not in name:
        text = "must be a standard resource for containers"
        errors += when(not is_huge_page(name), invalid, path, name, text)
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def validate_amount(name: str, text: str, path: str) -> list[FieldError]:
    """Not negative; whole where only whole ones make sense."""
    amount = quantity.parse(text)
    errors = when(amount.sign() < 0, invalid, path, text, "must be greater than or equal to 0")
    errors += when(
        (name in _INTEGERS or is_extended(name)) and amount.milli_value() % 1000,
        invalid,
        path,
        text,
        "must be an integer",
    )
    return errors


def validate_positive(text: str, path: str) -> list[FieldError]:
    """More than nothing."""
    if quantity.parse(text).sign() <= 0:
        return [invalid(path, text, "must be greater than zero")]
    return []


def _huge_page(name: str, text: str, path: str) -> list[FieldError]:
    try:
        size = quantity.parse(name[len("hugepages-") :]).value()
    except ValueError:
        return []
    value = quantity.parse(text).value()
    if size and value % size:
        return [invalid(path, text, f"{text} is not positive integer multiple of {name}")]
    return []


def validate_requirements(
    requirements: Tree, path: str, claims: list[str] | None = None, *, pod_level: bool = False
) -> list[FieldError]:
    """Limits and requests of a container or a pod."""
    if not requirements:
        return []
    errors: list[FieldError] = []
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    base, huge = False, False
    name_rule = validate_pod_resource_name if pod_level else validate_container_resource_name
    spend(_RESOURCE * (len(limits) + len(requests)))
    for name in limits:
        text, place = limits[name], f"{path}.limits[{name}]"
        if name in _QOS:
            base = True
        errors += name_rule(name, place)
        errors += validate_amount(name, text, place)
        if is_huge_page(name):
            huge = True
            errors += _huge_page(name, text, place)
    for name in requests:
        text, place = requests[name], f"{path}.requests[{name}]"
        if name in _QOS:
            base = True
        errors += name_rule(name, place)
        errors += validate_amount(name, text, place)
        limit = limits.get(name)
        if limit is not None:
            order = quantity.parse(text).cmp(quantity.parse(limit))
            if order and not overcommit_allowed(name):
                problem = f"must be equal to {name} limit of {limit}"
                errors.append(invalid(f"{path}.requests", text, problem))
            elif order > 0:
                problem = f"must be less than or equal to {name} limit of {limit}"
                errors.append(invalid(f"{path}.requests", text, problem))
        elif not overcommit_allowed(name):
            problem = "Limit must be set for non overcommitable resources"
            errors.append(required(f"{path}.limits", problem))
        if is_huge_page(name):
            huge = True
            errors += _huge_page(name, text, place)
    errors += when(huge and not base, forbidden, path, "HugePages require cpu or memory")
    if requirements.get("claims"):
        errors += _claims(requirements["claims"], claims or [], f"{path}.claims")
    return errors


def validate_pod_resource_name(name: str, path: str) -> list[FieldError]:
    """Return the errors of a resource that a pod as a whole may ask for."""
    if name in _QOS or is_huge_page(name):
        return []
    errors = validate_resource_name(name, path)
    return errors or [not_supported(path, name, ("cpu", "hugepages-", "memory"))]


def _claims(claims: list[Tree], known: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[tuple[str, str], None] = {}
    names_known = dict.fromkeys(known)
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(place))
            continue
        if request:
            errors += problems(f"{place}.request", request, names.dns_label(request))
        if (name, request) in seen or (name, "") in seen:
            errors.append(duplicate(place, name))
        else:
            seen[name, request] = None
        if name not in names_known:
            error = not_found(place, name)
            detail = "must be one of the names in pod.spec.resourceClaims"
            if not known:
                detail += " which is empty"
            else:
                detail += ": " + ", ".join(known)
            errors.append(FieldError(error.reason, place, name, detail))
    return errors


_CLASSES = ("requests.storage", "persistentvolumeclaims")


def validate_quota_name(name: str, path: str) -> list[FieldError]:
    """Return the errors of a resource that a quota may limit."""
    errors = validate_resource_name(name, path)
    errors += when(
        "/" not in name
        and name not in STANDARD_QUOTA
        and not name.startswith(("hugepages-", "requests.hugepages-")),
        invalid,
        path,
        name,
        "must be a standard resource for quota",
    )
    return errors
